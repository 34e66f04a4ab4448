package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// failOnce returns a plan that fails the first call that matches is.
func failOnce(fault storetest.Fault, is func(storetest.Call) bool) storetest.Plan {
	done := false
	return func(c storetest.Call) storetest.Fault {
		if done || !is(c) {
			return storetest.Pass
		}
		done = true
		return fault
	}
}

// commitsChunk reports whether a call commits a chunk that is appended to an artifact.
func commitsChunk(c storetest.Call) bool {
	return c.Method == "Commit" && len(c.Changes) == 1 && len(c.Changes[0].Events) > 0 && c.Changes[0].Events[0].Append
}

func TestChunkWithLostAnswerIsStoredOnce(t *testing.T) {
	t.Parallel()
	for name, during := range map[string]func(t *testing.T, e *engine.Engine, turn *engine.Turn, w *engine.ArtifactWriter){
		"alone": func(*testing.T, *engine.Engine, *engine.Turn, *engine.ArtifactWriter) {},
		"with more written since": func(t *testing.T, _ *engine.Engine, _ *engine.Turn, w *engine.ArtifactWriter) {
			if _, err := w.WriteString("b"); err != nil {
				t.Errorf("WriteString(b) = %v", err)
			}
		},
		"closed since": func(t *testing.T, _ *engine.Engine, _ *engine.Turn, w *engine.ArtifactWriter) {
			if err := w.Close(); err != nil {
				t.Errorf("Close() = %v", err)
			}
		},
		"with a reader after the failure": func(t *testing.T, e *engine.Engine, turn *engine.Turn, _ *engine.ArtifactWriter) {
			for range e.Follow(t.Context(), alice, turn.TaskID(), nil) {
				return
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := inmem.New()
				var e *engine.Engine
				failed, written := make(chan struct{}), make(chan *engine.Engine, 1)
				plan := failOnce(storetest.FailAfter, commitsChunk)
				e = start(t, engine.Config{
					Store: storetest.Faulty(s, func(c storetest.Call) storetest.Fault {
						fault := plan(c)
						if fault == storetest.FailAfter {
							close(failed)
						}
						return fault
					}),
					Turns: engine.Turns{FlushInterval: time.Millisecond},
					Handler: func(_ context.Context, turn *engine.Turn) error {
						e := <-written
						w := turn.Artifact("a")
						_, _ = w.WriteString("0")
						if err := turn.Flush(); err != nil {
							return err
						}
						if _, err := w.WriteString("a"); err != nil {
							return err
						}
						<-failed
						time.Sleep(20 * time.Millisecond) // time for the run to detect the failure
						during(t, e, turn, w)
						return nil
					},
				})
				written <- e
				id := send(t, e, message("go")).Key.ID
				marked := make(map[int64]bool) // the events that a reader gets, and whether they are a last chunk
				for u := range e.Follow(t.Context(), alice, id, nil) {
					if u.Event != nil {
						marked[u.Event.Seq] = u.Event.LastChunk
					}
				}
				task := waitFinal(t, e, id)
				wantState(t, task, a2a.StateCompleted)
				if got := task.Artifacts[0].Text(); got != "0a" && got != "0ab" || strings.Contains(name, "written") != (got == "0ab") {
					t.Errorf("artifact = %q, want each chunk once", got)
				}
				events := checkLog(t, s, task.Key)
				wantChunks(t, events)
				for _, e := range events {
					if last, ok := marked[e.Seq]; ok && last != e.LastChunk {
						t.Errorf("event %d is a last chunk for a reader: %t, in the log: %t", e.Seq, last, e.LastChunk)
					}
				}
			})
		})
	}
}

// wantChunks checks the events of an artifact: each has content, and none extends an artifact after its last chunk. It
// returns whether the newest event is a last chunk.
func wantChunks(t *testing.T, events []store.Event) (last bool) {
	t.Helper()
	for _, e := range events {
		if e.Artifact == nil {
			continue
		}
		if last && e.Append {
			t.Errorf("event %d extends an artifact that is complete", e.Seq)
		}
		if e.Artifact.Text() == "" {
			t.Errorf("event %d has no content", e.Seq)
		}
		last = e.LastChunk
	}
	return last
}

