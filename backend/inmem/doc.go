// Package inmem keeps a store in memory: for tests, for trying things out, and
// for agents whose tasks may end with the process.
//
// # Guarantees
//
// It is the contract of package store, without durability. Every call costs the
// same at a thousand tasks as at a million, except [Store.Tasks] with a filter
// that matches few tasks of a large context, and with Total.
//
// # Concurrency
//
// One lock guards everything. It is held for moving pointers only: what is kept
// is never changed again, so that answers are copied after the lock is given
// back.
package inmem
