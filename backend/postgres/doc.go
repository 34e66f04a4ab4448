// Package postgres stores Holdfast's data in a schema of a PostgreSQL database, version 13
// or later. Use it to run several replicas, or where a PostgreSQL server is operated anyway.
//
// # Concepts
//
// Changes are queued for a few committers. Each committer applies the queued changes in
// one transaction and one round trip (group commit): one statement per kind of change,
// with arrays as parameters. The statements contain the guards, so a change needs no read:
// the UPDATE compares the version or the lease. When a guard fails, the committer reads the
// current state, rejects the change with the reason, and applies the others without it. A
// task is one row of task_rows, which holds its guards, its sort keys and its queue entry,
// and one row of task_log per change.
//
// # Guarantees
//
//   - An acknowledged change is as durable as a commit of the server. With the server's
//     default settings it survives a power failure. With synchronous replication a standby
//     has confirmed it.
//   - A change that returned an error was not applied, unless the error says that its
//     outcome is unknown: the connection was lost during the commit and the database could
//     not be asked within a command timeout. The next read of the task shows the final
//     outcome. In all other cases the store resolves a lost answer itself, and never applies
//     a change twice.
//   - An error of one request does not fail other requests of its group.
//   - Any number of processes may use a schema at once.
//   - No statement depends on search_path, and only migrations depend on session state.
//
// # Concurrency
//
// All methods are safe for concurrent use.
//
// # Errors
//
// See package store. errors.go maps SQLSTATEs to error codes. No error and no log line
// contains the password of the URL.
package postgres
