package a2a

import "time"

// MessageSendParams are the params of message/send and message/stream (A2A 0.3
// section 7.1.1).
type MessageSendParams struct {
	Message       Message                   `json:"message" wire:"required" v03:",alias=request"`
	Configuration *MessageSendConfiguration `json:"configuration,omitempty"`
	// Metadata changes the task's metadata by a JSON merge patch (RFC 7396).
	Metadata map[string]any `json:"metadata,omitzero"`
	// ExistingTask rejects a message if its taskId names no task. If it is not set, a message with
	// UUIDs as taskId and contextId may start a task with these ids. Codecs set it, because A2A 1.0
	// requires it.
	ExistingTask bool `json:"-"`
}

// MessageSendConfiguration has the client's preferences for the response. HistoryLength is the
// maximum number of the newest messages; nil means all messages.
type MessageSendConfiguration struct {
	// AcceptedOutputModes are media types. Empty means any.
	AcceptedOutputModes []string `json:"acceptedOutputModes,omitempty"`
	// Blocking delays the response until the task ends or waits for its client.
	Blocking               bool                    `json:"blocking" v10:"returnImmediately,omitempty"`
	HistoryLength          *int                    `json:"historyLength,omitempty"`
	PushNotificationConfig *PushNotificationConfig `json:"pushNotificationConfig,omitempty" v10:"taskPushNotificationConfig" v03:"pushNotification,alias=pushNotificationConfig,alias=push_notification_config"`
	// LongRunning, an extension, keeps the webhook for longer after the task has ended.
	LongRunning bool `json:"longRunning,omitempty" wire:"ext"`
	// IfGenerationMatch, of A2A 1.1, rejects a message to an existing task that has another
	// generation. Nil rejects no message.
	IfGenerationMatch *int64 `json:"-" v10:"ifGenerationMatch,omitempty,quoted"`
}

