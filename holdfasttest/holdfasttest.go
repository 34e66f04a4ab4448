// Package holdfasttest runs a handler in the test's process, without a network
// and as if synchronously: a message in, the task out.
//
//	r := holdfasttest.New(t, holdfast.HandlerFunc(summarize))
//	task := r.Send("a long text ...")
//	if task.State != a2a.StateCompleted || task.Artifact("summary") == "" { ... }
//
// The handler runs under the real engine on a store in memory, so that turns,
// steps, inbox, cancel and limits are those of production. [Runner.Restart] stops
// the engine in the middle of whatever runs and starts another on the same data,
// as a deploy does.
package holdfasttest

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/store"
)

// Timeout is how long a Runner waits for a task before it fails the test.
const Timeout = 2 * time.Minute

// T is what a Runner needs of *testing.T.
type T interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
	Cleanup(func())
	Context() context.Context
}

// Runner runs one handler. It is safe for concurrent use; its methods fail the
// test when something other than the handler goes wrong.
type Runner struct {
	t       T
	handler holdfast.Handler
	cfg     holdfast.Config
	store   store.Store
	agent   *holdfast.Agent
	client  *client.Client
}

// Task is a task as a test wants to see it.
type Task struct {
	a2a.Task
	// State is Status.State.
	State a2a.TaskState
	// Message is the text of the status message, "" when there is none.
	Message string
}

// Artifact returns the text of the artifact with a name, "" when there is none.
func (t Task) Artifact(name string) string {
	for _, a := range t.Artifacts {
		if a.Name == name {
			return a.Text()
		}
	}
	return ""
}

// New returns a Runner that ends with the test. cfg may change limits and
// timeouts; its Name and Store need not be set.
func New(t T, h holdfast.Handler, cfg ...holdfast.Config) *Runner {
	t.Helper()
	r := &Runner{t: t, handler: h, store: inmem.New()}
	if len(cfg) > 0 {
		r.cfg = cfg[0]
	}
	if r.cfg.Name == "" {
		r.cfg.Name = "test"
	}
	r.cfg.Store = r.store
	r.start()
	t.Cleanup(func() { r.stop(r.stopNow()) })
	return r
}

func (r *Runner) start() {
	r.t.Helper()
	agent, err := holdfast.New(r.cfg, r.handler)
	if err != nil {
		r.t.Fatalf("holdfast.New() = %v", err)
	}
	if err := agent.Start(context.WithoutCancel(r.t.Context())); err != nil {
		r.t.Fatalf("Agent.Start() = %v", err)
	}
	r.agent = agent
	r.client, err = client.New(client.Config{URL: "http://agent.test", HTTPClient: inProcess(agent.Handler())})
	if err != nil {
		r.t.Fatalf("client.New() = %v", err)
	}
}

// stopNow is a context that gives running handlers no time to finish.
func (r *Runner) stopNow() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func (r *Runner) stop(ctx context.Context) {
	r.t.Helper()
	if err := r.agent.Stop(ctx); err != nil {
		r.t.Errorf("Agent.Stop() = %v", err)
	}
}

// Restart stops the agent and starts another on the same data: handlers that run
// are told to return, and their turns are run again.
func (r *Runner) Restart() {
	r.t.Helper()
	r.stop(r.stopNow())
	r.start()
}

// Message makes a client's message of parts. Set its TaskID to answer a task.
func Message(parts ...a2a.Part) a2a.Message {
	return a2a.Message{ID: uuid.NewString(), Role: a2a.RoleUser, Parts: parts}
}

// Send sends a text that begins a task and returns the task when it is over or
// waits for its client.
func (r *Runner) Send(text string) Task {
	r.t.Helper()
	return r.SendMessage(Message(a2a.TextPart{Text: text}))
}

// Reply sends a text to a task and returns the task when it is over or waits
// again.
func (r *Runner) Reply(taskID, text string) Task {
	r.t.Helper()
	m := Message(a2a.TextPart{Text: text})
	m.TaskID = taskID
	return r.SendMessage(m)
}

// SendMessage sends a message and returns the task when it is over or waits for
// its client.
func (r *Runner) SendMessage(m a2a.Message) Task {
	r.t.Helper()
	task := r.Submit(m)
	return r.Wait(task.ID)
}

// Submit sends a message and returns at once.
func (r *Runner) Submit(m a2a.Message) Task {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), Timeout)
	defer cancel()
	answer, err := r.client.Send(ctx, client.SendParams{Message: m})
	if err != nil {
		r.t.Fatalf("send = %v", err)
	}
	task, ok := answer.(*a2a.Task)
	if !ok {
		r.t.Fatalf("send = %T, want a task", answer)
	}
	return view(task)
}

// Wait returns a task when it is over or waits for its client.
func (r *Runner) Wait(taskID string) Task {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), Timeout)
	defer cancel()
	for _, err := range r.client.Resubscribe(ctx, taskID, "") {
		if err != nil {
			r.t.Fatalf("follow task %s = %v", taskID, err)
		}
	}
	task := r.Task(taskID)
	if !task.State.Final() {
		r.t.Fatalf("task %s is still %s after %s", taskID, task.State, Timeout)
	}
	return task
}

// Task returns a task as it stands.
func (r *Runner) Task(taskID string) Task {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), Timeout)
	defer cancel()
	task, err := r.client.Task(ctx, a2a.TaskQueryParams{ID: taskID})
	if err != nil {
		r.t.Fatalf("get task %s = %v", taskID, err)
	}
	return view(task)
}

// Cancel cancels a task.
func (r *Runner) Cancel(taskID string) Task {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), Timeout)
	defer cancel()
	task, err := r.client.Cancel(ctx, taskID)
	if err != nil {
		r.t.Fatalf("cancel task %s = %v", taskID, err)
	}
	return view(task)
}

// Events returns the log of a task: every event that was committed, in order.
func (r *Runner) Events(taskID string) []store.Event {
	r.t.Helper()
	events, err := r.store.Events(r.t.Context(), store.Key{Owner: a2a.Anonymous, ID: taskID}, 0, 1<<20)
	if err != nil {
		r.t.Fatalf("events of task %s = %v", taskID, err)
	}
	return events
}

func view(task *a2a.Task) Task {
	v := Task{Task: *task, State: task.Status.State}
	if task.Status.Message != nil {
		v.Message = task.Status.Message.Text()
	}
	return v
}
