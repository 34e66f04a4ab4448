// Package client talks to agents: it speaks A2A 0.3 over JSON-RPC and
// server-sent events, to Holdfast and to any other server of the protocol.
//
// # Concepts
//
// [Client.Send] hands a message over and returns the task that it began or
// went on with; [Client.Stream] does the same and yields the task's updates as
// they happen. [Client.Resubscribe] follows a task that is already known, from
// an event id on. Tasks, contexts and feedback are listed page by page.
// [Client.Call] reaches any other method.
//
// # Guarantees
//
// A stream whose connection is lost goes on by itself: the client subscribes
// again after the last event it has yielded, with a pause that grows, and tells
// [Config.OnReconnect]. With a server that numbers its events, as Holdfast does,
// nothing is yielded twice and nothing is missed. A message is never sent twice
// unless an idempotency key makes that harmless. What is kept of one answer or
// one event is bounded by [Config.MaxResponseBytes].
//
// # Concurrency
//
// A [Client] is safe for concurrent use and holds no goroutines of its own. A
// stream belongs to the goroutine that ranges over it; breaking out of the loop
// ends it.
//
// # Errors
//
// Every error carries an [a2a.Code], to be read by [a2a.CodeOf]: the server's own
// when it answered with one, else what HTTP or the network said (unauthenticated,
// too_large, unavailable, ...). When the context ended the call, the error
// wraps its cause as well. No error repeats the token.
package client
