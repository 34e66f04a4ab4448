package a2a

import (
	"time"

	"github.com/holdfast-dev/holdfast/internal/wire"
)

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

	// The members below are an extension.

	// PayloadFormat is what is sent; "" is PayloadEvent.
	PayloadFormat PayloadFormat `json:"payloadFormat,omitempty"`
	// Signatures are the versions of Standard Webhooks signatures to send: "v1" (HMAC
	// SHA-256) and "v1a" (Ed25519); none is v1 alone.
	Signatures []string `json:"signatures,omitempty"`
	// RotateSecret, on input, has the server make new keys. For a day what it sends is
	// signed with the old ones too.
	RotateSecret bool `json:"rotateSecret,omitempty"`
	// SigningSecret is what signatures v1 are verified with, "whsec_" and base64. It
	// is told once, when it has been made.
	SigningSecret string `json:"signingSecret,omitempty"`
	// SigningKey is the public key of signatures v1a, "whpk_" and base64.
	SigningKey string `json:"signingKey,omitempty"`
	// Delivery is how the webhook fares. It is ignored on input.
	Delivery *PushDelivery `json:"delivery,omitempty"`
}

// PayloadFormat is the form in which a webhook is told of a task, an extension.
type PayloadFormat string

// The payload formats.
const (
	// PayloadEvent is an update with its id, sequence and time, in snake_case.
	PayloadEvent PayloadFormat = "event"
	// PayloadTask is the task as it stood after the update, as in A2A 0.3.
	PayloadTask PayloadFormat = "task"
	// PayloadStreamResponse is the update as a StreamResponse of A2A 1.0.
	PayloadStreamResponse PayloadFormat = "stream-response"
)

// PushDelivery is how a webhook fares, an extension.
type PushDelivery struct {
	// State is active, parked (attempts are used up) or disabled; Reason says why.
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
	// Sequence is that of the last event that was dealt with, Delivered how many were
	// delivered.
	Sequence  int64 `json:"sequence"`
	Delivered int64 `json:"delivered"`
	// Pending says that there is something to be sent.
	Pending bool `json:"pending"`
	// Attempts are the failed ones for what is to be sent next, NextAttemptAt is when
	// it is tried again.
	Attempts      int        `json:"attempts"`
	NextAttemptAt *time.Time `json:"nextAttemptAt,omitempty"`
	LastDelivered *time.Time `json:"lastDelivered,omitempty"`
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

// ListDeadLettersParams are the params of webhooks/dead/list, an extension. Zero
// fields do not filter.
type ListDeadLettersParams struct {
	TaskID string `json:"taskId,omitempty" wire:"alias=id"`
	// ConfigID needs TaskID.
	ConfigID string `json:"pushNotificationConfigId,omitempty"`
	// PageSize is 1 to 100; 0 means 50. PageToken continues a list. Offset is how many to
	// skip, without PageToken.
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

// DeadLetter is an event that is not sent unless it is replayed, an extension.
type DeadLetter struct {
	TaskID   string `json:"taskId"`
	ConfigID string `json:"pushNotificationConfigId"`
	EventID  string `json:"eventId"`
	Sequence int64  `json:"sequence"`
	Reason   string `json:"reason"`
	// Attempts is how often it was tried, Status the HTTP status of the last time.
	Attempts int       `json:"attempts"`
	Status   int       `json:"status,omitempty"`
	At       time.Time `json:"at"`
}

// ReplayParams are the params of webhooks/replay, an extension: everything from an
// event on is sent again, in order and with the same ids.
type ReplayParams struct {
	TaskID   string `json:"taskId" wire:"required,alias=id"`
	ConfigID string `json:"pushNotificationConfigId,omitempty"`
	// FromSequence is the first event to send, from 1; 0 means the first dead letter.
	FromSequence int64 `json:"fromSequence,omitempty"`
}

// ReplayResult says what is sent again, an extension.
type ReplayResult struct {
	TaskID   string `json:"taskId"`
	ConfigID string `json:"pushNotificationConfigId"`
	// FromSequence is the first event that is sent, 0 when there is none.
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

// ListAttemptsResult is a page of attempts, newest first, an extension.
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
	// Millis is how long the answer took, 0 when there was none.
	Millis int64 `json:"millis"`
	// Status is the HTTP status, 0 when there was no answer.
	Status int `json:"status,omitempty"`
	// Outcome is delivered, unavailable (it is tried again), rejected, gone (410), refused
	// (the policy does not allow it, nothing was sent) or no-answer. What kept an answer
	// from coming only operators are told.
	Outcome string `json:"outcome"`
}
