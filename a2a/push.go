package a2a

import "github.com/holdfast-dev/holdfast/internal/wire"

// PushAuthentication is how the server authenticates to a webhook: a
// [PushNotificationAuthenticationInfo], as A2A says, or a [SecurityScheme], an
// extension. No other type implements it.
type PushAuthentication interface{ pushAuthentication() }

var _ = wire.UnionOr("type", map[string]PushAuthentication{
	"http": HTTPAuthSecurityScheme{}, "apiKey": APIKeySecurityScheme{}, "oauth2": OAuth2SecurityScheme{},
	"openIdConnect": OpenIDConnectSecurityScheme{}, "mutualTLS": MutualTLSSecurityScheme{},
}, PushAuthentication(PushNotificationAuthenticationInfo{}))

// PushNotificationConfig is a webhook (A2A 0.3 section 6.8).
type PushNotificationConfig struct {
	// ID tells the configs of a task apart; the server makes one when it is absent.
	ID string `json:"id,omitempty"`
	// URL is absolute, http or https, with a host.
	URL string `json:"url" wire:"required"`
	// Token is a shared secret that comes back with each notification.
	Token          string             `json:"token,omitempty"`
	Authentication PushAuthentication `json:"authentication,omitempty"`
}

// PushNotificationAuthenticationInfo names the schemes a webhook takes, one or
// more such as Bearer (A2A 0.3 section 6.9). Credentials is a secret.
type PushNotificationAuthenticationInfo struct {
	Schemes     []string `json:"schemes" wire:"required"`
	Credentials string   `json:"credentials,omitempty"`
}

func (PushNotificationAuthenticationInfo) pushAuthentication() {}

// TaskPushNotificationConfig is a webhook of a task (A2A 0.3 section 6.10): the
// params and the result of tasks/pushNotificationConfig/set. The task's id is
// also accepted as id, which some peers send.
type TaskPushNotificationConfig struct {
	TaskID string                 `json:"taskId" wire:"required,alias=id"`
	Config PushNotificationConfig `json:"pushNotificationConfig" wire:"required"`
	// LongRunning, an extension, keeps the webhook across restarts.
	LongRunning bool `json:"longRunning,omitempty"`
}

// GetTaskPushNotificationConfigParams are the params of
// tasks/pushNotificationConfig/get (A2A 0.3 section 7.6). An empty ConfigID means
// the task's only one.
type GetTaskPushNotificationConfigParams struct {
	TaskID   string         `json:"id" wire:"required,alias=taskId,alias=task_id"`
	ConfigID string         `json:"pushNotificationConfigId,omitempty"`
	Metadata map[string]any `json:"metadata,omitzero"`
}

// ListTaskPushNotificationConfigParams are the params of
// tasks/pushNotificationConfig/list (A2A 0.3 section 7.7).
type ListTaskPushNotificationConfigParams struct {
	TaskID   string         `json:"id" wire:"required,alias=taskId,alias=task_id"`
	Metadata map[string]any `json:"metadata,omitzero"`
}

// DeleteTaskPushNotificationConfigParams are the params of
// tasks/pushNotificationConfig/delete (A2A 0.3 section 7.8).
type DeleteTaskPushNotificationConfigParams struct {
	TaskID   string         `json:"id" wire:"required,alias=taskId,alias=task_id"`
	ConfigID string         `json:"pushNotificationConfigId" wire:"required"`
	Metadata map[string]any `json:"metadata,omitzero"`
}