func TestReplyBetweenTurnsWithLostAnswerIsStoredOnce(t *testing.T) {
	t.Parallel()
	s := inmem.New()
	started, release := make(chan struct{}, 2), make(chan struct{})
	e := start(t, engine.Config{
		Store: storetest.Faulty(s, failOnce(storetest.FailAfter, func(c storetest.Call) bool {
			return c.Method == "Commit" && c.Changes[0].Queue != nil && c.Changes[0].Queue.Turn == 2
		})),
		Handler: func(_ context.Context, turn *engine.Turn) error {
			started <- struct{}{}
			<-release
			return turn.Reply(a2a.TextPart{Text: "answer to " + turn.Messages()[0].Text()})
		},
	})
	task := send(t, e, message("a"))
	<-started
	send(t, e, messageTo(task.Key.ID, "b"))
	close(release)
	task = waitFinal(t, e, task.Key.ID)
	wantState(t, task, a2a.StateCompleted)
	if len(task.History) != 4 {
		var said []string
		for _, m := range task.History {
			said = append(said, m.Message.Text())
		}
		t.Errorf("history = %q, want a, b and an answer to each", said)
	}
}

// If the store leased a task but its answer was lost, the task must not stay leased for the
// lifetime of the process.
func TestLeaseWithLostAnswerIsClaimedAgain(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"by send", "by claim"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := inmem.New()
				started, block := make(chan struct{}, 9), make(chan struct{})
				var armed atomic.Bool
				is := func(c storetest.Call) bool {
					if name == "by claim" {
						return c.Method == "Claim" && armed.Load()
					}
					return c.Method == "Commit" && len(c.Changes) == 1 && c.Changes[0].Create != nil
				}
				e := start(t, engine.Config{
					Store: storetest.Faulty(s, failOnce(storetest.FailAfter, is)), Turns: engine.Turns{
						Lease: 100 * time.Millisecond, Poll: 20 * time.Millisecond,
						Concurrency: 2,
					},
					Handler: func(_ context.Context, turn *engine.Turn) error {
						if turn.Messages()[0].Text() == "block" {
							if turn.Attempt() != 1 {
								t.Errorf("attempt %d of a run that was never interrupted", turn.Attempt())
							}
							started <- struct{}{}
							<-block // a run that continues keeps its lease
						}
						return nil
					},
				})
				if name == "by claim" {
					send(t, e, message("block"))
					<-started // so that this task's claim does not fail
				}
				p := message("go")
				p.Message.TaskID, p.Message.ContextID = newID(), newID()
				key := store.Key{Owner: alice.ID, ID: p.Message.TaskID}
				if name == "by claim" {
					queued := p.Message
					commit(t, s, store.Change{
						Key: key, Create: &store.Create{ContextID: newID()},
						Events: []store.Event{{Time: store.Time(time.Now()), State: a2a.StateSubmitted, Received: &queued}},
						Queue:  &store.QueueEntry{Phase: store.PhaseQueued, Turn: 1, Attempt: 0, DueAt: store.Time(time.Now().Add(50 * time.Millisecond))},
					})
					armed.Store(true)
					time.Sleep(300 * time.Millisecond) // until the claim is made and leases that nobody renews have expired
				} else if _, err := e.Send(t.Context(), alice, p, engine.SendOptions{}); err == nil {
					t.Fatal("Send() = nil, want the fault")
				}
				wantState(t, waitFinal(t, e, key.ID), a2a.StateCompleted)
				close(block)
			})
		})
	}
}

