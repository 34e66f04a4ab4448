// Package transfer writes conversations to files and reads them back into any
// store.
//
// # Concepts
//
// A document is one context with all its tasks, in JSON Lines: each line an object
// whose member type says what it is. A file may have several documents, one after
// the other. docs/export.md describes every line for other programs.
//
// [Export] writes a document, [Import] reads the documents of a file. Ids, times and
// order are kept, so that a document that is imported and exported again is the
// same, byte for byte.
//
// # Guarantees
//
//   - Import writes nothing before it has read all of its input and found it whole
//     (counts, order, SHA-256, each task the fold of its events) and without
//     contradiction to what the store has.
//   - An import that was cut short is finished by the next one of the same input.
//     Importing what is there already changes nothing.
//   - Memory is bounded by the largest task, not by the number of tasks.
//
// What is not part of a document: idempotency keys, leases, webhooks, and the steps
// of turns that are over.
//
// # Errors
//
// Mistakes in a document have code invalid_params and name the line, contradictions
// to the store have code conflict and name the context or the task. Errors of the
// store come as they are.
package transfer
