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
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/store"
)

// idleReplica is a replica's view of a shared store that sends no notifications and claims
// nothing. It counts its reads.
type idleReplica struct {
	sharedStore
	tasks, events, versions atomic.Int64
	rows, bytes             atomic.Int64 // of the events and tasks that were read
}

func (s *idleReplica) Claim(context.Context, store.ClaimParams) ([]*store.Task, error) {
	return nil, nil
}

func (s *idleReplica) Task(ctx context.Context, k store.Key, opts store.TaskOptions) (*store.Task, error) {
	s.tasks.Add(1)
	t, err := s.sharedStore.Task(ctx, k, opts)
	if err == nil {
		s.rows.Add(t.Seq)
		s.bytes.Add(int64(t.Size()))
	}
	return t, err
}

func (s *idleReplica) Events(ctx context.Context, k store.Key, after int64, limit int) ([]store.Event, error) {
	s.events.Add(1)
	events, err := s.sharedStore.Events(ctx, k, after, limit)
	s.rows.Add(int64(len(events)))
	for i := range events {
		s.bytes.Add(int64(events[i].Size()))
	}
	return events, err
}

func (s *idleReplica) Versions(ctx context.Context, keys []store.Key) (map[store.Key]store.TaskVersion, error) {
	s.versions.Add(1)
	return s.sharedStore.Versions(ctx, keys)
}

// echoHandler answers with the second message. If it arrives before the handler starts, it is one
// of the turn's messages already.
func echoHandler(ctx context.Context, turn *engine.Turn) error {
	messages := turn.Messages()[1:]
	if len(messages) == 0 {
		var err error
		if messages, err = turn.Receive(ctx); err != nil {
			return err
		}
	}
	return turn.Reply(messages[0].Parts...)
}

func TestMessageThroughOtherReplicaArrivesWithoutNotifications(t *testing.T) {
	t.Parallel()
	shared := inmem.New()
	e1 := start(t, engine.Config{Store: sharedStore{shared}, Handler: echoHandler, Turns: engine.Turns{Poll: 10 * time.Millisecond}})
	e2 := start(t, engine.Config{Store: &idleReplica{sharedStore: sharedStore{shared}}, Handler: echoHandler, Turns: engine.Turns{Poll: 10 * time.Millisecond}})
	for range 3 {
		task := send(t, e1, message("converse"))
		await.True(t, "the task is working on the other replica", func() bool {
			got, err := e2.Task(t.Context(), alice, task.Key.ID, nil)
			return err == nil && got.Status.State == a2a.StateWorking
		})
		send(t, e2, messageTo(task.Key.ID, "continue"))
		wantState(t, waitFinal(t, e2, task.Key.ID), a2a.StateCompleted)
		checkLog(t, shared, task.Key)
	}
}

func TestFollowOnOtherReplicaReadsOnlyNewEvents(t *testing.T) {
	t.Parallel()
	const chunks, length, group = 600, 200, 100
	for _, test := range []struct{ before, followers int }{{1, 1}, {4 << 20, 1}, {4 << 20, 30}} {
		shared := inmem.New()
		written, attached := make(chan struct{}), make(chan struct{})
		var received atomic.Int64 // chunks, by all followers
		e1 := start(t, engine.Config{Store: sharedStore{shared}, Handler: func(ctx context.Context, turn *engine.Turn) error {
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
				// A follower that falls behind the events in memory would read them itself.
				await.True(t, "the followers receive the chunks", func() bool {
					return ctx.Err() != nil || received.Load() >= int64((n+1)*test.followers)
				})
			}
			return turn.Reply(a2a.TextPart{Text: "done"})
		}})
		reads := &idleReplica{sharedStore: sharedStore{shared}}
		e2 := start(t, engine.Config{Store: reads, Handler: echoHandler, Turns: engine.Turns{Poll: 5 * time.Millisecond}})
		id := send(t, e1, message("a")).Key.ID
		<-written
		var ready, readers sync.WaitGroup
		ready.Add(test.followers)
		for range test.followers {
			readers.Go(func() {
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
					t.Errorf("Follow() yielded %d chunks, want %d", seen, chunks)
				}
			})
		}
		ready.Wait()
		reads.rows.Store(0)
		reads.bytes.Store(0)
		close(attached)
		readers.Wait()
		rows, bytes := reads.rows.Load(), reads.bytes.Load()
		t.Logf("%d bytes before, %d followers: %d rows and %d bytes read", test.before, test.followers, rows, bytes)
		if rows > chunks+20 || bytes > 2*chunks*length {
			t.Errorf("%d followers of a task of %d bytes read %d rows and %d bytes for %d chunks of %d bytes",
				test.followers, test.before, rows, bytes, chunks, length)
		}
	}
}

