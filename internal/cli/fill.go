package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/store"
)

// benchFillCmd fills a store.
type benchFillCmd struct {
	Data  string `required:"" placeholder:"DIR" envvar:"HOLDFAST_DATA" help:"The data directory; no server may be using it."`
	Tasks int    `required:"" placeholder:"N" help:"How many tasks to add."`
}

// Help says what is written.
func (benchFillCmd) Help() string {
	return `The tasks are small and completed, with one message and one artifact each, and belong to several owners; most are of "anonymous", the owner of servers without tokens. They are written as a server writes them, many at a time.

Examples:

    holdfast bench fill --data /tmp/bench --tasks 1000000
    holdfast serve --agent echo --data /tmp/bench`
}

const (
	fillBatch   = 500
	fillWriters = 4
)

// Run fills the store.
func (c *benchFillCmd) Run(ctx context.Context, a *app) error {
	if c.Tasks < 1 {
		return usagef("--tasks must be 1 or more")
	}
	dir, err := filepath.Abs(c.Data)
	if err != nil {
		return err
	}
	st, err := sqlite.Open(ctx, sqlite.Config{Dir: dir})
	if err != nil {
		return err
	}
	began := time.Now()
	f := filler{store: st, began: began, a: a, total: c.Tasks, line: statusLine{o: a.err, off: a.json}}
	err = errors.Join(f.run(ctx), st.Close()) //nolint:contextcheck // closed also when ctx is done
	f.line.clear()
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	took := time.Since(began)
	rate := float64(c.Tasks) / took.Seconds()
	if !a.json {
		a.out.line("%d tasks in %s, %.0f/s, in %s", c.Tasks, took.Round(time.Millisecond), rate, c.Data)
		return nil
	}
	raw, err := json.Marshal(struct {
		Tasks     int     `json:"tasks"`
		ElapsedNS int64   `json:"elapsedNs"`
		PerSecond float64 `json:"perSecond"`
	}{c.Tasks, took.Nanoseconds(), rate})
	if err != nil {
		return err
	}
	a.out.raw(append(raw, '\n'))
	return nil
}

// filler makes and commits finished tasks.
type filler struct {
	store store.Store
	began time.Time
	a     *app
	line  statusLine
	total int

	mu   sync.Mutex
	next int // number of the next task to make
	done int
	errs []error
}

// run commits from several goroutines, so that the next batch is made while the
// last is written.
func (f *filler) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	for range fillWriters {
		wg.Go(func() {
			for ctx.Err() == nil {
				from, n := f.take()
				if n == 0 {
					return
				}
				if err := f.commit(ctx, from, n); err != nil {
					f.fail(err)
					cancel()
					return
				}
				f.tell(n)
			}
		})
	}
	wg.Wait()
	return errors.Join(append(f.errs, ctx.Err())...)
}

func (f *filler) take() (from, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	from, n = f.next, min(fillBatch, f.total-f.next)
	f.next += n
	return from, n
}

func (f *filler) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errs = append(f.errs, err)
}

func (f *filler) tell(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done += n
	f.line.show(fmt.Sprintf("%d of %d tasks", f.done, f.total))
}

func (f *filler) commit(ctx context.Context, from, n int) error {
	changes := make([]store.Change, n)
	for i := range changes {
		changes[i] = f.task(from + i)
	}
	results, err := f.store.Commit(ctx, changes...)
	if err != nil {
		return err
	}
	for i, r := range results {
		if r.Err != nil {
			return fmt.Errorf("task %s: %w", changes[i].Key.ID, r.Err)
		}
	}
	return nil
}

// fillOwners own the tasks in turn.
var fillOwners = [...]string{a2a.Anonymous, a2a.Anonymous, a2a.Anonymous, "bench-alice", "bench-bob"}

// tasksPerContext is how many tasks each conversation gets.
const tasksPerContext = 1000

// task is the change that makes the i-th task: begun and finished at once, a
// millisecond after the one before, the last of them now.
func (f *filler) task(i int) store.Change {
	owner := fillOwners[i%len(fillOwners)]
	key := store.Key{Owner: owner, ID: uuid.Must(uuid.NewV7()).String()}
	conversation := fmt.Sprintf("bench-%d-%s-%d", f.began.UnixMilli(), owner, i/tasksPerContext)
	at := store.Time(f.began.Add(time.Duration(i-f.total) * time.Millisecond))
	received := a2a.Message{
		ID: uuid.Must(uuid.NewV7()).String(), Role: a2a.RoleUser, TaskID: key.ID, ContextID: conversation,
		Parts: []a2a.Part{a2a.TextPart{Text: fmt.Sprintf("Message %d of the tasks that fill a store.", i)}},
	}
	events := []store.Event{
		{Seq: 1, Time: at, State: a2a.StateSubmitted, Received: &received},
		{Seq: 2, Time: at, State: a2a.StateWorking},
		{Seq: 3, Time: at, State: a2a.StateWorking, LastChunk: true, Artifact: &a2a.Artifact{
			ID: "echo", Name: "echo", Parts: []a2a.Part{a2a.TextPart{Text: "echo: " + received.Text()}},
		}},
		{Seq: 4, Time: at, State: a2a.StateCompleted},
	}
	run := store.Run{Phase: store.PhaseIdle, Turn: 1, Attempt: 1, SeenSeq: 1}
	snapshot := &store.Task{Key: key, ContextID: conversation, Run: run}
	snapshot.Apply(events...)
	return store.Change{
		Key: key, Create: &store.Create{ContextID: conversation}, Events: events, Run: &run, Snapshot: snapshot,
	}
}
