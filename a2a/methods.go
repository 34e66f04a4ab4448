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
)

// methods lists every method that is served. Adding one is a row here and a
// binding in package server; a row without a binding fails a test by name.
var methods = []Method{
	{Name: MethodSend, NameV10: "SendMessage", HTTPMethod: "POST", Path: "/v1/message:send", Summary: "Send a message; answers with the task"},
	{Name: MethodStream, NameV10: "SendStreamingMessage", HTTPMethod: "POST", Path: "/v1/message:stream", Streaming: true, Summary: "Send a message and follow the task as it goes"},
	{Name: MethodGet, NameV10: "GetTask", HTTPMethod: "GET", Path: "/v1/tasks/{id}", Idempotent: true, Summary: "Read a task"},
	{Name: MethodList, NameV10: "ListTasks", HTTPMethod: "GET", Path: "/v1/tasks", Idempotent: true, Extension: true, Summary: "List your tasks, newest first"},
	{Name: MethodCancel, NameV10: "CancelTask", HTTPMethod: "POST", Path: "/v1/tasks/{id}:cancel", Summary: "Cancel a task"},
	{Name: MethodResubscribe, NameV10: "SubscribeToTask", HTTPMethod: "POST", Path: "/v1/tasks/{id}:subscribe", Streaming: true, Idempotent: true, Summary: "Follow a task again from where you lost it"},
}

// Methods returns every method that is served.
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
