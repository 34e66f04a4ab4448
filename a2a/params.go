package a2a

import "time"

// MessageSendParams are the params of message/send and message/stream (A2A 0.3
// section 7.1.1).
type MessageSendParams struct {
	Message       Message                   `json:"message" wire:"required"`
	Configuration *MessageSendConfiguration `json:"configuration,omitempty"`
	// Metadata changes the task's metadata by a JSON merge patch (RFC 7396).
	Metadata map[string]any `json:"metadata,omitzero"`
}

// MessageSendConfiguration is how the client wants to be answered. A nil
// HistoryLength means the whole history, N at most the newest N messages.
type MessageSendConfiguration struct {
	// AcceptedOutputModes are media types; none means any.
	AcceptedOutputModes []string `json:"acceptedOutputModes,omitempty"`
	// Blocking holds the answer back until the task ends or waits for its client.
	Blocking               bool                    `json:"blocking,omitempty"`
	HistoryLength          *int                    `json:"historyLength,omitempty"`
	PushNotificationConfig *PushNotificationConfig `json:"pushNotificationConfig,omitempty"`
	// LongRunning, an extension, keeps the webhook across restarts.
	LongRunning bool `json:"longRunning,omitempty"`
}

// TaskSendParams hand a task to a worker, an extension; no method takes them.
type TaskSendParams struct {
	TaskID        string         `json:"taskId" wire:"required"`
	ContextID     string         `json:"contextId" wire:"required"`
	Message       *Message       `json:"message,omitempty"`
	HistoryLength *int           `json:"historyLength,omitempty"` // 0 or more
	Metadata      map[string]any `json:"metadata,omitzero"`
	// PaymentContext is what was verified of a payment. It never comes from a client.
	PaymentContext map[string]any `json:"paymentContext,omitzero"`
}

// TaskFeedbackParams are the params of tasks/feedback, an extension.
type TaskFeedbackParams struct {
	TaskID string `json:"taskId" wire:"required,alias=id"`
	// Feedback may be empty if there is a rating.
	Feedback string `json:"feedback" wire:"text"`
	// Rating is 1 to 5; nil means none.
	Rating   *int           `json:"rating,omitempty"`
	Metadata map[string]any `json:"metadata,omitzero"`
}

// TaskQueryParams are the params of tasks/get. A nil HistoryLength means the
// whole history, N at most the newest N messages.
type TaskQueryParams struct {
	ID            string         `json:"id" wire:"required,alias=taskId,alias=task_id"`
	HistoryLength *int           `json:"historyLength,omitempty"`
	Metadata      map[string]any `json:"metadata,omitzero"`
}

// TaskIDParams are the params of tasks/cancel and tasks/resubscribe.
type TaskIDParams struct {
	ID       string         `json:"id" wire:"required,alias=taskId,alias=task_id"`
	Metadata map[string]any `json:"metadata,omitzero"`
}

// ListTasksParams are the params of tasks/list, an extension. Zero fields do not
// filter. Times are inclusive below and exclusive above.
type ListTasksParams struct {
	ContextID string `json:"contextId,omitempty"`
	// States keeps tasks in one of these states.
	States []TaskState `json:"states,omitempty"`
	// Status is one state; it may be given instead of States.
	Status       TaskState `json:"status,omitempty"`
	StatusAfter  time.Time `json:"statusTimestampAfter,omitempty"`
	StatusBefore time.Time `json:"statusTimestampBefore,omitempty"`
	PageSize     *int      `json:"pageSize,omitempty" wire:"alias=limit"`
	PageToken    string    `json:"pageToken,omitempty"`
	// Offset is how many tasks to skip; not with PageToken.
	Offset *int `json:"offset,omitempty"`
	// HistoryLength is how many of the newest messages of each task to return. Nil means
	// none, and in the dialect bindu all.
	HistoryLength    *int `json:"historyLength,omitempty"`
	IncludeArtifacts bool `json:"includeArtifacts,omitempty"`
	IncludeTotal     bool `json:"includeTotal,omitempty"`
	// Metadata may hold filters as in [ListContextsParams]: status (one or several),
	// contextId, createdAfter, createdBefore, limit, offset, sortBy (createdAt or
	// updatedAt, the time of the status), sortOrder, historyLength and pageToken.
	Metadata map[string]any `json:"metadata,omitzero"`
}

// ListTasksResult is the result of tasks/list.
type ListTasksResult = TasksPage[[]Task]

// TasksPage is a page of tasks. T is []Task, or json.RawMessage if the tasks are encoded
// already. NextPageToken is "" on the last page. Page counts from 1. Total and TotalSize,
// which are the same, are set if the caller requested the total.
type TasksPage[T any] struct {
	Tasks         T      `json:"tasks"`
	NextPageToken string `json:"nextPageToken"`
	Page          int    `json:"page,omitempty"`
	PageSize      int    `json:"pageSize"`
	Total         *int   `json:"total,omitempty"`
	TotalSize     *int   `json:"totalSize,omitempty"`
	// TotalCapped is set when more tasks match than were counted for Total.
	TotalCapped bool `json:"totalCapped,omitempty"`
	// TruncatedBySize is set when the page has fewer than PageSize tasks because their
	// content reached the limit of a page; NextPageToken continues.
	TruncatedBySize bool `json:"truncatedBySize,omitempty"`
}

// TaskFeedback is feedback that was given on a task, an extension.
type TaskFeedback struct {
	ID        string         `json:"feedbackId" wire:"required"`
	TaskID    string         `json:"taskId" wire:"required"`
	Feedback  string         `json:"feedback" wire:"required"`
	Rating    *int           `json:"rating,omitempty"` // 1 to 5
	Metadata  map[string]any `json:"metadata,omitempty"`
	CreatedAt time.Time      `json:"createdAt" wire:"required"`
}

// ListTaskFeedbackParams are the params of tasks/feedback/list, an extension. Zero
// fields do not filter.
type ListTaskFeedbackParams struct {
	TaskID    string         `json:"taskId,omitempty" wire:"alias=id"`
	PageSize  *int           `json:"pageSize,omitempty" wire:"alias=limit"`
	PageToken string         `json:"pageToken,omitempty"`
	Offset    *int           `json:"offset,omitempty"` // how many to skip; not with PageToken
	Metadata  map[string]any `json:"metadata,omitzero"`
}

// ListTaskFeedbackResult is the result of tasks/feedback/list, newest first.
type ListTaskFeedbackResult struct {
	Feedback      []TaskFeedback `json:"feedback" wire:"required"`
	NextPageToken string         `json:"nextPageToken"`
	PageSize      int            `json:"pageSize" wire:"required"`
	// Summary counts all feedback that the caller has given this agent.
	Summary FeedbackSummary `json:"summary" wire:"required"`
}

// FeedbackSummary counts feedback, an extension.
type FeedbackSummary struct {
	Count int `json:"count" wire:"required"`
	// Rated is how much of it has a rating, Average the mean of those; nil when there
	// is none.
	Rated   int      `json:"rated" wire:"required"`
	Average *float64 `json:"average,omitempty"`
	// Ratings counts each rating, by "1" to "5".
	Ratings map[string]int `json:"ratings" wire:"required"`
}
