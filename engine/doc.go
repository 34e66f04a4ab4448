// Package engine runs tasks: it takes messages in, commits what they mean,
// leases work to a pool of workers, runs the handler, and lets readers follow.
// The state machine, ownership, limits and defaults are applied here, above the
// stores and below the transports.
//
// # Concepts
//
// A message begins a task or a new turn of one. A turn is run by the [Handler]
// under a lease; what the handler tells is committed under that lease before
// anyone sees it. A run that dies is claimed again with the next attempt; what
// its durable steps returned is read back instead of run again. A message that
// arrives during a run waits in the task's log: the running handler may take it,
// else the task runs once more before it can end.
//
// Tasks belong to a context, a conversation, which begins with its first task or is
// created before it. Its status says whether it takes new tasks; a handler reads
// what was said in it with [Turn.History]. A context that is cleared is gone at
// once, and removed with its tasks batch by batch.
//
// # Guarantees
//
//   - What Send, Cancel or an update told is in the store first.
//   - The artifacts of a turn are those of a run without interruption.
//   - One terminal event per task, last. After a cancel nothing of the handler is
//     committed.
//   - No two runs of one task commit.
//   - A context is completed or archived only when its tasks are over.
//   - A reader that goes away, or is slow, holds up neither task nor other readers.
//
// # Concurrency
//
// An Engine is safe for concurrent use. A [Turn] is safe for concurrent use by
// the goroutines of one handler call and ends with it.
//
// # Errors
//
// Methods return errors that carry an [a2a.Code]; anything else is internal.
package engine
