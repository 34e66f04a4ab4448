package a2a

import "slices"

// Method is everything a transport must know of a method. Dispatch, client,
// command line, metrics and documents derive from it.
type Method struct {
	// Name is the JSON-RPC name of A2A 0.3.
	Name string
	// NameV10 is the JSON-RPC name of A2A 1.0; "" when it has none.
	NameV10 string
	// HTTPMethod and Path are the REST route of A2A 0.3; "" when it has none.
	HTTPMethod, Path string
	// Streaming methods answer with server-sent events.
	Streaming bool
	// Idempotent methods change nothing.
	Idempotent bool
	// Extension methods are not part of A2A 0.3.
	Extension bool
	// Off, if not empty, is what a known method that is not offered is refused with.
	// It has no binding.
	Off Code
	// Summary is one line for people.
	Summary string
}

// The JSON-RPC names of the methods.
const (
	MethodSend        = "message/send"
	MethodStream      = "message/stream"
	MethodGet         = "tasks/get"
	MethodList        = "tasks/list"
	MethodCancel      = "tasks/cancel"
	MethodResubscribe = "tasks/resubscribe"
	MethodTasksDelete = "tasks/delete"

	MethodPushSet      = "tasks/pushNotificationConfig/set"
	MethodPushGet      = "tasks/pushNotificationConfig/get"
	MethodPushList     = "tasks/pushNotificationConfig/list"
	MethodPushDelete   = "tasks/pushNotificationConfig/delete"
	MethodExtendedCard = "agent/getAuthenticatedExtendedCard"

	MethodContextsList   = "contexts/list"
	MethodContextsGet    = "contexts/get"
	MethodContextsCreate = "contexts/create"
	MethodContextsUpdate = "contexts/update"
	MethodContextsClear  = "contexts/clear"

	MethodDeadLetters  = "webhooks/dead/list"
	MethodPushReplay   = "webhooks/replay"
	MethodPushAttempts = "webhooks/attempts"

	MethodFeedback     = "tasks/feedback"
	MethodFeedbackList = "tasks/feedback/list"
)

// methods lists every method that is known. Adding one is a row here and a
// binding in package server; a row without a binding fails a test by name.
var methods = []Method{
	{Name: MethodSend, NameV10: "SendMessage", HTTPMethod: "POST", Path: "/v1/message:send", Summary: "Send a message; answers with the task"},
	{Name: MethodStream, NameV10: "SendStreamingMessage", HTTPMethod: "POST", Path: "/v1/message:stream", Streaming: true, Summary: "Send a message and follow the task as it goes"},
	{Name: MethodGet, NameV10: "GetTask", HTTPMethod: "GET", Path: "/v1/tasks/{id}", Idempotent: true, Summary: "Read a task"},
	{Name: MethodList, NameV10: "ListTasks", HTTPMethod: "GET", Path: "/v1/tasks", Idempotent: true, Extension: true, Summary: "List your tasks, newest first"},
	{Name: MethodCancel, NameV10: "CancelTask", HTTPMethod: "POST", Path: "/v1/tasks/{id}:cancel", Summary: "Cancel a task"},
	{Name: MethodResubscribe, NameV10: "SubscribeToTask", HTTPMethod: "POST", Path: "/v1/tasks/{id}:subscribe", Streaming: true, Idempotent: true, Summary: "Follow a task again from where you lost it"},
	{Name: MethodTasksDelete, HTTPMethod: "DELETE", Path: "/v1/tasks/{id}", Extension: true, Summary: "Delete a finished task with all that belongs to it"},

	{Name: MethodPushSet, NameV10: "CreateTaskPushNotificationConfig", HTTPMethod: "POST", Path: "/v1/tasks/{id}/pushNotificationConfigs", Off: CodePushNotSupported, Summary: "Have a task's updates posted to a URL"},
	{Name: MethodPushGet, NameV10: "GetTaskPushNotificationConfig", HTTPMethod: "GET", Path: "/v1/tasks/{id}/pushNotificationConfigs/{configId}", Idempotent: true, Off: CodePushNotSupported, Summary: "Read one push notification config of a task"},
	{Name: MethodPushList, NameV10: "ListTaskPushNotificationConfigs", HTTPMethod: "GET", Path: "/v1/tasks/{id}/pushNotificationConfigs", Idempotent: true, Off: CodePushNotSupported, Summary: "List the push notification configs of a task"},
	{Name: MethodPushDelete, NameV10: "DeleteTaskPushNotificationConfig", HTTPMethod: "DELETE", Path: "/v1/tasks/{id}/pushNotificationConfigs/{configId}", Off: CodePushNotSupported, Summary: "Delete a push notification config of a task"},
	{Name: MethodDeadLetters, HTTPMethod: "GET", Path: "/v1/webhooks/dead", Idempotent: true, Extension: true, Off: CodePushNotSupported, Summary: "List the updates that your webhooks did not get"},
	{Name: MethodPushReplay, HTTPMethod: "POST", Path: "/v1/tasks/{id}/webhooks:replay", Extension: true, Off: CodePushNotSupported, Summary: "Send a webhook its updates again, from one on"},
	{Name: MethodPushAttempts, HTTPMethod: "GET", Path: "/v1/tasks/{id}/webhooks/attempts", Idempotent: true, Extension: true, Off: CodePushNotSupported, Summary: "List the attempts to deliver a task's updates, newest first"},
	{Name: MethodExtendedCard, NameV10: "GetExtendedAgentCard", HTTPMethod: "GET", Path: "/v1/card", Idempotent: true, Off: CodeNoExtendedCard, Summary: "Read the card for authenticated clients"},

	{Name: MethodContextsList, HTTPMethod: "GET", Path: "/v1/contexts", Idempotent: true, Extension: true, Summary: "List your contexts"},
	{Name: MethodContextsGet, HTTPMethod: "GET", Path: "/v1/contexts/{contextId}", Idempotent: true, Extension: true, Summary: "Read a context, with the messages of its tasks"},
	{Name: MethodContextsCreate, HTTPMethod: "POST", Path: "/v1/contexts", Extension: true, Summary: "Create a context"},
	{Name: MethodContextsUpdate, HTTPMethod: "PATCH", Path: "/v1/contexts/{contextId}", Extension: true, Summary: "Change a context: describe, pause, complete or archive it"},
	{Name: MethodContextsClear, HTTPMethod: "DELETE", Path: "/v1/contexts/{contextId}", Extension: true, Summary: "Delete a context with all its tasks"},

	{Name: MethodFeedback, HTTPMethod: "POST", Path: "/v1/tasks/{id}/feedback", Extension: true, Summary: "Say what you think of a task"},
	{Name: MethodFeedbackList, HTTPMethod: "GET", Path: "/v1/feedback", Idempotent: true, Extension: true, Summary: "List the feedback you gave, newest first"},
}

// Methods returns every method that is known, those that are off too.
func Methods() []Method { return slices.Clone(methods) }

// MethodByName returns the method with a JSON-RPC name of A2A 0.3.
func MethodByName(name string) (Method, bool) {
	for _, m := range methods {
		if m.Name == name {
			return m, true
		}
	}
	return Method{}, false
}