// After a permanent store failure, tasks that ended during the failure must run again.
func TestTaskWithFailedFinalCommitIsRunAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newKillableStore(inmem.New())
		e := start(t, engine.Config{
			Store: s, Turns: engine.Turns{Lease: 100 * time.Millisecond, Poll: 20 * time.Millisecond},
			Handler: func(_ context.Context, turn *engine.Turn) error {
				if turn.Attempt() == 1 {
					s.killed.Store(true)
					time.AfterFunc(4*time.Second, func() { s.killed.Store(false) })
				}
				return nil
			},
		})
		task := send(t, e, message("go"))
		ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
		defer cancel()
		for {
			got, err := e.Task(ctx, alice, task.Key.ID, nil)
			if err != nil {
				t.Fatalf("Task() = %v: the task was never run again", err)
			}
			if got.Status.State.Final() {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
}

func TestCancelWithLostAnswerEndsStreams(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := inmem.New()
		started := make(chan struct{})
		e := start(t, engine.Config{
			Turns: engine.Turns{Poll: 20 * time.Millisecond, Lease: 100 * time.Millisecond},
			Store: storetest.Faulty(s, failOnce(storetest.FailAfter, func(c storetest.Call) bool {
				return c.Method == "Commit" && c.Changes[0].Events[0].State == a2a.StateCanceled
			})),
			Handler: func(ctx context.Context, _ *engine.Turn) error {
				close(started)
				<-ctx.Done()
				return nil
			},
		})
		task := send(t, e, message("go"))
		<-started
		if _, err := e.Cancel(t.Context(), alice, task.Key.ID, engine.SendOptions{}); err == nil {
			t.Fatal("Cancel() = nil, want the fault")
		}
		ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
		defer cancel()
		last := false
		for u, err := range e.Follow(ctx, alice, task.Key.ID, nil) {
			if err != nil {
				t.Fatalf("Follow() = %v", err)
			}
			last = u.Last
		}
		if !last {
			t.Error("the stream did not end")
		}
	})
}

func TestRunsSurviveOutageLongerThanLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newKillableStore(inmem.New())
		started, release := make(chan struct{}, 10), make(chan struct{})
		e := start(t, engine.Config{
			Store: s, Turns: engine.Turns{Lease: 100 * time.Millisecond, Poll: 10 * time.Millisecond},
			Handler: func(ctx context.Context, _ *engine.Turn) error {
				started <- struct{}{}
				select {
				case <-release:
				case <-ctx.Done(): // no other process can claim the task
					t.Errorf("the handler was stopped: %v", context.Cause(ctx))
				}
				return nil
			},
		})
		task := send(t, e, message("go"))
		<-started
		for range 3 { // from the second time on, this worker's ID differs from the worker ID of the run's lease
			s.killed.Store(true)
			time.Sleep(300 * time.Millisecond)
			s.killed.Store(false)
			time.Sleep(100 * time.Millisecond)
		}
		close(release)
		if got := waitFinal(t, e, task.Key.ID); got.Queue.Attempt != 1 || len(started) != 0 {
			t.Errorf("the task took %d attempts, want 1", got.Queue.Attempt)
		}
	})
}

// nilError is an error with methods that panic on a nil pointer.
type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

func TestPanickingErrorFailsTaskOnly(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Config{Handler: func(context.Context, *engine.Turn) error {
		var err *nilError
		return err
	}})
	wantState(t, sendWait(t, e, message("go")), a2a.StateFailed)
}

func TestLaterChangesOfHandlerAreNotStored(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Config{Turns: engine.Turns{FlushInterval: time.Hour}, Handler: func(_ context.Context, turn *engine.Turn) error {
		data, file := map[string]any{"n": "before"}, []byte("before")
		err := turn.AddArtifact(a2a.Artifact{Name: "a", Parts: []a2a.Part{a2a.DataPart{Data: data}, a2a.FilePart{File: a2a.FileWithBytes{Bytes: file}}}})
		if err != nil {
			return err
		}
		data["n"] = "after"
		copy(file, "after!")
		return nil
	}})
	parts := sendWait(t, e, message("go")).Artifacts[0].Parts
	if data := parts[0].(a2a.DataPart).Data.(map[string]any); data["n"] != "before" {
		t.Errorf("data = %v, want the value at the time of the call", data)
	}
	if file := parts[1].(a2a.FilePart).File.(a2a.FileWithBytes); string(file.Bytes) != "before" {
		t.Errorf("file = %q, want the value at the time of the call", file.Bytes)
	}
}

func TestRepeatedBlockingSendReturnsAtDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		e := start(t, engine.Config{Handler: func(context.Context, *engine.Turn) error {
			<-release
			return nil
		}})
		defer close(release)
		p := message("go")
		for i := range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			sent, err := e.Send(ctx, alice, p, engine.SendOptions{Wait: true, IdempotencyKey: "k"})
			cancel()
			if err != nil {
				t.Fatalf("Send() number %d = %v, want the current task", i+1, err)
			}
			wantState(t, sent.Task, a2a.StateWorking)
		}
	})
}

