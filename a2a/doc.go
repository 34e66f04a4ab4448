// Package a2a is the model of the Agent2Agent protocol (A2A): tasks, messages,
// artifacts, events, agent cards, errors and the table of methods. It is a
// superset of A2A 0.3, A2A 1.0 and Holdfast's documented extensions; the wire
// forms are made at the edge by a2a/v03 and a2a/v10.
//
// # Concepts
//
// A client sends a [Message] made of [Part] values. The agent answers with a
// [Task], which lives in a context (one conversation), moves through states
// ([TaskState], [TaskState.CanMove]) and collects artifacts. Every change of a
// task is told as a [TaskStatusUpdateEvent] or a [TaskArtifactUpdateEvent].
//
// Around that stand the agent's [AgentCard] with its security schemes, push
// notification configs, and the extensions: [Context], negotiation, trust and
// credits. [A2ARequest] and [A2AResponse] are the envelopes of JSON-RPC. Payment
// objects are in package ap2. testdata/types_catalog.json lists all types; a test
// holds the Go types to it.
//
// # Validation
//
// Decoding refuses what is absent, of the wrong type or not in an enum.
// Validate, where a type has it, reports every other rule that a value breaks, all
// at once, as an [*InvalidError]. Rules that need other values or limits of the
// server are the server's.
//
// # Errors
//
// Everything that goes wrong carries a [Code]; [Code.JSONRPC], [Code.HTTPStatus],
// [Code.ExitCode] and [Code.Retryable] derive from one table.
//
// # Concurrency
//
// Values are plain data: safe for concurrent reading, not for concurrent
// writing. Package functions are safe for concurrent use.
package a2a
