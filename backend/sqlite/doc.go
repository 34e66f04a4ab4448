// Package sqlite implements [store.Store] in one SQLite file. It is the default durable
// backend and needs no configuration.
//
// # Concepts
//
// One goroutine owns the only connection that writes. It applies all queued changes in
// one transaction and reports the results after the commit (group commit), so that
// concurrent callers share one write to the disk.
//
// A task is a row of task_rows, which has its state and its queue entry, and rows of
// task_log, one per change, which have its events and at most one snapshot. Reading a
// finished task reads two rows.
//
// Contexts are indexed by each sort order and status, and again by each tag and role.
// The table counters has the number of contexts in each of these lists.
//
// A webhook is a row of webhook_rows and one of webhook_lanes, which has its delivery
// state. The row of a task has the number of its webhooks, so that changes of a task
// without webhooks read no lanes. Waiting lanes are indexed by due time, ready lanes by
// owner. A claim moves due lanes from the first index to the second and reads no others.
// Delivery attempts that were acknowledged together share a row.
//
// Store and the writer are made of parts. A part implements one concern with its own
// state and names the parts below it. Statements stand next to the methods that run them.
//
// # Guarantees
//
//   - With Synchronous "FULL", the default, an acknowledged change survives a power
//     failure. With "NORMAL" it survives a crash of the process, but not always a power
//     failure.
//   - A change that returned an error was not applied. Exception: if syncing the disk
//     failed, the change may appear after a restart.
//   - A failed request does not fail the other requests of its group.
//   - Only one process can open the store for writing. Open of a second process fails
//     with an error that names the first, unless Config.ReadOnly is set.
//   - While the disk is full, changes fail with code resource_exhausted and reads work.
//     Changes succeed again as soon as space is freed.
//
// # Concurrency
//
// All methods are safe for concurrent use. Reads run concurrently with the writer, by
// default on GOMAXPROCS connections, and see every acknowledged change.
//
// # Errors
//
// See package store. All errors of SQLite are mapped to codes in errors.go.
package sqlite
