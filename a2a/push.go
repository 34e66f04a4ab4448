package a2a

import (
	"time"

	"github.com/holdfast-dev/holdfast/internal/wire"
)

// PushAuthentication is how the server authenticates to a webhook: a
// [PushNotificationAuthenticationInfo] as in A2A, or a [SecurityScheme] as an extension. No
// other type implements it.
type PushAuthentication interface{ pushAuthentication() }

var _ = wire.UnionOr("type", map[string]PushAuthentication{
	"http": HTTPAuthSecurityScheme{}, "apiKey": APIKeySecurityScheme{}, "oauth2": OAuth2SecurityScheme{},
	"openIdConnect": OpenIDConnectSecurityScheme{}, "mutualTLS": MutualTLSSecurityScheme{},
}, PushAuthentication(PushNotificationAuthenticationInfo{}))

// PushNotificationConfig is a webhook (A2A 0.3 section 6.8).
type PushNotificationConfig struct {
	// ID identifies the config within its task. If it is absent, the server generates one.
	ID string `json:"id,omitempty"`
	// URL is absolute, http or https, with a host.
	URL string `json:"url" wire:"required"`
	// Token is a shared secret that is sent with each notification.
	Token          string             `json:"token,omitempty"`
	Authentication PushAuthentication `json:"authentication,omitempty"`

	// The following members are an extension.

	// PayloadFormat is the format of the requests; "" is PayloadEvent.
	PayloadFormat PayloadFormat `json:"payloadFormat,omitempty" wire:"ext"`
	// Signatures are the versions of Standard Webhooks signatures to send: "v1" (HMAC
	// SHA-256) and "v1a" (Ed25519). Empty means v1.
	Signatures []string `json:"signatures,omitempty" wire:"ext"`
	// RotateSecret, on input, generates new keys. For a day, requests are signed with the old
	// keys too.
	RotateSecret bool `json:"rotateSecret,omitempty" wire:"ext"`
	// SigningSecret is the key to verify v1 signatures, "whsec_" and base64. Only
	// tasks/pushNotificationConfig/set returns it, for a short time after it was generated.
	SigningSecret string `json:"signingSecret,omitempty" wire:"ext"`
	// SigningKey is the public key to verify v1a signatures, "whpk_" and base64.
	SigningKey string `json:"signingKey,omitempty" wire:"ext"`
	// Delivery is the state of the deliveries. It is ignored on input.
	Delivery *PushDelivery `json:"delivery,omitempty" wire:"ext"`
}

// PayloadFormat is the format of the requests to a webhook, an extension.
type PayloadFormat string

// The payload formats.
const (
	// PayloadEvent is an update with id, sequence and time, in snake_case.
	PayloadEvent PayloadFormat = "event"
	// PayloadTask is the task in A2A 0.3 format as of the update.
	PayloadTask PayloadFormat = "task"
	// PayloadStreamResponse is the update as a StreamResponse of A2A 1.0.
	PayloadStreamResponse PayloadFormat = "stream-response"
)

// PushDelivery is the state of a webhook's deliveries, an extension.
type PushDelivery struct {
	// State is active, parked (all attempts to deliver an event failed) or disabled. Reason
	// explains the state.
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
	// Sequence is the sequence of the last processed event, and Delivered is the number of
	// delivered events.
	Sequence  int64 `json:"sequence"`
	Delivered int64 `json:"delivered"`
	// Pending reports whether events are waiting to be delivered.
	Pending bool `json:"pending"`
	// Attempts is the number of failed attempts for the next event, and NextAttemptAt the
	// time of the next attempt.
	Attempts      int        `json:"attempts"`
	NextAttemptAt *time.Time `json:"nextAttemptAt,omitempty"`
	LastDelivered *time.Time `json:"lastDelivered,omitempty"`
}

// PushNotificationAuthenticationInfo lists the schemes that a webhook accepts, at least one,
// such as Bearer (A2A 0.3 section 6.9). Credentials is a secret.
type PushNotificationAuthenticationInfo struct {
	Schemes     []string `json:"schemes" wire:"required"`
	Credentials string   `json:"credentials,omitempty"`
}

func (PushNotificationAuthenticationInfo) pushAuthentication() {}

// TaskPushNotificationConfig is a webhook of a task (A2A 0.3 section 6.10): the params and
// the result of tasks/pushNotificationConfig/set. The task's id is also accepted as id,
// because some peers send that.
type TaskPushNotificationConfig struct {
	TaskID string                 `json:"taskId" wire:"required,alias=id" v10:"taskId"`
	Config PushNotificationConfig `json:"pushNotificationConfig" wire:"required" v10:",inline"`
	// LongRunning, an extension, keeps the webhook for longer after the task has ended.
	LongRunning bool `json:"longRunning,omitempty" wire:"ext"`
}

// GetTaskPushNotificationConfigParams are the params of tasks/pushNotificationConfig/get (A2A 0.3
// section 7.6). An empty ConfigID means the task's newest config.
type GetTaskPushNotificationConfigParams struct {
	TaskID   string         `json:"id" wire:"required,alias=taskId,alias=task_id" v03:"taskId" v10:"taskId"`
	ConfigID string         `json:"pushNotificationConfigId,omitempty" v10:"id,required"`
	Metadata map[string]any `json:"metadata,omitzero"`
}

