// Package engine runs tasks. It stores messages, leases due tasks to a pool of workers,
// calls the handler, commits its events and streams them to readers. The state machine,
// ownership checks, limits and defaults are applied here, above the stores and below the
// transports.
//
// # Concepts
//
// A message starts a task or a new turn of an existing task. The engine runs a turn by
// calling the [Handler] under a lease. It commits everything that the handler reports under
// that lease before any reader sees it. If the process dies, another worker claims the task
// and runs the turn again as the next attempt, which reads the results of durable steps
// instead of computing them again. A message that arrives while the task runs is added to
// the task's inbox. The handler can receive it with [Turn.Inbox]; otherwise the task runs
// another turn before it can end.
//
// Every task belongs to a context, that is, a conversation. A context is created with its
// first task, or before it. Its status determines whether it accepts new tasks. A handler
// reads earlier messages of the context with [Turn.History]. Clearing a context hides it at
// once and then removes its tasks in batches.
//
// # Parts
//
// The methods of [Engine] are the operations that callers use. The parts of an Engine have
// their own state: the dispatcher claims tasks and starts runs, the hub reads and writes the
// tasks that this process uses, the watcher detects changes by other processes, and
// the queue counts waiting tasks. The deletions and the janitor remove data. A run executes
// one claimed task: it calls the handler, its output commits what the handler reports, and its
// store calls wait while a store is away.
//
// # Guarantees
//
//   - Send, Cancel and updates return after their change is stored.
//   - Interruptions do not change the artifacts of a turn, because the turn keeps only the
//     artifacts of its last attempt.
//   - A task has one terminal event, and it is the last one. After a cancel, nothing that
//     the handler writes is committed.
//   - Only the run that holds the task's current lease can commit.
//   - A context is completed or archived only after its tasks have finished.
//   - A slow or disconnected reader delays neither the task nor other readers.
//
// # Concurrency
//
// An Engine is safe for concurrent use. A [Turn] is safe for concurrent use by the
// goroutines of one handler call, until the handler returns.
//
// # Errors
//
// Methods return errors that carry an [a2a.Code]; other errors are internal.
package engine
