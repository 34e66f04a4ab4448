// Package store is the contract between Holdfast and what keeps its data: plain
// values in, plain values out, no I/O and no rules of the protocol.
//
// # Concepts
//
// A task is an append-only log of events ([Event]) with a sequence that starts
// at 1 and has no gaps. [Task] is the fold of that log, [Task.Apply] the one
// place where an event meets a task. Every change of a task is one value, a
// [Change]: it names what it saw (the task's absence, its version, or the lease
// it is made under) and all it does. [Store.Commit] applies each change whole or
// not at all.
//
// Work is leased: [Store.Claim] hands due tasks to a worker with a [Lease] whose
// fence starts from the clock ([FirstFence]) and grows with every claim. A change
// made under a lease that has been replaced is refused, also when the task was
// deleted and created again with the same id.
//
// Every read and write names an owner. Ids are unique per owner; what belongs to
// another owner is absent.
//
// # Guarantees
//
//   - When Commit returns, applied changes are as durable as the backend promises
//     ([Info.Durable]) and visible to every later read.
//   - A store reports, it never decides: it checks guards and keys, and leaves
//     states, limits, defaults and permissions to its callers.
//   - Time and identity are arguments: a store reads no clock and makes no ids.
//   - Times are kept as [Time] returns them. Strings are valid UTF-8 of any length;
//     those of messages, artifacts, metadata and feedback texts may hold any
//     character, owners, ids, keys and names any but NUL. Free-form values (data
//     parts, metadata) come back as equal JSON: numbers keep their value, the Go
//     type may differ, and empty is the same as absent for a whole map or slice.
//   - Values that are passed in or handed out are not shared with the store:
//     callers may change them freely, except where a method says otherwise.
//
// # Concurrency
//
// All methods of a Store are safe for concurrent use.
//
// # Errors
//
// A refused change is reported in its [Result] by one of the sentinels of this
// package. An error of the backend itself (disk full, connection lost) wraps an
// [github.com/holdfast-dev/holdfast/a2a.Error] with code unavailable, exhausted
// or internal; the change may be assumed not to have been applied unless the
// backend documents otherwise. A call whose context has ended returns the
// context's error.
//
// Package storetest is this contract in executable form.
package store
