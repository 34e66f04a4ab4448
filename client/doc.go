// Package client is an A2A client for agents of any vendor: A2A 0.3 and 1.0, over JSON-RPC and
// HTTP+JSON, with server-sent events for streams.
//
// # Concepts
//
// [Discover] reads the agent's card and uses the first interface that this package supports.
// [Config.Version] and [Config.Transport] prefer others. [New] sends nothing: it uses a card that
// the caller has, or an endpoint if the caller knows its version and transport.
//
// [Client.Send] sends a message and returns the task that it started or
// continued. [Client.Stream] does the same and yields the task's updates as
// they happen. [Client.Resubscribe] yields the updates of an existing task after
// an event id. Tasks, contexts and feedback are listed page by page.
// [Client.Invoke] and [Client.Call] call any other method. All of them have the same
// types for every version and transport.
//
// [Receiver] is an [net/http.Handler] for the requests to webhooks.
//
// # Guarantees
//
// A stream reconnects if its connection is lost. The client calls [Config.OnReconnect] and
// subscribes again after the last event that it yielded, with an increasing backoff. With a server
// that numbers its events, as Holdfast does, no event is missing or yielded twice. With others, a
// resumed stream starts or ends with the whole task. The client never sends a message twice without
// an idempotency key; with a key, it repeats the request unchanged, with the same message id. It
// repeats a read if the server closed the connection before it responded. [Config.MaxResponseBytes]
// limits the memory for one response or event.
//
// The client sends its token to the endpoints that the agent's card names. In a card from an https
// URL it ignores http endpoints on other hosts, and uses https for http endpoints on the same host.
//
// # Concurrency
//
// A [Client] is safe for concurrent use and starts no goroutines. A stream must
// be used by one goroutine; breaking out of the loop ends it.
//
// # Errors
//
// Every error has an [a2a.Code], which [a2a.CodeOf] returns: the code of the server's
// error, or a code for the HTTP status or network error (unauthenticated,
// too_large, unavailable, ...). If the context ended the call, the error also
// wraps its cause. Methods that the agent does not have return method_not_found. No error
// contains the token.
package client
