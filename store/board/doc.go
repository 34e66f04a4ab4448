// Package board is the contract of task boards: the plan of an agent in a conversation, as a
// list of tasks that move through six states.
//
//	board, err := boards.Create(ctx, board.CreateParams{Owner: "alice", Conversation: "c1", Titles: []string{"read", "write"}})
//	task, err := boards.SetStatus(ctx, board.Key(), "1", board.InProgress, "")
//
// # States
//
// A task starts as planned. [CheckMove] is the table of moves:
//
//	from         to
//	planned      in_progress, blocked, abandoned
//	in_progress  planned, blocked, succeeded, failed, abandoned
//	blocked      planned, in_progress, failed, abandoned
//	failed       abandoned; planned only by IncrementRetry
//	succeeded    nothing
//	abandoned    nothing
//
// IncrementRetry returns a failed task to planned, up to the board's MaxRetries. After that the
// agent abandons it. ForceRetry is for people: it resets the count and returns any task that has
// ended to planned.
//
// # Concurrency
//
// Every method is atomic. Concurrent changes of a board lose nothing, and two callers cannot
// both use the last retry.
//
// [New] keeps boards as records of a store (store.Records), so each backend has them. An
// operator's own implementation must pass the suite of package boardtest.
package board
