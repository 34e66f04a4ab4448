package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store"
)

// idleReplica is a replica's view of a shared store that sends no notices and claims
// nothing. It counts its reads.
type idleReplica struct {
	replicas
	tasks, events, versions atomic.Int64
	rows, bytes             atomic.Int64 // of the events and tasks that were read
}

func (s *idleReplica) Claim(context.Context, store.ClaimParams) ([]*store.Task, error) {
	return nil, nil
}

func (s *idleReplica) Task(ctx context.Context, k store.Key, opts store.TaskOptions) (*store.Task, error) {
	s.tasks.Add(1)
	t, err := s.replicas.Task(ctx, k, opts)
	if err == nil {
		s.rows.Add(t.Seq)
		s.bytes.Add(int64(t.Size()))
	}
	return t, err
}

func (s *idleReplica) Events(ctx context.Context, k store.Key, after int64, limit int) ([]store.Event, error) {
	s.events.Add(1)
	events, err := s.replicas.Events(ctx, k, after, limit)
	s.rows.Add(int64(len(events)))
	for i := range events {
		s.bytes.Add(int64(events[i].Size()))
	}
	return events, err
}

func (s *idleReplica) Versions(ctx context.Context, keys []store.Key) (map[store.Key]store.TaskVersion, error) {
	s.versions.Add(1)
	return s.replicas.Versions(ctx, keys)
}

// echo answers the next message that a turn receives.
func echo(ctx context.Context, turn *engine.Turn) error {
	messages, err := turn.Receive(ctx)
	if err != nil {
		return err
	}
	return turn.Reply(messages[0].Parts...)
}

func TestMessageThroughOtherReplicaArrivesWithoutNotices(t *testing.T) {
	t.Parallel()
	shared := inmem.New()
	e1 := start(t, engine.Config{Store: replicas{shared}, Handler: echo, Poll: 10 * time.Millisecond})
	e2 := start(t, engine.Config{Store: &idleReplica{replicas: replicas{shared}}, Handler: echo, Poll: 10 * time.Millisecond})
	for range 3 {
		task := send(t, e1, text("converse"))
		eventually(t, func() bool {
			got, err := e2.Task(t.Context(), alice, task.Key.ID, nil)
			return err == nil && got.Status.State == a2a.StateWorking
		})
		send(t, e2, to(task.Key.ID, "continue"))
		wantState(t, settled(t, e2, task.Key.ID), a2a.StateCompleted)
		checkLog(t, shared, task.Key)
	}
}

func TestFollowingAnotherReplicaCostsWhatIsNew(t *testing.T) {
	t.Parallel()
	const chunks, length, group = 600, 200, 100
	for _, test := range []struct{ before, followers int }{{1, 1}, {4 << 20, 1}, {4 << 20, 30}} {
		shared := inmem.New()
		written, attached := make(chan struct{}), make(chan struct{})
		var received atomic.Int64 // chunks, by all followers
		e1 := start(t, engine.Config{Store: replicas{shared}, Handler: func(ctx context.Context, turn *engine.Turn) error {
			w := turn.Artifact("large")
			for range 4 {
				if _, err := w.WriteString(strings.Repeat("x", test.before/4+1)); err != nil {
					return err
				}
			}
			if err := turn.Flush(); err != nil {
				return err
			}
			close(written)
			<-attached
			for n := range chunks {
				if err := w.WriteParts(a2a.DataPart{Data: strings.Repeat("y", length)}); err != nil {
					return err
				}
				if n%group < group-1 {
					continue
				}
				if err := turn.Flush(); err != nil {
					return err
				}
				// A follower that falls behind the events kept in memory reads them itself.
				for ctx.Err() == nil && received.Load() < int64((n+1)*test.followers) {
					time.Sleep(time.Millisecond)
				}
			}
			return turn.Reply(a2a.TextPart{Text: "done"})
		}})
		reads := &idleReplica{replicas: replicas{shared}}
		e2 := start(t, engine.Config{Store: reads, Handler: echo, Poll: 5 * time.Millisecond})
		id := send(t, e1, text("a")).Key.ID
		<-written
		var ready, over sync.WaitGroup
		ready.Add(test.followers)
		for range test.followers {
			over.Go(func() {
				first, seen := true, 0
				for u, err := range e2.Follow(t.Context(), alice, id, nil) {
					if err != nil {
						t.Errorf("Follow() = %v", err)
					}
					if first {
						first = false
						ready.Done()
					} else if u.Event.Artifact != nil {
						seen++
						received.Add(1)
					}
				}
				if seen < chunks {
					t.Errorf("Follow() had %d chunks, want %d", seen, chunks)
				}
			})
		}
		ready.Wait()
		reads.rows.Store(0)
		reads.bytes.Store(0)
		close(attached)
		over.Wait()
		rows, bytes := reads.rows.Load(), reads.bytes.Load()
		t.Logf("%d bytes before, %d followers: %d rows and %d bytes read", test.before, test.followers, rows, bytes)
		if rows > chunks+20 || bytes > 2*chunks*length {
			t.Errorf("%d followers of a task of %d bytes read %d rows and %d bytes for %d chunks of %d bytes",
				test.followers, test.before, rows, bytes, chunks, length)
		}
	}
}

