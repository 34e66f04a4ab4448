// Package sqlite keeps Holdfast's data in one SQLite file: the durable default
// that needs no setting up.
//
// # Concepts
//
// One goroutine owns the only connection that writes. Changes queue up for it;
// it applies whatever is queued in one transaction and answers after the commit
// (group commit), so that many callers share one write to the disk. A task is a
// row of task_rows, which holds its guards and its place in lists and in the
// work queue, and rows of task_log, one per change, which hold its events and
// at most one snapshot, so that reading a task that has come to rest costs
// two rows.
//
// Contexts stand in indexes of the orders they are listed in, once per status, and
// again once per tag and role; how many there are of each is kept in tallies.
//
// A webhook is a row of webhook_rows and one of webhook_lanes, which is how far it has
// been told. The row of a task says how many it has, so that a task without them
// costs nothing more. Lanes that wait stand in an index by time alone, those that may
// be due in one by owner, and a claim moves from one to the other what has become
// due: it looks at no lane that has nothing to send, or waits. Attempts that were
// acknowledged together share a row.
//
// # Guarantees
//
//   - With Synchronous "FULL", the default, an acknowledged change survives the
//     loss of power; with "NORMAL" it survives the end of the process.
//   - A change that is answered with an error has not been applied.
//   - An error of one request in a group does not fail its neighbours.
//   - One process at a time: a second one is refused by name of the first, unless
//     it only reads (Config.ReadOnly).
//   - When the disk is full, changes are refused with code resource_exhausted and
//     reads go on; changes go on by themselves once there is space.
//
// # Concurrency
//
// All methods are safe for concurrent use. Reads run beside the writer on
// GOMAXPROCS connections and see every change that was acknowledged.
//
// # Errors
//
// See package store. Everything SQLite reports is mapped in errors.go.
package sqlite
