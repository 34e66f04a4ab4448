// Package historydriver helps to implement a store of transcripts, as package database/sql/driver
// does for databases. Users of stores do not need it.
//
// # Implementing a store
//
// A store implements [history.Provider], and any of its optional interfaces. Its methods call
// these functions, so that all stores accept the same params and return the same pages:
//
//   - Before it reads or writes, a method passes its params to the function for them, such as
//     [CheckAppend] or [CompleteQuery]. The functions with Complete in their names also set defaults.
//   - Page reads messages without their bodies ([Outline]) and asks [PageSize] or [Fit] how many of
//     them make up the page.
//   - Prune asks [PruneSize] for the number of messages of its next batch.
//   - Search passes [history.Text] of each body to the [Matcher] of [CompleteSearch].
//   - Restore checks its params with [CheckRestore] and writes the [Batches] of messages.
//
// Run the suite of package historytest against the store.
//
// The functions do no I/O and are safe for concurrent use.
package historydriver