func TestIdleStreamsCostOneQueryPerPoll(t *testing.T) {
	t.Parallel()
	const streams = 50
	shared := inmem.New()
	release := make(chan struct{})
	e1 := start(t, engine.Config{Store: replicas{shared}, Handler: func(_ context.Context, turn *engine.Turn) error {
		<-release
		return turn.Reply(a2a.TextPart{Text: "done"})
	}})
	idle := &idleReplica{replicas: replicas{shared}}
	e2 := start(t, engine.Config{Store: idle, Handler: echo, Poll: 5 * time.Millisecond})
	ids := []string{send(t, e1, text("a")).Key.ID, send(t, e1, text("b")).Key.ID}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var following, done sync.WaitGroup
	for i := range streams {
		following.Add(1)
		done.Go(func() {
			var last a2a.TaskState
			for u, err := range e2.Follow(ctx, alice, ids[i%2], nil) {
				if err != nil {
					t.Errorf("Follow() = %v", err)
				} else if u.Event == nil {
					following.Done()
				} else {
					last = u.Event.State
				}
			}
			if last != a2a.StateCompleted {
				t.Errorf("a stream ended in state %q, want completed", last)
			}
		})
	}
	following.Wait()
	polls := func(n int64) {
		t.Helper()
		from := idle.versions.Load()
		eventually(t, func() bool { return idle.versions.Load() >= from+n })
	}
	polls(2) // the streams have begun to wait
	tasks, events := idle.tasks.Load(), idle.events.Load()
	polls(10)
	if n, m := idle.tasks.Load()-tasks, idle.events.Load()-events; n+m > 0 {
		t.Errorf("idle streams read %d tasks and %d times events, want only versions", n, m)
	}
	close(release)
	done.Wait()
	if n := idle.tasks.Load() - tasks; n > 0 {
		t.Errorf("the streams read %d whole tasks to continue, want only events", n)
	}
}

// stuckReplica is a replica's view of a shared store in which the next commit of a chosen
// task does not return, as if somebody had locked its row.
type stuckReplica struct {
	*replica
	task    atomic.Pointer[store.Key]
	stuck   chan struct{}
	release chan struct{}
}

func (s *stuckReplica) Commit(ctx context.Context, changes ...store.Change) ([]store.Result, error) {
	if k := s.task.Load(); k != nil && changes[0].Key == *k {
		close(s.stuck)
		<-s.release
	}
	return s.replica.Commit(ctx, changes...)
}

func TestStuckCommitDelaysNoNoticeOfOtherTasks(t *testing.T) {
	t.Parallel()
	shared, p := inmem.New(), newParty()
	stuck := &stuckReplica{replica: p.join(shared), stuck: make(chan struct{}), release: make(chan struct{})}
	started := make(chan *engine.Turn, 1)
	e1 := start(t, patient(stuck, func(ctx context.Context, turn *engine.Turn) error {
		started <- turn
		return echo(ctx, turn)
	}))
	second := p.join(shared)
	second.idle = true
	e2 := start(t, patient(second, echo))
	p.watching(t, 2)
	release := sync.OnceFunc(func() { close(stuck.release) })
	t.Cleanup(release)

	locked := send(t, e1, text("locked"))
	turn := receive(t, started)
	stuck.task.Store(&locked.Key)
	var flushed sync.WaitGroup
	flushed.Go(func() {
		_ = turn.Status("working")
		_ = turn.Flush()
	})
	receive(t, stuck.stuck)
	stuck.task.Store(nil)
	for range 20 { // more than are read at once
		send(t, e2, to(locked.Key.ID, "to the locked task"))
	}
	for i := range 20 {
		task := send(t, e1, text(fmt.Sprint("free ", i)))
		receive(t, started)
		send(t, e2, to(task.Key.ID, "to a free task"))
		wantState(t, settled(t, e2, task.Key.ID), a2a.StateCompleted)
	}
	release()
	flushed.Wait()
	wantState(t, settled(t, e2, locked.Key.ID), a2a.StateCompleted)
}