// ListTaskPushNotificationConfigParams are the params of
// tasks/pushNotificationConfig/list (A2A 0.3 section 7.7).
type ListTaskPushNotificationConfigParams struct {
	TaskID   string         `json:"id" wire:"required,alias=taskId,alias=task_id" v03:"taskId" v10:"taskId"`
	Metadata map[string]any `json:"metadata,omitzero"`

	// The following members are of A2A 1.0, and of 0.3 over HTTP+JSON. PageSize is 1 to 100; 0
	// means all configs. PageToken continues a list.
	PageSize  int    `json:"-" v10:"pageSize,omitempty" v03:"pageSize,omitempty"`
	PageToken string `json:"-" v10:"pageToken,omitempty" v03:"pageToken,omitempty"`
}

// ListTaskPushNotificationConfigResult is the result of tasks/pushNotificationConfig/list: over
// JSON-RPC of A2A 0.3 the array of the configs, otherwise a page of them.
type ListTaskPushNotificationConfigResult struct {
	Configs []TaskPushNotificationConfig `json:"configs"`
	// NextPageToken continues the list; it is "" on the last page.
	NextPageToken string `json:"nextPageToken,omitempty"`
}

// DeleteTaskPushNotificationConfigParams are the params of
// tasks/pushNotificationConfig/delete (A2A 0.3 section 7.8).
type DeleteTaskPushNotificationConfigParams struct {
	TaskID   string         `json:"id" wire:"required,alias=taskId,alias=task_id" v03:"taskId" v10:"taskId"`
	ConfigID string         `json:"pushNotificationConfigId" wire:"required" v10:"id,required"`
	Metadata map[string]any `json:"metadata,omitzero"`
}

// ListDeadLettersParams are the params of webhooks/dead/list, an extension. Zero
// fields do not filter.
type ListDeadLettersParams struct {
	TaskID string `json:"taskId,omitempty" wire:"alias=id"`
	// ConfigID requires TaskID.
	ConfigID string `json:"pushNotificationConfigId,omitempty"`
	// PageSize is 1 to 100; 0 means 50. PageToken continues a list. Offset is the number of
	// items to skip, without PageToken.
	PageSize  int    `json:"pageSize,omitempty" wire:"alias=limit"`
	PageToken string `json:"pageToken,omitempty"`
	Offset    int    `json:"offset,omitempty"`
}

// ListDeadLettersResult is a page of dead letters, newest first, an extension.
type ListDeadLettersResult struct {
	DeadLetters   []DeadLetter `json:"deadLetters"`
	PageSize      int          `json:"pageSize"`
	NextPageToken string       `json:"nextPageToken,omitempty"`
}

// DeadLetter is an event that could not be delivered, an extension. It is sent again only by a
// replay.
type DeadLetter struct {
	TaskID   string `json:"taskId"`
	ConfigID string `json:"pushNotificationConfigId"`
	EventID  string `json:"eventId"`
	Sequence int64  `json:"sequence"`
	Reason   string `json:"reason"`
	// Attempts is the number of attempts, and Status the HTTP status of the last one.
	Attempts int       `json:"attempts"`
	Status   int       `json:"status,omitempty"`
	At       time.Time `json:"at"`
}

// ReplayParams are the params of webhooks/replay, an extension. The method sends a given event and
// all later ones again, in order and with the same ids.
type ReplayParams struct {
	TaskID   string `json:"taskId" wire:"required,alias=id"`
	ConfigID string `json:"pushNotificationConfigId,omitempty"`
	// FromSequence is the first event to send, from 1; 0 means the first dead letter.
	FromSequence int64 `json:"fromSequence,omitempty"`
}

// ReplayResult reports which events are sent again, an extension.
type ReplayResult struct {
	TaskID   string `json:"taskId"`
	ConfigID string `json:"pushNotificationConfigId"`
	// FromSequence is the first event to be sent, 0 if there is none.
	FromSequence int64 `json:"fromSequence"`
}

// ListAttemptsParams are the params of webhooks/attempts, an extension.
type ListAttemptsParams struct {
	TaskID    string `json:"taskId" wire:"required,alias=id"`
	ConfigID  string `json:"pushNotificationConfigId,omitempty"`
	PageSize  int    `json:"pageSize,omitempty" wire:"alias=limit"`
	PageToken string `json:"pageToken,omitempty"`
	Offset    int    `json:"offset,omitempty"`
}

// ListAttemptsResult is a page of delivery attempts, newest first, an extension.
type ListAttemptsResult struct {
	Attempts      []PushAttempt `json:"attempts"`
	PageSize      int           `json:"pageSize"`
	NextPageToken string        `json:"nextPageToken,omitempty"`
}

// PushAttempt is one attempt to deliver an event, an extension.
type PushAttempt struct {
	TaskID   string    `json:"taskId"`
	ConfigID string    `json:"pushNotificationConfigId"`
	EventID  string    `json:"eventId"`
	Sequence int64     `json:"sequence"`
	Attempt  int       `json:"attempt"`
	At       time.Time `json:"at"`
	// Millis is the duration of the request in milliseconds, 0 without a response.
	Millis int64 `json:"millis"`
	// Status is the HTTP status, 0 without a response.
	Status int `json:"status,omitempty"`
	// Outcome is delivered, unavailable (it is retried), rejected, gone (410), refused (the
	// address policy forbids the request), too-large or no-answer. With refused and too-large
	// nothing was sent. Only operators see the cause of no-answer.
	Outcome string `json:"outcome"`
}
