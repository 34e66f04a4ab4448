// Package grpc serves an agent over gRPC: A2A 1.0 (package lf.a2a.v1) and A2A 0.3 (package a2a.v1)
// on one listener, with health checks and reflection.
//
// # Concepts
//
// A [Server] is a transport of a [server.Server]: it shares its methods, authentication and
// limits. Metadata of a call have the meaning of HTTP headers. A codec converts between protobuf and the
// model of package a2a.
//
// # Guarantees
//
//   - A client that disconnects ends its own stream or response, never the task.
//   - The caller is authenticated before its message is received.
//   - Errors are a google.rpc.Status with ErrorInfo, and BadRequest if fields are invalid.
//   - The response metadata last-event-id of a stream has the id of its first event; the ids of
//     the following events are consecutive. A call with this metadata resumes after the event.
//   - The server ends the streams of slow readers, which can resume later.
//   - Messages, streams and memory are limited as over HTTP.
//
// # Concurrency
//
// A Server is safe for concurrent use.
package grpc
