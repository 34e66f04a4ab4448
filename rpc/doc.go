// Package rpc is JSON-RPC 2.0 as A2A uses it, without a transport: envelopes
// are parsed and written, methods are found and called.
//
// # Concepts
//
// [Parse] reads one [Request]; [Table] finds its method by the descriptors of
// package a2a and their bindings ([Bind], [BindStream]). [Table.Prepare] reads
// the params, after which the text of the request is no longer needed, and the
// [Prepared] call is run. Results and errors are written by
// [Dialect.AppendResult] and [Dialect.AppendError].
//
// # Guarantees
//
//   - The id of a request is echoed as the very literal it came as.
//   - A request without an id is answered: with its error if it has one, else with
//     one that says that notifications are not supported. Nothing is run for it.
//   - Members that are unknown are ignored; of members sent twice the last counts.
//   - What is not meant for the caller is never told: see [ErrorOf].
//
// # Concurrency
//
// A Table is safe for concurrent use.
package rpc
