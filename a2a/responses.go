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

// Responses of the methods. The results of tasks/feedback and contexts/clear, both
// extensions, have messages for people and ids.
type (
	// SendMessageResponse is the response of message/send.
	SendMessageResponse = Response[SendMessageResult]
	// StreamMessageResponse is an item of the stream of message/stream.
	StreamMessageResponse = Response[Event]
	// GetTaskResponse is the response of tasks/get.
	GetTaskResponse = Response[*Task]
	// CancelTaskResponse is the response of tasks/cancel.
	CancelTaskResponse = Response[*Task]
	// ListTasksResponse is the response of tasks/list with an array of tasks, as from other
	// agents with that extension. Holdfast returns a [ListTasksResult].
	ListTasksResponse = Response[[]Task]
	// TaskFeedbackResponse is the response of tasks/feedback as from other agents with that extension.
	// Holdfast returns a [TaskFeedbackResult].
	TaskFeedbackResponse = Response[map[string]any]
	// ListContextsResponse is the response of contexts/list with an array of contexts, as from
	// other agents with that extension. Holdfast returns a [ListContextsResult].
	ListContextsResponse = Response[[]Context]
	// ClearContextsResponse is the response of contexts/clear as from other agents with that extension.
	// Holdfast returns a [ClearContextResult].
	ClearContextsResponse = Response[map[string]any]
	// DeleteTaskResponse is the response of tasks/delete, an extension.
	DeleteTaskResponse = Response[*DeleteTaskResult]
	// SetTaskPushNotificationResponse is the response of tasks/pushNotificationConfig/set.
	SetTaskPushNotificationResponse = Response[*TaskPushNotificationConfig]
	// GetTaskPushNotificationResponse is the response of tasks/pushNotificationConfig/get.
	GetTaskPushNotificationResponse = Response[*TaskPushNotificationConfig]
	// ResubscribeTaskResponse is an item of the stream of tasks/resubscribe.
	ResubscribeTaskResponse = Response[ResubscribeTaskResult]
	// ListTaskPushNotificationConfigResponse is the response of
	// tasks/pushNotificationConfig/list.
	ListTaskPushNotificationConfigResponse = Response[[]TaskPushNotificationConfig]
	// DeleteTaskPushNotificationConfigResponse is the response of
	// tasks/pushNotificationConfig/delete. A2A specifies a null result, which is a nil Result.
	DeleteTaskPushNotificationConfigResponse = Response[*DeletedPushNotificationConfig]
)

// DeletedPushNotificationConfig is a config that was deleted.
type DeletedPushNotificationConfig TaskPushNotificationConfig
