// Package rpc implements JSON-RPC 2.0 as A2A uses it, without a transport. It parses and
// writes envelopes, and looks up and calls methods.
//
// # Concepts
//
// [Parse] reads one [Request]. [Table.Lookup] finds its method by the descriptors of package
// a2a, and the [Codec] that defines the name. [Call.Prepare] decodes the params,
// [Call.Run] executes the method within the [Interceptor] functions of the table.
// [Call.AppendResult], [Call.AppendEvent] and [Call.AppendError] write the response.
//
// A method is bound once, to a function from and to types of package a2a ([Bind],
// [BindStream]). Only codecs know how a protocol version names methods and writes values.
//
// # Guarantees
//
//   - A response repeats the id of its request exactly as it was sent.
//   - A request without an id (a notification) is executed and gets no response, unless its method
//     or params are invalid.
//   - Unknown members are ignored. Duplicate members are rejected.
//   - Responses contain no internal errors: see [ErrorOf].
//
// # Concurrency
//
// A Table is safe for concurrent use.
package rpc
