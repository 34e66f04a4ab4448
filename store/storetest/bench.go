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
	"github.com/holdfast-dev/holdfast/store/suite"
)

// BenchLarge is the name of an environment variable. Its value, such as "1000000", is an
// additional number of tasks for which Bench measures.
const BenchLarge = "HOLDFAST_BENCH_TASKS"

// Bench measures the most frequent calls, made by 1 and by 64 goroutines, on a store with 1,000
// tasks and on one with 100,000, to show whether their cost grows. See BenchLarge for larger
// stores.
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

// BenchClaims measures claims of one task while a growing number of other owners have tasks
// that are not due yet.
func BenchClaims(b *testing.B, h Harness) {
	m := &meter{s: h.Open(Wrap(b))}
	b.Cleanup(func() { _ = m.s.Close() })
	made := 0
	for _, owners := range []int{10, 10_000, 100_000} {
		for ; made < owners; made = min(made+250, owners) {
			if err := m.commit(b.Context(), delayedTasks(at(1<<30), made, min(made+250, owners))...); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(fmt.Sprintf("waiting-owners=%d", owners), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				c := m.created(m.next.Add(1))
				c.Queue, c.Snapshot = &store.QueueEntry{Phase: store.PhaseQueued, Turn: 1}, nil
				if err := m.commit(b.Context(), c); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				p := claimAt(otherWorker, at(1000), 64)
				p.Until = p.Now.Add(1000 * time.Hour)
				if tasks, err := m.s.Claim(b.Context(), p); err != nil || len(tasks) != 1 {
					b.Fatalf("Claim() = %d tasks, %v, want 1", len(tasks), err)
				}
			}
		})
	}
}

// BenchDelete measures the deletion of contexts of one completed task by 32 callers, beside their
// creation by 32 callers: in one call, and in the calls of a server that has nothing else to
// remove.
func BenchDelete(b *testing.B, h Harness) {
	const callers = 32
	for _, way := range []struct {
		name   string
		delete func(ctx context.Context, s store.Store, owner, id string) error
	}{
		{"one call", func(ctx context.Context, s store.Store, owner, id string) error {
			_, err := s.DeleteContext(ctx, owner, id, 200)
			return err
		}},
		{"three calls", func(ctx context.Context, s store.Store, owner, id string) error {
			if _, err := s.DeleteContext(ctx, owner, id, 0); err != nil {
				return err
			}
			if _, err := s.FinishDelete(ctx, owner, id, 0); err != nil {
				return err
			}
			_, err := s.FinishDelete(ctx, owner, id, 200)
			return err
		}},
	} {
		b.Run(way.name, func(b *testing.B) {
			m := &meter{s: h.Open(Wrap(b))}
			b.Cleanup(func() { _ = m.s.Close() })
			started := time.Now()
			m.measure(b, callers, m.complete)
			created := time.Since(started)
			m.measure(b, callers, func(ctx context.Context, n int64) error {
				k := benchKey(n + 1)
				return way.delete(ctx, m.s, k.Owner, "context-"+k.ID)
			})
			b.ReportMetric(float64(b.N)/created.Seconds(), "created/s")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deleted/s")
			b.ReportMetric(created.Seconds()/b.Elapsed().Seconds(), "deleted/created")
		})
	}
}

// benchOwners is the number of owners of the stored tasks.
const benchOwners = 16

// meter makes calls on a store with many tasks.
type meter struct {
	s    store.Store
	size int
	next atomic.Int64 // number of created tasks
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
			created, finished := m.created(n), m.finished(n)
			changes = append(changes, created, finished)
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

// measure makes b.N calls from the given number of goroutines.
func (m *meter) measure(b *testing.B, goroutines int, call func(context.Context, int64) error) {
	b.ReportAllocs()
	var left atomic.Int64
	left.Store(int64(b.N))
	ctx := b.Context()
	b.ResetTimer()
	suite.Concurrently(goroutines, func(int) {
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

// created returns the change that creates a task and leases it to a local worker.
func (m *meter) created(n int64) store.Change {
	k, now := benchKey(n), benchTime(n)
	return withSnapshot(store.Change{
		Key: k, Create: &store.Create{ContextID: "context-" + k.ID},
		Events: []store.Event{clientMessage(now, "message-"+k.ID), statusEvent(now, a2a.StateWorking)},
		Queue:  leased(worker, now.Add(time.Minute)),
	}, &store.Task{Key: k, ContextID: "context-" + k.ID})
}

// finished returns the change that completes a task with an artifact.
func (m *meter) finished(n int64) store.Change {
	k, now := benchKey(n), benchTime(n).Add(5*time.Millisecond)
	before := &store.Task{Key: k, ContextID: "context-" + k.ID}
	before.Apply(withSeqs(m.created(n).Events)...)
	c := changeUnder(k, worker, 1,
		chunkEvent(now, "artifact-"+k.ID, "A summary of some forty bytes, as it were.", false),
		agentMessage(now, a2a.StateCompleted, "answer-"+k.ID))
	c.Queue = &store.QueueEntry{Phase: store.PhaseIdle, Turn: 1, Attempt: 1, SeenSeq: 1, Lease: store.Lease{Worker: worker, Fence: 1}}
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

// stored returns the key of an existing task.
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

// contexts reads a page from an arbitrary position of the list.
func (m *meter) contexts(ctx context.Context, n int64) error {
	k := m.stored(n)
	q := newestContexts(k.Owner, 20)
	q.MaxTaskIDs = 10
	q.Cursor = &store.ContextCursor{Time: benchTime(1 + n*7919%int64(m.size)), ID: "context-" + k.ID}
	_, err := m.s.Contexts(ctx, q)
	return err
}

// page reads a page from an arbitrary position of the list.
func (m *meter) page(ctx context.Context, n int64, q store.Query) error {
	k := m.stored(n)
	q.Owner, q.Limit = k.Owner, 20
	q.Cursor = &store.Cursor{Time: benchTime(1 + n*7919%int64(m.size)), ID: k.ID}
	_, err := m.s.Tasks(ctx, q)
	return err
}

// claim queues a task and claims one. The lease is long enough not to end during the benchmark.
func (m *meter) claim(ctx context.Context, _ int64) error {
	n := m.next.Add(1)
	c := m.created(n)
	c.Queue = &store.QueueEntry{Phase: store.PhaseQueued, DueAt: benchTime(n), Turn: 1}
	c.Snapshot = nil
	if err := m.commit(ctx, c); err != nil {
		return err
	}
	p := claimAt(otherWorker, benchTime(n), 1)
	p.Until = p.Now.Add(1000 * time.Hour)
	_, err := m.s.Claim(ctx, p)
	return err
}
