// Package v10 is the codec of A2A 1.0 over gRPC, the service lf.a2a.v1.A2AService. Package a2a/v10
// has the rules of the version; this package only converts between the model and protobuf.
//
// # Concurrency
//
// A Codec is safe for concurrent use.
package v10
