package storetest

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// BenchLarge is the environment variable that adds the sizes it names, such as
// "1000000", to the stores that Bench measures.
const BenchLarge = "HOLDFAST_BENCH_TASKS"

// Bench measures the calls of the hot path, each made by 1 and by 64
// goroutines, on a store of a thousand tasks and, to see whether cost grows, of
// a hundred thousand; of more when BenchLarge says so.
func Bench(b *testing.B, h Harness) {
	sizes := []int{1_000, 100_000}
	if n, err := strconv.Atoi(os.Getenv(BenchLarge)); err == nil {
		sizes = append(sizes, n)
	}
	for _, size := range sizes {
		b.Run(fmt.Sprintf("tasks=%d", size), func(b *testing.B) {
			m := newMeter(b, h, size)
			for _, c := range m.calls() {
				for _, goroutines := range []int{1, 64} {
					b.Run(fmt.Sprintf("%s/goroutines=%d", c.name, goroutines), func(b *testing.B) {
						m.measure(b, goroutines, c.call)
					})
				}
			}
		})
	}
}

// BenchClaims measures claims of one task beside a growing number of owners whose tasks all
// wait for a time to come.
func BenchClaims(b *testing.B, h Harness) {
	m := &meter{s: h.Open(Wrap(b))}
	b.Cleanup(func() { _ = m.s.Close() })
	made := 0
	for _, owners := range []int{10, 10_000, 100_000} {
		for ; made < owners; made = min(made+250, owners) {
			if err := m.commit(b.Context(), delayed(at(1<<30), made, min(made+250, owners))...); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(fmt.Sprintf("waiting-owners=%d", owners), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				c := m.created(m.next.Add(1))
				c.Run, c.Snapshot = &store.Run{Phase: store.PhaseQueued, Turn: 1}, nil
				if err := m.commit(b.Context(), c); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				p := claimAt(rival, at(1000), 64)
				p.Until = p.Now.Add(1000 * time.Hour)
				if tasks, err := m.s.Claim(b.Context(), p); err != nil || len(tasks) != 1 {
					b.Fatalf("Claim() = %d tasks, %v, want one", len(tasks), err)
				}
			}
		})
	}
}

// benchOwners is how many owners the stored tasks have.
const benchOwners = 16

// meter makes calls on a store with many tasks.
type meter struct {
	s    store.Store
	size int
	next atomic.Int64 // numbers the tasks that are made
}

type benchCall struct {
	name string
	call func(ctx context.Context, n int64) error
}

func newMeter(b *testing.B, h Harness, size int) *meter {
	m := &meter{s: h.Open(Wrap(b)), size: size}
	b.Cleanup(func() { _ = m.s.Close() })
	const batch = 250
	for done := 0; done < size; done += batch {
		var changes []store.Change
		for range min(batch, size-done) {
			n := m.next.Add(1)
			born, finished := m.created(n), m.finished(n)
			changes = append(changes, born, finished)
		}
		if err := m.commit(b.Context(), changes...); err != nil {
			b.Fatal(err)
		}
	}
	return m
}

func (m *meter) calls() []benchCall {
	return []benchCall{
		{"create and claim", m.create},
		{"create, claim and complete", m.complete},
		{"task", m.task},
		{"events", m.events},
		{"list page of 20", m.list},
		{"list page of 20 of a state", m.listState},
		{"list page of 20 by creation", m.listCreated},
		{"context", m.context},
		{"list page of 20 contexts", m.contexts},
		{"create and claim later", m.claim},
	}
}

