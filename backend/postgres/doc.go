// Package postgres keeps Holdfast's data in a schema of a PostgreSQL database, from
// version 13 on: for more than one replica, and where a database is run anyway.
//
// # Concepts
//
// Changes queue up for a few committers. Each applies whatever is queued in one
// transaction and one round trip (group commit): one statement per kind of change,
// with arrays as parameters. Guards are part of the statements, so that a change
// costs no read: a version or a lease is compared in the UPDATE that it guards. When
// one is refused, the database is looked at, the refused change is told why, and the
// others are applied without it. A task is a row of task_rows, which holds its guards
// and its place in lists and in the work queue, and rows of task_log, one per change.
//
// # Guarantees
//
//   - An acknowledged change is as durable as the server makes a commit: with its
//     default settings it survives the loss of power. With synchronous replication a
//     standby has confirmed it.
//   - A change that is answered with an error has not been applied, unless the error
//     says that it may have been: then the connection was lost during the commit, and
//     the database could not be asked about it for as long as a command may take.
//     Whoever reads the task afterwards sees what became of it, once and for all.
//     Otherwise a lost answer is found out, and a change never applied twice.
//   - An error of one request in a group does not fail its neighbours.
//   - Any number of processes may use a schema at once.
//   - No statement depends on search_path, and none but a migration on session state.
//
// # Concurrency
//
// All methods are safe for concurrent use.
//
// # Errors
//
// See package store. SQLSTATEs are mapped in errors.go. No error and no log holds
// the password of the URL.
package postgres
