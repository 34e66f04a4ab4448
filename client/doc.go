// Package client is an A2A 0.3 client over JSON-RPC and server-sent events. It
// works with Holdfast and with other servers of the protocol.
//
// # Concepts
//
// [Client.Send] sends a message and returns the task that it started or
// continued. [Client.Stream] does the same and yields the task's updates as
// they happen. [Client.Resubscribe] yields the updates of an existing task after
// an event id. Tasks, contexts and feedback are listed page by page.
// [Client.Call] calls any other method.
//
// # Guarantees
//
// A stream reconnects if its connection is lost. The client calls
// [Config.OnReconnect] and subscribes again after the last event that it
// yielded, with an increasing backoff. With a server that numbers its events,
// as Holdfast does, no event is missing or yielded twice. The client never sends
// a message twice without an idempotency key. [Config.MaxResponseBytes] limits
// the memory for one response or event.
//
// # Concurrency
//
// A [Client] is safe for concurrent use and starts no goroutines. A stream must
// be used by one goroutine; breaking out of the loop ends it.
//
// # Errors
//
// Every error has an [a2a.Code], which [a2a.CodeOf] returns: that of the server's
// error, or one for the HTTP status or network error (unauthenticated,
// too_large, unavailable, ...). If the context ended the call, the error also
// wraps its cause. No error contains the token.
package client
