// Package store defines the contract between Holdfast and its storage backends: the
// interface [Store], its parts, and the values that it reads and writes. The package does no I/O
// and contains no rules of the protocol.
//
// # Concepts
//
// A task is an append-only log of events ([Event]). Sequences start at 1 and have no
// gaps. [Task] is the state that results from applying the log in order with
// [Task.Apply], the only code that does this.
//
// A [Change] is everything that one operation does to one task. It names the state that
// it expects: that the task does not exist, that it has a certain version, or that a
// worker still has its lease. [Tasks.Commit] applies a change completely or not at all.
//
// Workers execute tasks under leases. [Tasks.Claim] leases due tasks to a worker. Each
// [Lease] has a fencing token, Fence, which starts at the time of the task's creation
// ([FirstFence]) and grows with every claim. The store rejects a change under a lease
// that has been replaced, even if the task was deleted and created again with the same
// id.
//
// Every read and write names an owner. Ids are unique per owner. A call for one owner
// never finds or changes objects of another.
//
// # Guarantees
//
//   - When Commit returns, later reads see the applied changes, and the changes are as
//     durable as the backend states in [Info.Durable].
//   - A store checks the expected state and idempotency keys. Its callers decide about
//     task states, limits, defaults and permissions.
//   - Time and identity are arguments. A store reads no clock and generates no ids.
//   - A store keeps times with the precision of [Time].
//   - Strings are valid UTF-8 of any length. Messages, artifacts, metadata and feedback
//     texts may contain any character; owners, ids, keys and names any except NUL.
//   - Free-form values (data parts, metadata) are read back as equal JSON. Numbers keep
//     their value, but the Go type may differ. An empty map or slice equals an absent one.
//   - A store does not share memory with its callers, who may modify the values that they
//     pass and receive, unless a method documents otherwise.
//
// # Concurrency
//
// All methods of a Store are safe for concurrent use.
//
// # Errors
//
// Commit reports a rejected change in its [Result], with one of the sentinel errors of this
// package. An error of the backend itself (disk full, connection lost) wraps an
// [github.com/holdfast-dev/holdfast/a2a.Error] with code unavailable, exhausted or
// internal. No change was applied then, unless the backend documents otherwise. If the
// context of a call is done, the call returns the context's error.
//
// # Backends
//
// A backend implements Store, and [Clock] and [Watcher] if several processes share it.
// Package storetest is the conformance suite that every backend must pass. Functions of
// this package contain the logic that backends have in common: [Task.Apply],
// [Change.Check], [ContextChange.Check], [Page.Fit] and [CapTotal]. Package encoding encodes
// what stores write as JSON.
package store
