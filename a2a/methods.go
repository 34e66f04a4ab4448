package a2a

import "slices"

// Method describes a method for all transports. Dispatch, client, command line, metrics and
// documentation derive from it.
type Method struct {
	// Name is the JSON-RPC name of A2A 0.3.
	Name string
	// NameV10 is the JSON-RPC name of A2A 1.0 and of its extensions here.
	NameV10 string
	// HTTPMethod and Path are the REST route of A2A 0.3, "" if it has none. The codec of 1.0
	// derives its path from them. A variable of the path is a param.
	HTTPMethod, Path string
	// Streaming methods respond with server-sent events.
	Streaming bool
	// Idempotent methods change nothing.
	Idempotent bool
	// Scope is what a principal must be allowed to do.
	Scope Scope
	// Level is the default minimum of the caller's trust level, and Permission the permission that its
	// roles must have. An authorizer of trust levels checks them.
	Level      TrustLevel
	Permission string
	// Bulk methods read many objects at once. Servers limit how many run concurrently.
	Bulk bool
	// Cacheable methods have results that the caller may keep. Over HTTP GET they have an ETag.
	Cacheable bool
	// Extension methods are not part of A2A 0.3.
	Extension bool
	// Off, if not empty, is the error code of a method that is known but not supported. It
	// has no binding. OffV10 is its code in A2A 1.0, if that differs.
	Off, OffV10 Code
	// Summary is a one-line description.
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

// methods are all known methods. To add a method, add a row here and a binding in package
// server/internal/methods. rpc.NewTable rejects rows without a binding.
var methods = []Method{
	{Name: MethodSend, NameV10: "SendMessage", HTTPMethod: "POST", Path: "/v1/message:send", Scope: ScopeWrite, Level: TrustAnalyst, Permission: "messages.send", Summary: "Send a message and return the task"},
	{Name: MethodStream, NameV10: "SendStreamingMessage", HTTPMethod: "POST", Path: "/v1/message:stream", Streaming: true, Scope: ScopeWrite, Level: TrustAnalyst, Permission: "messages.send", Summary: "Send a message and stream the task's updates"},
	{Name: MethodGet, NameV10: "GetTask", HTTPMethod: "GET", Path: "/v1/tasks/{id}", Idempotent: true, Scope: ScopeRead, Level: TrustViewer, Permission: "tasks.get", Summary: "Read a task"},
	{Name: MethodList, NameV10: "ListTasks", HTTPMethod: "GET", Path: "/v1/tasks", Idempotent: true, Extension: true, Scope: ScopeRead, Level: TrustViewer, Permission: "tasks.list", Bulk: true, Summary: "List your tasks, newest first"},
	{Name: MethodCancel, NameV10: "CancelTask", HTTPMethod: "POST", Path: "/v1/tasks/{id}:cancel", Scope: ScopeWrite, Level: TrustAnalyst, Permission: "tasks.cancel", Summary: "Cancel a task"},
	{Name: MethodResubscribe, NameV10: "SubscribeToTask", HTTPMethod: "POST", Path: "/v1/tasks/{id}:subscribe", Streaming: true, Idempotent: true, Scope: ScopeRead, Level: TrustViewer, Permission: "tasks.subscribe", Summary: "Resume the stream of a task's updates"},
	{Name: MethodTasksDelete, NameV10: "DeleteTask", HTTPMethod: "DELETE", Path: "/v1/tasks/{id}", Extension: true, Scope: ScopeWrite, Level: TrustEditor, Permission: "tasks.delete", Summary: "Delete a finished task and its data"},

	{Name: MethodPushSet, NameV10: "CreateTaskPushNotificationConfig", HTTPMethod: "POST", Path: "/v1/tasks/{id}/pushNotificationConfigs", Off: CodePushNotSupported, Scope: ScopeWrite, Level: TrustAnalyst, Permission: "webhooks.set", Summary: "Register a webhook for a task"},
	{Name: MethodPushGet, NameV10: "GetTaskPushNotificationConfig", HTTPMethod: "GET", Path: "/v1/tasks/{id}/pushNotificationConfigs/{configId}", Idempotent: true, Off: CodePushNotSupported, Scope: ScopeRead, Level: TrustViewer, Permission: "webhooks.get", Summary: "Read a webhook of a task"},
	{Name: MethodPushList, NameV10: "ListTaskPushNotificationConfigs", HTTPMethod: "GET", Path: "/v1/tasks/{id}/pushNotificationConfigs", Idempotent: true, Off: CodePushNotSupported, Scope: ScopeRead, Level: TrustViewer, Permission: "webhooks.list", Summary: "List the webhooks of a task"},
	{Name: MethodPushDelete, NameV10: "DeleteTaskPushNotificationConfig", HTTPMethod: "DELETE", Path: "/v1/tasks/{id}/pushNotificationConfigs/{configId}", Off: CodePushNotSupported, Scope: ScopeWrite, Level: TrustAnalyst, Permission: "webhooks.delete", Summary: "Delete a webhook of a task"},
	{Name: MethodDeadLetters, NameV10: "ListDeadLetters", HTTPMethod: "GET", Path: "/v1/webhooks/dead", Idempotent: true, Extension: true, Off: CodePushNotSupported, Scope: ScopeRead, Level: TrustViewer, Permission: "webhooks.dead", Bulk: true, Summary: "List dead letters, newest first"},
	{Name: MethodPushReplay, NameV10: "ReplayWebhook", HTTPMethod: "POST", Path: "/v1/tasks/{id}/webhooks:replay", Extension: true, Off: CodePushNotSupported, Scope: ScopeWrite, Level: TrustAnalyst, Permission: "webhooks.replay", Summary: "Resend events to a webhook, starting with a given one"},
	{Name: MethodPushAttempts, NameV10: "ListWebhookAttempts", HTTPMethod: "GET", Path: "/v1/tasks/{id}/webhooks/attempts", Idempotent: true, Extension: true, Off: CodePushNotSupported, Scope: ScopeRead, Level: TrustViewer, Permission: "webhooks.attempts", Bulk: true, Summary: "List a task's delivery attempts, newest first"},
	{Name: MethodExtendedCard, NameV10: "GetExtendedAgentCard", HTTPMethod: "GET", Path: "/v1/card", Idempotent: true, Cacheable: true, Off: CodeNoExtendedCard, OffV10: CodeUnsupported, Scope: ScopeRead, Level: TrustGuest, Permission: "agent.card", Summary: "Read the agent card for authenticated clients"},

	{Name: MethodContextsList, NameV10: "ListContexts", HTTPMethod: "GET", Path: "/v1/contexts", Idempotent: true, Extension: true, Scope: ScopeRead, Level: TrustViewer, Permission: "contexts.list", Bulk: true, Summary: "List your contexts"},
	{Name: MethodContextsGet, NameV10: "GetContext", HTTPMethod: "GET", Path: "/v1/contexts/{contextId}", Idempotent: true, Extension: true, Scope: ScopeRead, Level: TrustViewer, Permission: "contexts.get", Bulk: true, Summary: "Read a context, with the messages of its tasks"},
	{Name: MethodContextsCreate, NameV10: "CreateContext", HTTPMethod: "POST", Path: "/v1/contexts", Extension: true, Scope: ScopeWrite, Level: TrustAnalyst, Permission: "contexts.create", Summary: "Create a context"},
	{Name: MethodContextsUpdate, NameV10: "UpdateContext", HTTPMethod: "PATCH", Path: "/v1/contexts/{contextId}", Extension: true, Scope: ScopeWrite, Level: TrustAnalyst, Permission: "contexts.update", Summary: "Change a context: describe, pause, complete or archive it"},
	{Name: MethodContextsClear, NameV10: "ClearContext", HTTPMethod: "DELETE", Path: "/v1/contexts/{contextId}", Extension: true, Scope: ScopeWrite, Level: TrustEditor, Permission: "contexts.clear", Summary: "Delete a context with all its tasks"},

	{Name: MethodFeedback, NameV10: "AddTaskFeedback", HTTPMethod: "POST", Path: "/v1/tasks/{id}/feedback", Extension: true, Scope: ScopeWrite, Level: TrustAnalyst, Permission: "feedback.add", Summary: "Add feedback to a task"},
	{Name: MethodFeedbackList, NameV10: "ListTaskFeedback", HTTPMethod: "GET", Path: "/v1/feedback", Idempotent: true, Extension: true, Scope: ScopeRead, Level: TrustViewer, Permission: "feedback.list", Bulk: true, Summary: "List your feedback, newest first"},
}

// Methods returns all known methods, including those that are off.
func Methods() []Method { return slices.Clone(methods) }

// MethodByName returns the method with the given JSON-RPC name of A2A 0.3 or 1.0.
func MethodByName(name string) (Method, bool) {
	for _, m := range methods {
		if m.Name == name || m.NameV10 == name {
			return m, true
		}
	}
	return Method{}, false
}
