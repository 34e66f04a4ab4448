// Package transfer exports contexts to files and imports them into any store.
//
// # Concepts
//
// A document is one context with all its tasks, the records of an owner, or the data that agents keep for an owner, in
// JSON Lines. Each line is an object; its member type says what the line contains. A file may contain several
// documents. docs/export.md specifies the format.
//
// [Export] writes a document, [Import] reads the documents of a file. Both preserve ids, times
// and order. Exporting an imported document returns the same bytes.
//
// # Guarantees
//
//   - Import writes nothing before it has checked all of its input: counts, order, SHA-256,
//     that each task equals the fold of its events, and that nothing conflicts with the store.
//   - Repeating an interrupted import finishes it. Repeating a finished import changes nothing.
//   - Memory is bounded by the largest task, not by the number of tasks, and by the ids of the entities
//     of the largest graph.
//
// A document does not contain idempotency keys, leases, webhooks, or the steps of finished
// turns.
//
// # Errors
//
// An invalid document returns code invalid_params and names the line. A conflict with the store
// returns code conflict and names the context or the task. Errors of the store are returned
// unchanged.
package transfer
