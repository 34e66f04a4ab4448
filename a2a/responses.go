package a2a

import "github.com/holdfast-dev/holdfast/internal/wire"

// SendMessageResult is the result of message/send: a [*Task] or a [*Message]. No
// other type implements it.
type SendMessageResult interface {
	Event
	sendResult()
}

// ResubscribeTaskResult is an item of tasks/resubscribe: a [*Task], a
// [*TaskStatusUpdateEvent] or a [*TaskArtifactUpdateEvent]. No other type
// implements it.
type ResubscribeTaskResult interface {
	Event
	resubscribeResult()
}

var (
	_ = wire.Union("kind", map[string]SendMessageResult{"task": (*Task)(nil), "message": (*Message)(nil)})
	_ = wire.Union("kind", map[string]ResubscribeTaskResult{
		"task": (*Task)(nil), "status-update": (*TaskStatusUpdateEvent)(nil), "artifact-update": (*TaskArtifactUpdateEvent)(nil),
	})
)

func (*Task) sendResult()    {}
func (*Message) sendResult() {}

func (*Task) resubscribeResult()                    {}
func (*TaskStatusUpdateEvent) resubscribeResult()   {}
func (*TaskArtifactUpdateEvent) resubscribeResult() {}

// The responses of the methods. Those of tasks/feedback and contexts/clear, both
// extensions, hold texts for people and ids.
type (
	// SendMessageResponse answers message/send.
	SendMessageResponse = Response[SendMessageResult]
	// StreamMessageResponse is an item of the stream of message/stream.
	StreamMessageResponse = Response[Event]
	// GetTaskResponse answers tasks/get.
	GetTaskResponse = Response[*Task]
	// CancelTaskResponse answers tasks/cancel.
	CancelTaskResponse = Response[*Task]
	// ListTasksResponse answers tasks/list with an array of tasks, as agents with
	// that extension do. Holdfast itself answers with a [ListTasksResult].
	ListTasksResponse = Response[[]Task]
	// TaskFeedbackResponse answers tasks/feedback.
	TaskFeedbackResponse = Response[map[string]string]
	// ListContextsResponse answers contexts/list with an array of contexts, as agents
	// with that extension do. Holdfast itself answers with a [ListContextsResult].
	ListContextsResponse = Response[[]Context]
	// ClearContextsResponse answers contexts/clear.
	ClearContextsResponse = Response[map[string]string]
	// DeleteTaskResponse answers tasks/delete, an extension.
	DeleteTaskResponse = Response[map[string]string]
	// SetTaskPushNotificationResponse answers tasks/pushNotificationConfig/set.
	SetTaskPushNotificationResponse = Response[*TaskPushNotificationConfig]
	// GetTaskPushNotificationResponse answers tasks/pushNotificationConfig/get.
	GetTaskPushNotificationResponse = Response[*TaskPushNotificationConfig]
	// ResubscribeTaskResponse is an item of the stream of tasks/resubscribe.
	ResubscribeTaskResponse = Response[ResubscribeTaskResult]
	// ListTaskPushNotificationConfigResponse answers
	// tasks/pushNotificationConfig/list.
	ListTaskPushNotificationConfigResponse = Response[[]TaskPushNotificationConfig]
	// DeleteTaskPushNotificationConfigResponse answers
	// tasks/pushNotificationConfig/delete. A2A has a null result there, which is a
	// nil Result.
	DeleteTaskPushNotificationConfigResponse = Response[*DeletedPushNotificationConfig]
)

// DeletedPushNotificationConfig is the config that was deleted.
type DeletedPushNotificationConfig TaskPushNotificationConfig
