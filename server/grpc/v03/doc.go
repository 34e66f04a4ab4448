// Package v03 is the codec of A2A 0.3 over gRPC, the service a2a.v1.A2AService.
//
// # Guarantees
//
// The rules are those of package a2a/v03. In addition, this binding has resource names such as
// tasks/{id}, a history length of 0 is the whole history, and states are those of A2A: others are
// mapped as in A2A 1.0. Data that is no object is shown within one.
//
// # Concurrency
//
// A Codec is safe for concurrent use.
package v03
