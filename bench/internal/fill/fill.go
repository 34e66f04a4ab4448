// Package fill adds finished tasks to a store, to measure the effect of its size.
package fill

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/postgres"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/bench/internal/loadgen"
	"github.com/holdfast-dev/holdfast/store"
)

const (
	// fillBatch is a multiple of fillBlock, so that all tasks of a context are in one batch.
	fillBatch   = 500
	fillWriters = 4
)

// Location selects a store with the flags of holdfast serve.
type Location struct {
	Storage string // sqlite or postgres
	Data    string // directory of SQLite
	URL     string // of PostgreSQL
	Schema  string
}

// Flags defines the flags of a Location.
func (l *Location) Flags(set *flag.FlagSet) {
	set.StringVar(&l.Storage, "storage", "sqlite", "sqlite or postgres")
	set.StringVar(&l.Data, "data", "", "data directory of SQLite; no server may be using it")
	set.StringVar(&l.URL, "database-url", "", "URL of the PostgreSQL database")
	set.StringVar(&l.Schema, "schema", "", "schema in the PostgreSQL database")
}

func (l *Location) open(ctx context.Context) (store.Store, error) {
	switch {
	case l.Storage == "sqlite" && l.Data != "":
		return sqlite.Open(ctx, sqlite.Config{Dir: l.Data})
	case l.Storage == "postgres" && l.URL != "" && l.Schema != "":
		return postgres.Open(ctx, postgres.Config{URL: l.URL, Schema: l.Schema, Migrate: true})
	}
	return nil, errors.New("want -storage sqlite -data DIR, or -storage postgres -database-url URL -schema NAME")
}

// Tasks adds n finished tasks to the store at l. They are small and completed, with one message and
// one artifact each, and belong to several owners, most of them to [a2a.Anonymous]. A context has
// ten tasks. One context in ten has a name, a role and tags, and some of those are paused or
// completed. Tasks are committed in batches, several at the same time. If progress is not nil, it
// is called after each batch with the number of tasks added, by one goroutine at a time.
func Tasks(ctx context.Context, l Location, n int, progress func(done int)) error {
	if n < 1 {
		return fmt.Errorf("number of tasks is %d, want 1 or more", n)
	}
	st, err := l.open(ctx)
	if err != nil {
		return err
	}
	f := filler{store: st, started: time.Now(), series: uuid.Must(uuid.NewV7()), total: n, progress: progress}
	return errors.Join(f.run(ctx), st.Close())
}

// filler creates and commits finished tasks.
type filler struct {
	store    store.Store
	started  time.Time
	series   uuid.UUID // common part of the ids of contexts
	total    int
	progress func(done int)

	mu       sync.Mutex
	assigned int // number of the next task
	done     int
	errs     []error
}

// run commits from several goroutines, so that the next batch is created while the previous one is
// written.
func (f *filler) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	for range fillWriters {
		wg.Go(func() {
			for ctx.Err() == nil {
				from, n := f.next()
				if n == 0 {
					return
				}
				if err := f.commit(ctx, from, n); err != nil {
					f.fail(err)
					cancel()
					return
				}
				f.report(n)
			}
		})
	}
	wg.Wait()
	return errors.Join(append(f.errs, ctx.Err())...)
}

func (f *filler) next() (from, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	from, n = f.assigned, min(fillBatch, f.total-f.assigned)
	f.assigned += n
	return from, n
}

func (f *filler) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errs = append(f.errs, err)
}

func (f *filler) report(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done += n
	if f.progress != nil {
		f.progress(f.done)
	}
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

// describe adds a name, a role and tags to one in ten of the contexts from <= number < to. It saves
// them concurrently, so that a store can group them.
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

// fillOwners are the owners; contexts are assigned to them in turn.
var fillOwners = [...]string{a2a.Anonymous, a2a.Anonymous, a2a.Anonymous, "bench-alice", "bench-bob"}

const (
	// tasksPerContext is the number of tasks of each context.
	tasksPerContext = 10
	// fillBlock is the number of consecutive tasks that belong to one context of each owner.
	fillBlock = tasksPerContext * len(fillOwners)
)

// first returns the number of a context's first task.
func (f *filler) first(context int) int {
	return context/len(fillOwners)*fillBlock + context%len(fillOwners)
}

// time returns when the i-th task started and ended: a millisecond after the previous one. The last
// one ends now.
func (f *filler) time(i int) time.Time {
	return store.Time(f.started.Add(time.Duration(i-f.total) * time.Millisecond))
}

// contextKey returns the key of the number-th context. Its id sorts by time, like the ids that
// servers generate.
func (f *filler) contextKey(number int) store.ContextKey {
	id := f.series
	var at [8]byte
	binary.BigEndian.PutUint64(at[:], uint64(f.time(f.first(number)).UnixMilli())) // long after 1970
	copy(id[:6], at[2:])
	return store.ContextKey{Owner: fillOwners[number%len(fillOwners)], ID: id.String()}
}

// context returns the number-th context. Most are active, and a tenth have the rare tag.
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

// task returns the change that creates the i-th task in its final state.
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
	run := store.QueueEntry{Phase: store.PhaseIdle, Turn: 1, Attempt: 1, SeenSeq: 1, Lease: store.Lease{Fence: store.FirstFence(at)}}
	snapshot := &store.Task{Key: key, ContextID: in.ID, Queue: run}
	snapshot.Apply(events...)
	return store.Change{
		Key: key, Create: &store.Create{ContextID: in.ID}, Events: events, Queue: &run, Snapshot: snapshot,
	}
}
