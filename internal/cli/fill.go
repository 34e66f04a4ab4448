package cli

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/loadgen"
	"github.com/holdfast-dev/holdfast/store"
)

// benchFillCmd fills a store.
type benchFillCmd struct {
	Data  string `placeholder:"DIR" envvar:"HOLDFAST_DATA" help:"The data directory of SQLite; no server may be using it."`
	Tasks int    `required:"" placeholder:"N" help:"How many tasks to add."`

	storageFlags
}

// Help says what is written.
func (benchFillCmd) Help() string {
	return `The tasks are small and completed, with one message and one artifact each, ten to a context, and belong to several owners; most are of "anonymous", the owner of servers without tokens. One context in ten has a name, a role and tags, and some of those are paused or completed. All is written as a server writes it, many at a time.

Examples:

    holdfast bench fill --data /tmp/bench --tasks 1000000
    holdfast serve --agent echo --data /tmp/bench
    holdfast bench fill --storage postgres --schema bench --tasks 1000000`
}

const (
	// fillBatch is a multiple of fillBlock: a context is in one batch.
	fillBatch   = 500
	fillWriters = 4
)

// Run fills the store.
func (c *benchFillCmd) Run(ctx context.Context, a *app) error {
	if c.Tasks < 1 {
		return usagef("--tasks must be 1 or more")
	}
	to, err := c.choose(a, c.Data)
	if err = errors.Join(err, to.lasting()); err != nil {
		return err
	}
	if to.kind == kindPostgres && c.Storage == "" {
		return usagef("--storage must be given, so that no database is filled by mistake")
	}
	to.tell(a)
	st, err := to.open(ctx, a, nil)
	if err != nil {
		return err
	}
	began := time.Now()
	f := filler{store: st, began: began, series: uuid.Must(uuid.NewV7()), a: a, total: c.Tasks, line: statusLine{o: a.err, off: a.json}}
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
		a.out.line("%d tasks in %s, %.0f/s, in %s", c.Tasks, took.Round(time.Millisecond), rate, to.place())
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
	store  store.Store
	began  time.Time
	series uuid.UUID // what the ids of contexts have in common
	a      *app
	line   statusLine
	total  int

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
	return f.describe(ctx, from/tasksPerContext, (from+n-1)/fillBlock*len(fillOwners)+len(fillOwners))
}

// describe gives one in ten of the contexts from <= number < to a record, all at
// once, which a store may write as one.
func (f *filler) describe(ctx context.Context, from, to int) error {
	var wg sync.WaitGroup
	errs := make([]error, to-from)
	for number := from; number < to && f.first(number) < f.total; number++ {
		if (number/len(fillOwners)+number%len(fillOwners))%10 != 0 {
			continue
		}
		wg.Go(func() {
			c := f.context(number)
			if _, err := f.store.SaveContext(ctx, store.ContextChange{Context: c, Version: 1}); err != nil {
				errs[number-from] = fmt.Errorf("context %s: %w", c.Key.ID, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// fillOwners own the contexts in turn.
var fillOwners = [...]string{a2a.Anonymous, a2a.Anonymous, a2a.Anonymous, "bench-alice", "bench-bob"}

const (
	// tasksPerContext is how many tasks each context gets.
	tasksPerContext = 10
	// fillBlock is how many tasks go to as many contexts as there are owners, to one
	// after the other.
	fillBlock = tasksPerContext * len(fillOwners)
)

// first is the number of a context's first task.
func (f *filler) first(context int) int {
	return context/len(fillOwners)*fillBlock + context%len(fillOwners)
}

// time is when the i-th task was begun and ended: a millisecond after the one
// before, the last of them now.
func (f *filler) time(i int) time.Time {
	return store.Time(f.began.Add(time.Duration(i-f.total) * time.Millisecond))
}

// contextKey names the number-th context. Its id sorts by time, as those that
// servers make up.
func (f *filler) contextKey(number int) store.ContextKey {
	id := f.series
	var at [8]byte
	binary.BigEndian.PutUint64(at[:], uint64(f.time(f.first(number)).UnixMilli())) //nolint:gosec // long after 1970
	copy(id[:6], at[2:])
	return store.ContextKey{Owner: fillOwners[number%len(fillOwners)], ID: id.String()}
}

// context is the record of the number-th context: most are active, and a tenth
// have the rare tag.
func (f *filler) context(number int) store.Context {
	tags, status := []string{loadgen.CommonTag}, a2a.ContextActive
	switch number / 50 % 10 {
	case 0:
		tags = append(tags, loadgen.RareTag)
	case 1:
		status = a2a.ContextPaused
	case 2, 3:
		status = a2a.ContextCompleted
	}
	last := min(f.first(number)+fillBlock-len(fillOwners), f.total-1)
	return store.Context{
		Key: f.contextKey(number), Name: fmt.Sprintf("Conversation %d", number), Role: "analyst", Status: status, Tags: tags,
		UpdatedAt: f.time(last),
	}
}

// task is the change that makes the i-th task, begun and finished at once.
func (f *filler) task(i int) store.Change {
	in := f.contextKey(i/fillBlock*len(fillOwners) + i%len(fillOwners))
	key := store.Key{Owner: in.Owner, ID: uuid.Must(uuid.NewV7()).String()}
	at := f.time(i)
	received := a2a.Message{
		ID: uuid.Must(uuid.NewV7()).String(), Role: a2a.RoleUser, TaskID: key.ID, ContextID: in.ID,
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
	run := store.Run{Phase: store.PhaseIdle, Turn: 1, Attempt: 1, SeenSeq: 1, Lease: store.Lease{Fence: store.FirstFence(at)}}
	snapshot := &store.Task{Key: key, ContextID: in.ID, Run: run}
	snapshot.Apply(events...)
	return store.Change{
		Key: key, Create: &store.Create{ContextID: in.ID}, Events: events, Run: &run, Snapshot: snapshot,
	}
}
