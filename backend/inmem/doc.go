// Package inmem implements [store.Store] in memory. Data is lost when the process
// ends. Use it for tests, trials, and agents with tasks that need not outlive the process.
//
// # Guarantees
//
// The store fulfills the contract of package store except durability. The cost of a
// call does not grow with the number of tasks or contexts, with these exceptions:
//
//   - [Store.Tasks] with a filter on the time that the list is not sorted by, or on
//     state when it is sorted by creation: it reads all tasks of the context or owner
//     until the page is full. Its Total counts them one by one, also with a time range.
//   - [Store.Contexts] with two or more filters: it reads all contexts that the rarest
//     filter matches. Its Total counts them one by one, also with a time range.
//   - The first context of an owner with a second status or role: the store then copies
//     the owner's contexts to separate indexes.
//   - [Store.Claim] and [Store.ClaimLanes] during a takeover or after the clock was set
//     back: they read the whole queue.
//   - [Store.DeadLetters] and [Store.DeliveryAttempts] of one sequence: they read all
//     entries of the owner or the task.
//   - Changes of a task with many webhooks: they update each lane.
//
// The data that agents keep besides tasks is in a SQLite database in memory, with the code of a database in a file. The
// first change of this data opens the database, in about 0.1 ms.
//
// An offset costs one step for each entry that it skips.
//
// # Concurrency
//
// All methods are safe for concurrent use. One lock guards all tasks. Stored values are
// never modified, so the lock is held only to move pointers; results are copied after
// it is released. The database in memory has one connection with a lock of its own.
package inmem