// TaskSendParams assign a task to a worker, an extension. No method uses them.
type TaskSendParams struct {
	TaskID        string         `json:"taskId" wire:"required"`
	ContextID     string         `json:"contextId" wire:"required"`
	Message       *Message       `json:"message,omitempty"`
	HistoryLength *int           `json:"historyLength,omitempty"` // 0 or more
	Metadata      map[string]any `json:"metadata,omitzero"`
	// PaymentContext has the verified properties of a payment. Clients cannot set it.
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

// TaskQueryParams are the params of tasks/get. HistoryLength is the maximum number of the newest
// messages; nil means all messages.
type TaskQueryParams struct {
	ID            string         `json:"id" wire:"required,alias=taskId,alias=task_id"`
	HistoryLength *int           `json:"historyLength,omitempty"`
	Metadata      map[string]any `json:"metadata,omitzero"`
	// CurrentGeneration, of A2A 1.1, delays the response until the task has a later generation.
	CurrentGeneration *int64 `json:"-" v10:"currentGeneration,omitempty,quoted"`
}

// TaskIDParams are the params of tasks/cancel and tasks/resubscribe.
type TaskIDParams struct {
	ID       string         `json:"id" wire:"required,alias=taskId,alias=task_id"`
	Metadata map[string]any `json:"metadata,omitzero"`
	// UntilFinished continues a stream while the task waits for its client, and rejects a new
	// stream of a finished task. Codecs set it, because A2A 1.0 requires it.
	UntilFinished bool `json:"-"`
}

// ListTasksParams are the params of tasks/list, an extension. Zero fields do not filter. Time
// ranges include their start and exclude their end.
type ListTasksParams struct {
	ContextID string `json:"contextId,omitempty"`
	// States selects tasks in one of these states.
	States []TaskState `json:"states,omitempty"`
	// Status selects one state. It is an alternative to States.
	Status       TaskState `json:"status,omitempty"`
	StatusAfter  time.Time `json:"statusTimestampAfter,omitempty" wire:"alias=lastUpdatedAfter,alias=last_updated_after"`
	StatusBefore time.Time `json:"statusTimestampBefore,omitempty"`
	PageSize     *int      `json:"pageSize,omitempty" wire:"alias=limit"`
	PageToken    string    `json:"pageToken,omitempty"`
	// Offset is the number of tasks to skip; not with PageToken.
	Offset *int `json:"offset,omitempty"`
	// HistoryLength is the number of each task's newest messages to return. Nil means none,
	// or all in the Bindu profile.
	HistoryLength    *int `json:"historyLength,omitempty"`
	IncludeArtifacts bool `json:"includeArtifacts,omitempty"`
	IncludeTotal     bool `json:"includeTotal,omitempty" v10:"-"`
	// Metadata may hold filters as in [ListContextsParams]: status (one or several),
	// contextId, createdAfter, createdBefore, limit, offset, sortBy (createdAt or
	// updatedAt, the time of the status), sortOrder, historyLength and pageToken.
	Metadata map[string]any `json:"metadata,omitzero"`
}

// ListTasksResult is the result of tasks/list.
type ListTasksResult = TasksPage[[]Task]

// TasksPage is a page of tasks. T is []Task, or json.RawMessage for encoded tasks.
// NextPageToken is "" on the last page. Page starts at 1. Total and TotalSize are equal and
// set if the caller requested the total.
type TasksPage[T any] struct {
	Tasks         T      `json:"tasks"`
	NextPageToken string `json:"nextPageToken"`
	Page          int    `json:"page,omitempty" wire:"ext"`
	PageSize      int    `json:"pageSize"`
	Total         *int   `json:"total,omitempty" wire:"ext"`
	TotalSize     *int   `json:"totalSize,omitempty"`
	// TotalCapped is set if more tasks match than Total counts.
	TotalCapped bool `json:"totalCapped,omitempty" wire:"ext"`
	// TruncatedBySize is set if the page has fewer than PageSize tasks because it reached
	// the maximum content size. NextPageToken continues the list.
	TruncatedBySize bool `json:"truncatedBySize,omitempty" wire:"ext"`
}

// TaskFeedback is feedback on a task, an extension.
type TaskFeedback struct {
	ID        string         `json:"feedbackId" wire:"required"`
	TaskID    string         `json:"taskId" wire:"required"`
	Feedback  string         `json:"feedback" wire:"required"`
	Rating    *int           `json:"rating,omitempty"` // 1 to 5
	Metadata  map[string]any `json:"metadata,omitempty"`
	CreatedAt time.Time      `json:"createdAt" wire:"required"`
}

// TaskFeedbackResult is the result of tasks/feedback.
type TaskFeedbackResult struct {
	TaskID     string `json:"taskId"`
	FeedbackID string `json:"feedbackId"`
	Message    string `json:"message"` // for people
}

// ListTaskFeedbackParams are the params of tasks/feedback/list, an extension. Zero
// fields do not filter.
type ListTaskFeedbackParams struct {
	TaskID    string         `json:"taskId,omitempty" wire:"alias=id"`
	PageSize  *int           `json:"pageSize,omitempty" wire:"alias=limit"`
	PageToken string         `json:"pageToken,omitempty"`
	Offset    *int           `json:"offset,omitempty"` // number of items to skip; not with PageToken
	Metadata  map[string]any `json:"metadata,omitzero"`
}

// ListTaskFeedbackResult is the result of tasks/feedback/list, newest first.
type ListTaskFeedbackResult struct {
	Feedback      []TaskFeedback `json:"feedback" wire:"required"`
	NextPageToken string         `json:"nextPageToken"`
	PageSize      int            `json:"pageSize" wire:"required"`
	// Summary counts all feedback of the caller to this agent.
	Summary FeedbackSummary `json:"summary" wire:"required"`
}

// FeedbackSummary has statistics of feedback, an extension.
type FeedbackSummary struct {
	Count int `json:"count" wire:"required"`
	// Rated is the number of items with a rating, and Average the mean rating; nil if Rated
	// is 0.
	Rated   int      `json:"rated" wire:"required"`
	Average *float64 `json:"average,omitempty"`
	// Ratings counts the items with each rating, "1" to "5".
	Ratings map[string]int `json:"ratings" wire:"required"`
}