func TestStepsOfTurnsAreSeparate(t *testing.T) {
	t.Parallel()
	started, proceed, late, ended := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	var ran atomic.Int64
	s := inmem.New()
	e := start(t, engine.Config{Store: s, Handler: func(ctx context.Context, turn *engine.Turn) error {
		if turn.Number() == 1 {
			close(started)
			go func() {
				defer close(ended)
				_, err := turn.Step(ctx, "s", func(context.Context) ([]byte, error) { <-late; return []byte("old"), nil })
				if !errors.Is(err, engine.ErrEnded) {
					t.Errorf("Step() that ran longer than its turn = %v, want %v", err, engine.ErrEnded)
				}
			}()
			<-proceed
			return nil
		}
		close(late)
		<-ended
		got, err := turn.Step(ctx, "s", func(context.Context) ([]byte, error) { ran.Add(1); return []byte("new"), nil })
		if err != nil {
			return err
		}
		return turn.Reply(a2a.TextPart{Text: string(got)})
	}})
	task := send(t, e, message("a"))
	<-started
	send(t, e, messageTo(task.Key.ID, "b")) // the first turn does not receive it, so the second turn follows under the same lease
	close(proceed)
	task = waitFinal(t, e, task.Key.ID)
	if got := task.Status.Message.Text(); got != "new" {
		t.Errorf("the second turn's step = %q, want new", got)
	}
}

func TestStopWaitsForConcurrentSends(t *testing.T) {
	t.Parallel()
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			s := inmem.New()
			var running atomic.Int64
			e := start(t, engine.Config{Store: s, Turns: engine.Turns{Concurrency: 2, Poll: time.Millisecond}, Handler: func(context.Context, *engine.Turn) error {
				running.Add(1)
				defer running.Add(-1)
				time.Sleep(time.Millisecond)
				return nil
			}})
			var senders sync.WaitGroup
			for range 4 {
				senders.Go(func() {
					for range 5 {
						_, _ = e.Send(t.Context(), alice, message("a"), engine.SendOptions{})
					}
				})
			}
			var stops sync.WaitGroup
			for range 3 {
				stops.Go(func() {
					stop(t, e)
					if n := running.Load(); n != 0 {
						t.Errorf("%d handlers run after Stop", n)
					}
				})
			}
			stops.Wait()
			senders.Wait()
			if backlog, err := s.Backlog(t.Context()); err != nil || backlog.Leased != 0 {
				t.Fatalf("Backlog() = %+v, %v, want no leases after Stop", backlog, err)
			}
		})
	}
}

// blockingBacklog delays the answer of Backlog.
type blockingBacklog struct {
	store.Store
	called, release chan struct{}
}

func (s *blockingBacklog) Backlog(ctx context.Context) (store.Backlog, error) {
	select {
	case s.called <- struct{}{}:
		<-s.release
	default:
	}
	return s.Store.Backlog(ctx)
}

func TestStopDuringStart(t *testing.T) {
	t.Parallel()
	s := &blockingBacklog{Store: inmem.New(), called: make(chan struct{}), release: make(chan struct{})}
	e, err := engine.New(engine.Config{Store: s, NewID: newID, Handler: replyHandler})
	if err != nil {
		t.Fatal(err)
	}
	var both sync.WaitGroup
	both.Go(func() { _ = e.Start(t.Context()) })
	<-s.called
	both.Go(func() { stop(t, e) })
	both.Go(func() { _ = e.Health(t.Context()) })
	if _, err := e.Send(t.Context(), alice, message("early"), engine.SendOptions{}); a2a.CodeOf(err) != a2a.CodeUnavailable {
		t.Errorf("Send() before the end of Start = %v, want unavailable", err)
	}
	close(s.release)
	both.Wait()
	stop(t, e)
	if err := e.Start(t.Context()); err == nil {
		t.Error("Start() after Stop() = nil, want an error")
	}
}

