// Package inmem keeps a store in memory: for tests, for trying things out, and
// for agents whose tasks may end with the process.
//
// # Guarantees
//
// It is the contract of package store, without durability. Every call does the
// same work at a thousand tasks or contexts as at a million, with these exceptions:
//
//   - [Store.Tasks] with a filter that matches few tasks of a large context, by
//     the time that the list is not sorted by, or by state when it is sorted by
//     creation; and its Total with any of those or a span of time.
//   - [Store.Contexts] with two filters or more, which walks what the rarest of
//     them matches, and its Total then and with a span of time.
//   - The first context of an owner that has another status or another role than
//     all before it: from then on the owner's contexts are listed apart.
//   - [Store.Claim] and [Store.ClaimLanes] where a takeover or a clock that was set
//     back makes them look at all that is queued or pending.
//   - [Store.DeadLetters] and [Store.PushAttempts] of one sequence, which walk those
//     of the owner or the task; and a change of a task with many webhooks, which
//     looks at each of them.
//
// An offset costs a step for each entry that it skips. Tasks not used for long
// have left the processor's caches: reading a page of them takes some times as
// long.
//
// # Concurrency
//
// One lock guards everything. It is held for moving pointers only: what is kept
// is never changed again, so that answers are copied after the lock is given
// back.
package inmem
