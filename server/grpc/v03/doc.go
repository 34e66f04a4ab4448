// Package v03 is the codec of A2A 0.3 over gRPC, the service a2a.v1.A2AService.
//
// # Guarantees
//
// The rules of package a2a/v03 apply. In addition, this binding has resource names such as
// tasks/{id}, a history length of 0 means the whole history, and only the states of A2A exist:
// other states are mapped as in A2A 1.0. Data that is not an object is shown within an object.
//
// # Concurrency
//
// A Codec is safe for concurrent use.
package v03
