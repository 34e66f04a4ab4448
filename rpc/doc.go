// Package rpc implements JSON-RPC 2.0 as A2A uses it, without a transport. It parses and
// writes envelopes, and looks up and calls methods.
//
// # Concepts
//
// [Parse] reads one [Request]. [Table] finds its method by the descriptors of package a2a
// and their bindings ([Bind], [BindStream]). [Table.Prepare] decodes the params and returns
// a [Prepared] call, which no longer refers to the text of the request.
// [Dialect.AppendResult] and [Dialect.AppendError] write the response.
//
// # Guarantees
//
//   - A response repeats the id of its request exactly as it was sent.
//   - A request without an id (a notification) is not executed. The response is its error,
//     or an error that says that notifications are not supported.
//   - Unknown members are ignored. Duplicate members are rejected.
//   - Responses contain no internal errors: see [ErrorOf].
//
// # Concurrency
//
// A Table is safe for concurrent use.
package rpc
