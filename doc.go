// Package holdfast makes a Go function a durable agent: a service that speaks
// the A2A protocol and forgets nothing.
//
//	agent, err := holdfast.New(holdfast.Config{Name: "greeter"}, holdfast.HandlerFunc(
//		func(ctx context.Context, t *holdfast.Turn) error {
//			return t.Reply("Hello, " + t.Text())
//		}))
//	...
//	err = agent.ListenAndServe(ctx, "127.0.0.1:3773")
//
// # Concepts
//
// A client's message begins a task, or a new turn of one that waits. The
// [Handler] is called once per turn with a [Turn], through which it reads the
// message, tells progress, streams artifacts and says how the turn ended. What
// it tells is stored before anyone sees it; by default in a SQLite file under
// [Config.DataDir].
//
// # Guarantees
//
// When a process dies, each of its unfinished tasks is run again, here or on
// another replica: the handler is called with [Turn.Attempt] above 1. Work wrapped
// in [Step] is not repeated: what it returned is read back. So a handler's effects
// on the task happen exactly once, and its effects elsewhere at least once, once
// per step in the absence of a crash within the step.
//
// # Concurrency
//
// Handlers run concurrently, up to [Config.Concurrency]; a task never runs twice
// at once. A panic fails its task, never the process.
//
// # Errors
//
// A plain error of a handler fails the task with its text; wrap it by [Retry] to
// have the turn run again later.
package holdfast