func TestIdleStreamsNeedOneQueryPerPoll(t *testing.T) {
	t.Parallel()
	const streams = 50
	shared := inmem.New()
	release := make(chan struct{})
	e1 := start(t, engine.Config{Store: sharedStore{shared}, Handler: func(_ context.Context, turn *engine.Turn) error {
		<-release
		return turn.Reply(a2a.TextPart{Text: "done"})
	}})
	idle := &idleReplica{sharedStore: sharedStore{shared}}
	e2 := start(t, engine.Config{Store: idle, Handler: echoHandler, Turns: engine.Turns{Poll: 5 * time.Millisecond}})
	ids := []string{send(t, e1, message("a")).Key.ID, send(t, e1, message("b")).Key.ID}
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
		await.True(t, "the replica polls", func() bool { return idle.versions.Load() >= from+n })
	}
	polls(2) // until the streams wait
	tasks, events := idle.tasks.Load(), idle.events.Load()
	polls(10)
	if n, m := idle.tasks.Load()-tasks, idle.events.Load()-events; n+m > 0 {
		t.Errorf("idle streams made %d task reads and %d event reads, want only version reads", n, m)
	}
	close(release)
	done.Wait()
	if n := idle.tasks.Load() - tasks; n > 0 {
		t.Errorf("the streams read %d whole tasks to continue, want only events", n)
	}
}

// blockedCommitReplica is a replica's view of a shared store in which the next commit of a
// chosen task blocks, as if its row were locked.
type blockedCommitReplica struct {
	*replica
	task    atomic.Pointer[store.Key]
	blocked chan struct{}
	release chan struct{}
}

func (s *blockedCommitReplica) Commit(ctx context.Context, changes ...store.Change) ([]store.Result, error) {
	if k := s.task.Load(); k != nil && changes[0].Key == *k {
		close(s.blocked)
		<-s.release
	}
	return s.replica.Commit(ctx, changes...)
}

func TestBlockedCommitDelaysNoOtherTask(t *testing.T) {
	t.Parallel()
	shared, p := inmem.New(), newNotificationBus()
	stuck := &blockedCommitReplica{replica: p.newReplica(shared), blocked: make(chan struct{}), release: make(chan struct{})}
	started := make(chan *engine.Turn, 1)
	e1 := start(t, withoutPolling(stuck, func(ctx context.Context, turn *engine.Turn) error {
		started <- turn
		return echoHandler(ctx, turn)
	}))
	second := p.newReplica(shared)
	second.idle = true
	e2 := start(t, withoutPolling(second, echoHandler))
	p.wantSubscribers(t, 2)
	release := sync.OnceFunc(func() { close(stuck.release) })
	t.Cleanup(release)

	locked := send(t, e1, message("locked"))
	turn := receive(t, started)
	stuck.task.Store(&locked.Key)
	var flushed sync.WaitGroup
	flushed.Go(func() {
		_ = turn.Status("working")
		_ = turn.Flush()
	})
	receive(t, stuck.blocked)
	stuck.task.Store(nil)
	for range 20 { // more than the number of concurrent reads
		send(t, e2, messageTo(locked.Key.ID, "to the locked task"))
	}
	for i := range 20 {
		task := send(t, e1, message(fmt.Sprint("free ", i)))
		receive(t, started)
		send(t, e2, messageTo(task.Key.ID, "to a free task"))
		wantState(t, waitFinal(t, e2, task.Key.ID), a2a.StateCompleted)
	}
	release()
	flushed.Wait()
	wantState(t, waitFinal(t, e2, locked.Key.ID), a2a.StateCompleted)
}
