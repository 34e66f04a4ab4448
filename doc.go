// Package holdfast turns a Go function into a durable agent: a service that speaks the A2A
// protocol and continues its tasks after crashes and deployments.
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
// A client's message starts a task, or a new turn of a task that waits for input. The agent
// calls the [Handler] for each turn with a [Turn]. Through the Turn it reads the messages,
// reports progress, streams artifacts and ends the turn with a result. Holdfast stores these
// events before clients see them, by default in a SQLite file in [Config.DataDir].
//
// # Guarantees
//
// If a process dies, its unfinished tasks run again, in the next process or on another
// replica: the handler is called with [Turn.Attempt] greater than 1. [Step] makes work
// durable: a later attempt returns a step's stored result instead of repeating the step. The
// events and artifacts of a task are therefore stored exactly once. The effects of a
// step on other systems happen at least once: they happen again if the process dies, or the step
// returns an error, before the result is stored.
//
// # Concurrency
//
// Up to [engine.Turns.Concurrency] handlers run at once. A task never runs more than once at the
// same time. A panic in a handler fails its task and does not affect the process.
//
// # Errors
//
// An error that a handler returns fails the task with the error's text. An error wrapped by
// [Retry] makes the turn run again later.
package holdfast
