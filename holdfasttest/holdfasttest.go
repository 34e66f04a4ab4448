// Package holdfasttest tests handlers in the process of the test, without a network. A test
// sends a message and receives the resulting task:
//
//	r := holdfasttest.New(t, holdfast.HandlerFunc(summarize))
//	task := r.Send("a long text ...")
//	if task.State != a2a.StateCompleted || task.Artifact("summary") == "" { ... }
//
// The handler runs in the real engine with an in-memory store, so turns, steps, inbox,
// cancellation and limits behave as in production. [Runner.Restart] interrupts running
// handlers and starts another agent with the same data, as a deployment does.
package holdfasttest

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobs"
	"github.com/holdfast-dev/holdfast/store/board"
	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/graphs"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/transcripts"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/facts"
	"github.com/holdfast-dev/holdfast/store/vector"
	"github.com/holdfast-dev/holdfast/store/vector/documents"
)

// Timeout is how long a [Runner] waits for a task before it fails the test.
const Timeout = 2 * time.Minute

// T is the part of *testing.T that a [Runner] uses.
type T interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
	Cleanup(func())
	Context() context.Context
}

// Runner runs one handler. It is safe for concurrent use. Its methods fail the test on
// errors other than the handler's errors.
type Runner struct {
	t       T
	handler holdfast.Handler
	cfg     holdfast.Config
	store   *inmem.Store
	agent   *holdfast.Agent
	client  *client.Client
}

// Task is a task with shortcuts for tests.
type Task struct {
	a2a.Task
	// State is Status.State.
	State a2a.TaskState
	// Message is the text of the status message, "" if the status has none.
	Message string
}

// Artifact returns the text of the artifact with the given name, "" if the task has none.
func (t Task) Artifact(name string) string {
	for _, a := range t.Artifacts {
		if a.Name == name {
			return a.Text()
		}
	}
	return ""
}

// New returns a [Runner] for h that stops when the test ends. At most one cfg is used: it
// sets limits and timeouts. Its Name is optional and its Store is ignored.
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

// stopNow returns a context that gives running handlers no time to finish.
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

// Restart stops the agent and starts another one with the same data. The contexts of running
// handlers end, and their turns run again.
func (r *Runner) Restart() {
	r.t.Helper()
	r.stop(r.stopNow())
	r.start()
}

// Message returns a message of a client. Set its TaskID to answer a task.
func Message(parts ...a2a.Part) a2a.Message {
	return a2a.Message{ID: uuid.NewString(), Role: a2a.RoleUser, Parts: parts}
}

// Send starts a task with a text message. It returns the task when it has ended or waits
// for its client.
func (r *Runner) Send(text string) Task {
	r.t.Helper()
	return r.SendMessage(Message(a2a.TextPart{Text: text}))
}

// Reply sends a text message to a task. It returns the task when it has ended or waits for
// its client again.
func (r *Runner) Reply(taskID, text string) Task {
	r.t.Helper()
	m := Message(a2a.TextPart{Text: text})
	m.TaskID = taskID
	return r.SendMessage(m)
}

// SendMessage sends a message. It returns the task when it has ended or waits for its
// client.
func (r *Runner) SendMessage(m a2a.Message) Task {
	r.t.Helper()
	task := r.Submit(m)
	return r.Wait(task.ID)
}

// Submit sends a message and returns the task without waiting for it.
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

// Wait returns a task when it has ended or waits for its client.
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

// Task returns a task in its current state.
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

// Cancel cancels a task and returns it.
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

// Events returns all committed events of a task, in order.
func (r *Runner) Events(taskID string) []store.Event {
	r.t.Helper()
	events, err := r.store.Events(r.t.Context(), store.Key{Owner: a2a.Anonymous, ID: taskID}, 0, 1<<20)
	if err != nil {
		r.t.Fatalf("events of task %s = %v", taskID, err)
	}
	return events
}

// State returns the state of a context; see [holdfast.Turn.State].
func (r *Runner) State(contextID string) memory.State {
	r.t.Helper()
	states, err := memory.NewShortTerm(memory.ShortTermConfig{Records: store.NewUpdater(r.store)})
	if err != nil {
		r.t.Fatalf("open states = %v", err)
	}
	state, err := states.Get(r.t.Context(), memory.Key{Owner: a2a.Anonymous, Agent: r.cfg.Name, Session: contextID})
	if err != nil {
		r.t.Fatalf("state of context %s = %v", contextID, err)
	}
	return state
}

