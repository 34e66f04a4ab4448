// Package server serves an engine over HTTP: A2A 0.3 and 1.0 over JSON-RPC and HTTP+JSON with
// server-sent events, the agent card, and health checks.
//
// # Concepts
//
// A [Server] is an [http.Handler]. [Server.Serve] runs it with timeouts and graceful
// shutdown.
//
// # Guarantees
//
//   - A client that disconnects ends its own stream or response, never the task.
//   - Each stream event has its sequence number as id. A client that sends Last-Event-ID
//     receives the events after it without gaps or duplicates, also after a restart.
//   - The server disconnects slow readers, which can resume later.
//   - Objects of other owners are indistinguishable from objects that do not exist.
//   - Tokens and bodies are never logged. Internal errors are logged; the caller receives
//     the request ID of the log entry.
//   - Bodies, batches, headers and streams are limited. Requests that exceed a limit get a
//     specific error.
//
// # Concurrency
//
// A Server is safe for concurrent use.
package server
