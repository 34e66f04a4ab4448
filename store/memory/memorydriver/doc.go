// Package memorydriver helps to implement long-term memory, as package database/sql/driver does for
// databases. Users of stores do not need it.
//
// # Implementing a store
//
// A store of facts implements [memory.LongTermStore]. Its methods call these functions, so that all
// stores accept the same params and add the same versions:
//
//   - Save checks its params with [NewFact], which returns the first version. If the scope has a fact
//     with the key, [Replacement] returns the version to add.
//   - Update and Supersede check their params with [CheckUpdate]. [NextVersion] and [Succession]
//     return the version to add.
//   - The other methods check their params with the function for them, such as [CheckSearch], which
//     returns them with their defaults.
//   - [Embeddings] calls the embedder: [Embeddings.Content] for a fact that is saved, and
//     [Embeddings.Plan] for a search. Package recall ranks the facts of the plan.
//   - Restore checks its arguments with [CheckVersions].
//
// Session states need none of this: [memory.NewShortTerm] implements them over the records of a
// store. A store of its own for them calls [CheckOnce].
//
// Run the suites of package memorytest against the store.
//
// Only Embeddings does I/O. All functions are safe for concurrent use.
package memorydriver