// Due tasks of other processes must not wait while this process is busy with its own tasks.
func TestDueTasksDoNotStarve(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := inmem.New()
		e := start(t, engine.Config{Store: sharedStore{s}, Turns: engine.Turns{Concurrency: 1, Poll: 10 * time.Millisecond}, Handler: func(context.Context, *engine.Turn) error {
			time.Sleep(3 * time.Millisecond)
			return nil
		}})
		done, busy := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(busy)
			for {
				select {
				case <-done:
					return
				default:
					_, _ = e.Send(t.Context(), alice, message("mine"), engine.SendOptions{Wait: true})
				}
			}
		}()
		defer func() { close(done); <-busy }()
		for range 5 {
			message := message("theirs").Message
			key := store.Key{Owner: "bob", ID: newID()}
			commit(t, s, store.Change{
				Key: key, Create: &store.Create{ContextID: newID()},
				Events: []store.Event{{Time: store.Time(time.Now()), State: a2a.StateSubmitted, Received: &message}},
				Queue:  &store.QueueEntry{Phase: store.PhaseQueued, Turn: 1},
			})
			deadline := time.Now().Add(time.Second)
			for {
				task, err := s.Task(t.Context(), key, store.TaskOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if task.Status.State.Final() {
					break
				}
				if time.Now().After(deadline) {
					t.Fatal("a due task was not run within 100 polls")
				}
				time.Sleep(time.Millisecond)
			}
		}
	})
}

func TestReplicasReturnSameTask(t *testing.T) {
	t.Parallel()
	shared := inmem.New()
	started, release := make(chan struct{}), make(chan struct{})
	handler := func(context.Context, *engine.Turn) error {
		close(started)
		<-release
		return nil
	}
	e1 := start(t, engine.Config{Store: sharedStore{shared}, Handler: handler})
	e2 := start(t, engine.Config{Store: sharedStore{shared}, Handler: handler})
	task := send(t, e1, message("a"))
	<-started
	if _, err := e2.Cancel(t.Context(), alice, task.Key.ID, engine.SendOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := e1.Task(t.Context(), alice, task.Key.ID, nil)
	close(release)
	if err != nil {
		t.Fatal(err)
	}
	wantState(t, got, a2a.StateCanceled)
}

func TestStoreErrorsAreHiddenFromClients(t *testing.T) {
	t.Parallel()
	s := inmem.New()
	e := start(t, engine.Config{
		Store: &detailedErrorStore{Store: s},
		Handler: func(_ context.Context, turn *engine.Turn) error {
			_ = turn.Status("working")
			return turn.Flush()
		},
	})
	task := waitFinal(t, e, send(t, e, message("go")).Key.ID)
	if got := task.Status.Message.Text(); strings.Contains(got, "/var/secret") {
		t.Errorf("status message = %q, want no store details", got)
	}
}

// detailedErrorStore fails to store progress with a detailed error.
type detailedErrorStore struct{ store.Store }

func (s *detailedErrorStore) Commit(ctx context.Context, changes ...store.Change) ([]store.Result, error) {
	for _, e := range changes[0].Events {
		if e.Progress {
			return nil, a2a.Wrap(a2a.CodeInternal, errors.New("/var/secret/holdfast.db: no such column"), "the database failed")
		}
	}
	return s.Store.Commit(ctx, changes...)
}

// If a run has lost its lease and its handler does not return, it must not end the run that now
// holds the lease.
func TestAbandonedRunDoesNotEndNewRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testAbandonedRunDoesNotEndNewRun)
}

func testAbandonedRunDoesNotEndNewRun(t *testing.T) {
	s := inmem.New()
	const lease = 100 * time.Millisecond
	first, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	e := start(t, engine.Config{
		Store: sharedStore{s}, Turns: engine.Turns{Lease: lease, Poll: 10 * time.Millisecond, HandlerGrace: time.Minute},
		Handler: func(ctx context.Context, turn *engine.Turn) error {
			if turn.Attempt() == 1 {
				close(first)
				<-release // ignores its context
				return nil
			}
			select {
			case <-time.After(6 * lease):
				return turn.Reply(a2a.TextPart{Text: "undisturbed"})
			case <-ctx.Done():
				t.Errorf("the second run ended by %v", context.Cause(ctx))
				return ctx.Err()
			}
		},
	})
	task := send(t, e, message("go"))
	<-first
	// Another replica claims the task at its current version and requeues it.
	task, err := s.Task(t.Context(), task.Key, store.TaskOptions{})
	if err != nil {
		t.Fatal(err)
	}
	run := task.Queue
	run.Phase, run.Lease.Worker = store.PhaseQueued, ""
	run.Lease.Fence++
	commit(t, s, store.Change{Key: task.Key, Version: task.Seq, Queue: &run})
	wantState(t, waitFinal(t, e, task.Key.ID), a2a.StateCompleted)
}
