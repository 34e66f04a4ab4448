// Package a2a defines the model of the Agent2Agent protocol (A2A): tasks, messages,
// artifacts, events, agent cards, errors and the table of methods. The model is a superset of
// A2A 0.3, A2A 1.0 and Holdfast's documented extensions. Packages a2a/v03 and a2a/v10
// convert it to the wire formats of the two versions.
//
// # Concepts
//
// A client sends a [Message], which consists of [Part] values. The agent responds with a
// [Task]. A task belongs to a context (one conversation), changes its state ([TaskState],
// [TaskState.CanMove]) and produces artifacts. Every change of a task is an event: a
// [TaskStatusUpdateEvent] or a [TaskArtifactUpdateEvent].
//
// Further types are the [AgentCard] with its security schemes, the push notification
// configs, and the extensions: [Context], negotiation, trust and credits. [A2ARequest] and
// [A2AResponse] are the JSON-RPC envelopes. Payment objects are in package ap2. A test
// compares the Go types with testdata/types_catalog.json, which lists all types.
//
// # JSON
//
// The types work with encoding/json in both directions: they read and write the JSON of A2A 0.3
// with the extensions. Tags with the key v10 describe how A2A 1.0 differs, for package a2a/v10.
//
// # Validation
//
// Decoding rejects missing members, wrong types and unknown enum values. Validate, if a type
// has it, checks all other rules and reports all violations at once as an [*InvalidError].
// The server checks rules that depend on other values or on its limits.
//
// # Errors
//
// Every error has a [Code]. [Code.JSONRPC], [Code.HTTPStatus], [Code.ExitCode] and
// [Code.Retryable] derive from one table.
//
// # Concurrency
//
// Values are plain data: concurrent reads are safe, concurrent writes are not. Package
// functions are safe for concurrent use.
package a2a
