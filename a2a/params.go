package a2a

import "time"

// MessageSendParams are the params of message/send and message/stream (A2A 0.3
// section 7.1.1).
type MessageSendParams struct {
	Message       Message                   `json:"message" wire:"required"`
	Configuration *MessageSendConfiguration `json:"configuration,omitempty"`
	Metadata      map[string]any            `json:"metadata,omitempty"`
}

// MessageSendConfiguration is how the client wants to be answered. A nil
// HistoryLength means the whole history.
type MessageSendConfiguration struct {
	AcceptedOutputModes    []string                `json:"acceptedOutputModes,omitempty"`
	Blocking               bool                    `json:"blocking,omitempty"`
	HistoryLength          *int                    `json:"historyLength,omitempty"`
	PushNotificationConfig *PushNotificationConfig `json:"pushNotificationConfig,omitempty"`
	LongRunning            bool                    `json:"longRunning,omitempty"`
}

// PushNotificationConfig is a webhook (A2A 0.3 section 6.8).
type PushNotificationConfig struct {
	ID             string                          `json:"id,omitempty"`
	URL            string                          `json:"url" wire:"required"`
	Token          string                          `json:"token,omitempty"`
	Authentication *PushNotificationAuthentication `json:"authentication,omitempty"`
}

// PushNotificationAuthentication is how a webhook wants to be authenticated.
type PushNotificationAuthentication struct {
	Schemes     []string `json:"schemes" wire:"required"`
	Credentials string   `json:"credentials,omitempty"`
}

// TaskQueryParams are the params of tasks/get. A nil HistoryLength means the
// whole history, N at most the newest N messages.
type TaskQueryParams struct {
	ID            string         `json:"id" wire:"required,alias=taskId,alias=task_id"`
	HistoryLength *int           `json:"historyLength,omitempty"`
	Metadata      map[string]any `json:"metadata,omitempty"`
}

// TaskIDParams are the params of tasks/cancel and tasks/resubscribe.
type TaskIDParams struct {
	ID       string         `json:"id" wire:"required,alias=taskId,alias=task_id"`
	Metadata map[string]any `json:"metadata,omitempty"`
}

// ListTasksParams are the params of tasks/list, an extension. Zero fields do not
// filter. Times are inclusive below and exclusive above.
type ListTasksParams struct {
	ContextID string `json:"contextId,omitempty"`
	// States keeps tasks in one of these states.
	States []TaskState `json:"states,omitempty"`
	// Status is one state; it may be given instead of States.
	Status           TaskState      `json:"status,omitempty"`
	StatusAfter      time.Time      `json:"statusTimestampAfter,omitempty"`
	StatusBefore     time.Time      `json:"statusTimestampBefore,omitempty"`
	PageSize         *int           `json:"pageSize,omitempty" wire:"alias=limit"`
	PageToken        string         `json:"pageToken,omitempty"`
	HistoryLength    *int           `json:"historyLength,omitempty"`
	IncludeArtifacts bool           `json:"includeArtifacts,omitempty"`
	IncludeTotal     bool           `json:"includeTotal,omitempty"`
	Metadata         map[string]any `json:"metadata,omitempty"`
}

// ListTasksResult is the result of tasks/list. NextPageToken is "" on the last
// page. TotalSize is there when it was asked for.
type ListTasksResult struct {
	Tasks         []Task `json:"tasks"`
	NextPageToken string `json:"nextPageToken"`
	PageSize      int    `json:"pageSize"`
	TotalSize     *int   `json:"totalSize,omitempty"`
}