// Boards returns the boards of a context, the oldest first; see [holdfast.Turn.Board].
func (r *Runner) Boards(contextID string) []board.Board {
	r.t.Helper()
	boards, err := board.New(board.Config{Records: store.NewUpdater(r.store)})
	if err != nil {
		r.t.Fatalf("open boards = %v", err)
	}
	all, err := boards.List(r.t.Context(), a2a.Anonymous, contextID)
	if err != nil {
		r.t.Fatalf("boards of context %s = %v", contextID, err)
	}
	return all
}

func (r *Runner) contracts() []contract.Store { return r.cfg.Contracts.WithParts(r.store, nil).Stores }

// Transcript returns the messages of a context's transcript, the oldest first; see
// [holdfast.Turn.Transcript].
func (r *Runner) Transcript(contextID string) []history.Message {
	r.t.Helper()
	all, err := transcripts.In(r.contracts()).Messages(r.t.Context(), history.Key{Owner: a2a.Anonymous, Agent: r.cfg.Name, Session: contextID}, 0, 0)
	if err != nil {
		r.t.Fatalf("transcript of context %s = %v", contextID, err)
	}
	return all
}

// Facts returns up to 1,000 facts of a namespace, "" for the default one, the newest first; see
// [holdfast.Turn.Remember].
func (r *Runner) Facts(namespace string) []memory.Memory {
	r.t.Helper()
	scope := memory.Scope{Owner: a2a.Anonymous, Namespace: namespace, Agent: r.cfg.Name}
	found, err := facts.In(r.contracts()).Search(r.t.Context(), scope, memory.SearchParams{Limit: memory.MaxLimit})
	if err != nil {
		r.t.Fatalf("facts of namespace %q = %v", namespace, err)
	}
	return found.Facts
}

// Blobs returns up to 1,000 blobs, the oldest first; see [holdfast.Turn.Blobs].
func (r *Runner) Blobs() []blob.Info {
	r.t.Helper()
	page, err := blobs.In(r.contracts()).List(r.t.Context(), blob.ListParams{Owner: a2a.Anonymous, Limit: blob.MaxPage})
	if err != nil {
		r.t.Fatalf("blobs = %v", err)
	}
	return page.Blobs
}

// Documents returns up to 1,000 documents of a collection by id, "" for the default one, none if it
// does not exist; see [holdfast.Turn.Documents]. The store must list documents, as the stores of Holdfast do.
func (r *Runner) Documents(collection string) []vector.Document {
	r.t.Helper()
	lister, ok := documents.In(r.contracts()).(vector.Lister)
	if !ok {
		r.t.Fatalf("the store of documents does not list them")
	}
	all, err := lister.List(r.t.Context(), vector.Key{Owner: a2a.Anonymous, Collection: collection}, vector.ListParams{Limit: vector.MaxLimit})
	if err != nil && !errors.Is(err, vector.ErrCollectionNotFound) {
		r.t.Fatalf("documents of collection %q = %v", collection, err)
	}
	return all
}

// Entities returns up to 1,000 entities of a graph by id, "" for the default one; see
// [holdfast.Turn.Graph].
func (r *Runner) Entities(name string) []graph.Entity {
	r.t.Helper()
	all, err := graphs.In(r.contracts()).FindEntities(r.t.Context(), graph.Key{Owner: a2a.Anonymous, Graph: name}, graph.FindParams{Limit: graph.MaxLimit})
	if err != nil {
		r.t.Fatalf("entities of graph %q = %v", name, err)
	}
	return all
}

// Relationships returns up to 1,000 relationships of a graph that are true now, by id, "" for the
// default graph.
func (r *Runner) Relationships(name string) []graph.Relationship {
	r.t.Helper()
	all, err := graphs.In(r.contracts()).FindRelationships(r.t.Context(), graph.Key{Owner: a2a.Anonymous, Graph: name}, graph.FindRelationshipParams{Limit: graph.MaxLimit})
	if err != nil {
		r.t.Fatalf("relationships of graph %q = %v", name, err)
	}
	return all
}

func view(task *a2a.Task) Task {
	v := Task{Task: *task, State: task.Status.State}
	if task.Status.Message != nil {
		v.Message = task.Status.Message.Text()
	}
	return v
}
