// Package server puts an engine on the network: A2A 0.3 over JSON-RPC and
// server-sent events, the agent card, and what operators need.
//
// # Concepts
//
// A [Server] is an http.Handler; [Server.Serve] runs it with timeouts and a
// graceful end. Every method of A2A is one binding in methods.go for one
// descriptor of package a2a. What the engine knows is told in A2A's words in
// project.go and nowhere else.
//
// # Guarantees
//
//   - A client that goes away ends its own stream or answer, never the work.
//   - Each event of a stream bears its sequence as id. Last-Event-ID goes on after
//     it without a gap or a repetition, also after a restart.
//   - A reader that does not keep up is cut off, and can go on later.
//   - What is not the caller's looks like what is not there.
//   - Tokens and bodies are never logged. Internal errors are told to the log; the
//     caller is told the request id to find them by.
//   - Bodies, batches, headers and streams are bounded: over the limit is a clear
//     answer.
//
// # Concurrency
//
// A Server is safe for concurrent use.
package server