// measure makes b.N calls from some goroutines.
func (m *meter) measure(b *testing.B, goroutines int, call func(context.Context, int64) error) {
	b.ReportAllocs()
	var left atomic.Int64
	left.Store(int64(b.N))
	ctx := b.Context()
	b.ResetTimer()
	together(goroutines, func(int) {
		for n := left.Add(-1); n >= 0; n = left.Add(-1) {
			if err := call(ctx, n); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func benchKey(n int64) store.Key {
	return store.Key{Owner: fmt.Sprintf("did:example:owner-%d", n%benchOwners), ID: fmt.Sprintf("0190aaaa-bbbb-7ccc-8ddd-%012d", n)}
}

func benchTime(n int64) time.Time { return start.Add(time.Duration(n) * time.Millisecond) }

// created is the change that submits a task and claims it for a local worker.
func (m *meter) created(n int64) store.Change {
	k, now := benchKey(n), benchTime(n)
	return withSnapshot(store.Change{
		Key: k, Create: &store.Create{ContextID: "context-" + k.ID},
		Events: []store.Event{received(now, "message-"+k.ID), status(now, a2a.StateWorking)},
		Run:    leased(worker, now.Add(time.Minute)),
	}, &store.Task{Key: k, ContextID: "context-" + k.ID})
}

// finished is the change that ends a task with an artifact.
func (m *meter) finished(n int64) store.Change {
	k, now := benchKey(n), benchTime(n).Add(5*time.Millisecond)
	before := &store.Task{Key: k, ContextID: "context-" + k.ID}
	before.Apply(numbered(m.created(n).Events)...)
	c := under(k, worker, 1,
		chunk(now, "artifact-"+k.ID, "A summary of some forty bytes, as it were.", false),
		said(now, a2a.StateCompleted, "answer-"+k.ID))
	c.Run = &store.Run{Phase: store.PhaseIdle, Turn: 1, Attempt: 1, SeenSeq: 1, Lease: store.Lease{Worker: worker, Fence: 1}}
	return withSnapshot(c, before)
}

func (m *meter) commit(ctx context.Context, changes ...store.Change) error {
	results, err := m.s.Commit(ctx, changes...)
	if err != nil {
		return err
	}
	for i, r := range results {
		if r.Err != nil {
			return fmt.Errorf("change of task %s: %w", changes[i].Key.ID, r.Err)
		}
	}
	return nil
}

func (m *meter) create(ctx context.Context, _ int64) error {
	return m.commit(ctx, m.created(m.next.Add(1)))
}

func (m *meter) complete(ctx context.Context, _ int64) error {
	n := m.next.Add(1)
	if err := m.commit(ctx, m.created(n)); err != nil {
		return err
	}
	return m.commit(ctx, m.finished(n))
}

// stored picks a task that is there.
func (m *meter) stored(n int64) store.Key { return benchKey(1 + n*7919%int64(m.size)) }

func (m *meter) task(ctx context.Context, n int64) error {
	_, err := m.s.Task(ctx, m.stored(n), store.TaskOptions{})
	return err
}

func (m *meter) events(ctx context.Context, n int64) error {
	_, err := m.s.Events(ctx, m.stored(n), 0, 100)
	return err
}

func (m *meter) list(ctx context.Context, n int64) error {
	return m.page(ctx, n, store.Query{})
}

func (m *meter) listState(ctx context.Context, n int64) error {
	return m.page(ctx, n, store.Query{States: []a2a.TaskState{a2a.StateCompleted}})
}

func (m *meter) listCreated(ctx context.Context, n int64) error {
	return m.page(ctx, n, store.Query{ByCreated: true, Ascending: true})
}

func (m *meter) context(ctx context.Context, n int64) error {
	k := m.stored(n)
	_, err := m.s.Context(ctx, k.Owner, "context-"+k.ID, 10)
	return err
}

// contexts reads a page of contexts from somewhere in the list.
func (m *meter) contexts(ctx context.Context, n int64) error {
	k := m.stored(n)
	q := newestContexts(k.Owner, 20)
	q.Tasks = 10
	q.Cursor = &store.ContextCursor{Time: benchTime(1 + n*7919%int64(m.size)), ID: "context-" + k.ID}
	_, err := m.s.Contexts(ctx, q)
	return err
}

// page reads a page from somewhere in the list.
func (m *meter) page(ctx context.Context, n int64, q store.Query) error {
	k := m.stored(n)
	q.Owner, q.Limit = k.Owner, 20
	q.Cursor = &store.Cursor{Time: benchTime(1 + n*7919%int64(m.size)), ID: k.ID}
	_, err := m.s.Tasks(ctx, q)
	return err
}

// claim queues a task and claims one, for so long that no lease ends meanwhile.
func (m *meter) claim(ctx context.Context, _ int64) error {
	n := m.next.Add(1)
	c := m.created(n)
	c.Run = &store.Run{Phase: store.PhaseQueued, DueAt: benchTime(n), Turn: 1}
	c.Snapshot = nil
	if err := m.commit(ctx, c); err != nil {
		return err
	}
	p := claimAt(rival, benchTime(n), 1)
	p.Until = p.Now.Add(1000 * time.Hour)
	_, err := m.s.Claim(ctx, p)
	return err
}
