// Package inmem keeps a store in memory: for tests, for trying things out, and
// for agents whose tasks may end with the process.
//
// # Guarantees
//
// It is the contract of package store, without durability. Every call does the
// same work at a thousand tasks as at a million, except [Store.Tasks] with a
// filter that matches few tasks of a large context or with Total, and
// [Store.Claim] where a takeover or a clock that was set back makes it look at
// all that is queued. Tasks not used for long have left the processor's caches:
// reading a page of them takes some times as long.
//
// # Concurrency
//
// One lock guards everything. It is held for moving pointers only: what is kept
// is never changed again, so that answers are copied after the lock is given
// back.
package inmem
