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
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// failOnce is the plan that fails the first call that is as described.
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

// withChunk says whether a call commits a chunk that is added to an artifact.
func withChunk(c storetest.Call) bool {
	return c.Method == "Commit" && len(c.Changes) == 1 && len(c.Changes[0].Events) > 0 && c.Changes[0].Events[0].Append
}

func TestAChunkWhoseAnswerWasLostIsToldOnce(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(t *testing.T, e *engine.Engine, turn *engine.Turn, w *engine.ArtifactWriter){
		"alone": func(*testing.T, *engine.Engine, *engine.Turn, *engine.ArtifactWriter) {},
		"with more written since": func(t *testing.T, _ *engine.Engine, _ *engine.Turn, w *engine.ArtifactWriter) {
			if _, err := w.WriteString("b"); err != nil {
				t.Errorf("WriteString(b) = %v", err)
			}
		},
		"with a reader who looked since": func(t *testing.T, e *engine.Engine, turn *engine.Turn, _ *engine.ArtifactWriter) {
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
				plan := failOnce(storetest.FailAfter, withChunk)
				e = start(t, engine.Config{
					Store: storetest.Faulty(s, func(c storetest.Call) storetest.Fault {
						fault := plan(c)
						if fault == storetest.FailAfter {
							close(failed)
						}
						return fault
					}),
					FlushInterval: time.Millisecond,
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
						time.Sleep(20 * time.Millisecond) // the run has noticed
						meanwhile(t, e, turn, w)
						return nil
					},
				})
				written <- e
				task := sendWait(t, e, text("go"))
				wantState(t, task, a2a.StateCompleted)
				if got := task.Artifacts[0].Text(); got != "0a" && got != "0ab" || strings.Contains(name, "written") != (got == "0ab") {
					t.Errorf("artifact = %q, want each chunk once", got)
				}
				checkLog(t, s, task.Key)
			})
		})
	}
}

func TestAReplyBetweenTurnsWhoseAnswerWasLostIsSaidOnce(t *testing.T) {
	t.Parallel()
	s := inmem.New()
	started, release := make(chan struct{}, 2), make(chan struct{})
	e := start(t, engine.Config{
		Store: storetest.Faulty(s, failOnce(storetest.FailAfter, func(c storetest.Call) bool {
			return c.Method == "Commit" && c.Changes[0].Run != nil && c.Changes[0].Run.Turn == 2
		})),
		Handler: func(_ context.Context, turn *engine.Turn) error {
			started <- struct{}{}
			<-release
			return turn.Reply(a2a.TextPart{Text: "answer to " + turn.Messages()[0].Text()})
		},
	})
	task := send(t, e, text("a"))
	<-started
	send(t, e, to(task.Key.ID, "b"))
	close(release)
	task = settled(t, e, task.Key.ID)
	wantState(t, task, a2a.StateCompleted)
	if len(task.History) != 4 {
		var said []string
		for _, m := range task.History {
			said = append(said, m.Message.Text())
		}
		t.Errorf("history = %q, want a, b and an answer to each", said)
	}
}

// A lease that was taken in the store while its taker was told otherwise must
// not stay taken for as long as the process lives.
func TestALeaseWhoseAnswerWasLostIsTakenAgain(t *testing.T) {
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
					Store: storetest.Faulty(s, failOnce(storetest.FailAfter, is)), Lease: 100 * time.Millisecond, Poll: 20 * time.Millisecond,
					Concurrency: 2,
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
					send(t, e, text("block"))
					<-started // so that the claim to fail is not its own
				}
				p := text("go")
				p.Message.TaskID, p.Message.ContextID = newID(), newID()
				key := store.Key{Owner: alice.ID, ID: p.Message.TaskID}
				if name == "by claim" {
					queued := p.Message
					commit(t, s, store.Change{
						Key: key, Create: &store.Create{ContextID: newID()},
						Events: []store.Event{{Time: store.Time(time.Now()), State: a2a.StateSubmitted, Received: &queued}},
						Run:    &store.Run{Phase: store.PhaseQueued, Turn: 1, Attempt: 0, DueAt: store.Time(time.Now().Add(50 * time.Millisecond))},
					})
					armed.Store(true)
					time.Sleep(300 * time.Millisecond) // until the claim has been made, and the leases of before are over if nobody renewed them
				} else if _, err := e.Send(t.Context(), alice, p, engine.SendOptions{}); err == nil {
					t.Fatal("Send() = nil, want the fault")
				}
				wantState(t, settled(t, e, key.ID), a2a.StateCompleted)
				close(block)
			})
		})
	}
}

// A store that fails for a while in a way that does not pass must not leave the
// tasks that ended meanwhile without anybody to run them.
func TestATaskWhoseEndCouldNotBeCommittedIsRunAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &mortal{Store: inmem.New()}
		e := start(t, engine.Config{
			Store: s, Lease: 100 * time.Millisecond, Poll: 20 * time.Millisecond,
			Handler: func(_ context.Context, turn *engine.Turn) error {
				if turn.Attempt() == 1 {
					s.dead.Store(true)
					time.AfterFunc(4*time.Second, func() { s.dead.Store(false) })
				}
				return nil
			},
		})
		task := send(t, e, text("go"))
		ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
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

func TestACancelWhoseAnswerWasLostReachesThoseWhoWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := inmem.New()
		started := make(chan struct{})
		e := start(t, engine.Config{
			Poll: 20 * time.Millisecond, Lease: 100 * time.Millisecond,
			Store: storetest.Faulty(s, failOnce(storetest.FailAfter, func(c storetest.Call) bool {
				return c.Method == "Commit" && c.Changes[0].Events[0].State == a2a.StateCanceled
			})),
			Handler: func(ctx context.Context, _ *engine.Turn) error {
				close(started)
				<-ctx.Done()
				return nil
			},
		})
		task := send(t, e, text("go"))
		<-started
		if _, err := e.Cancel(t.Context(), alice, task.Key.ID, engine.SendOptions{}); err == nil {
			t.Fatal("Cancel() = nil, want the fault")
		}
		ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
		defer cancel()
		last := false
		for u, err := range e.Follow(ctx, alice, task.Key.ID, nil) {
			if err != nil {
				t.Fatalf("Follow() = %v", err)
			}
			last = u.Last
		}
		if !last {
			t.Error("the stream did not come to its end")
		}
	})
}

func TestRunsOutlastAStoreThatIsAwayForLongerThanTheirLeases(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &mortal{Store: inmem.New()}
		started, release := make(chan struct{}, 10), make(chan struct{})
		e := start(t, engine.Config{
			Store: s, Lease: 100 * time.Millisecond, Poll: 10 * time.Millisecond,
			Handler: func(context.Context, *engine.Turn) error {
				started <- struct{}{}
				<-release
				return nil
			},
		})
		task := send(t, e, text("go"))
		<-started
		for range 3 { // the second time, this worker has another name than the run's
			s.dead.Store(true)
			time.Sleep(300 * time.Millisecond)
			s.dead.Store(false)
			time.Sleep(100 * time.Millisecond)
		}
		close(release)
		if got := settled(t, e, task.Key.ID); got.Run.Attempt != 1 || len(started) != 0 {
			t.Errorf("the task took %d attempts, want 1", got.Run.Attempt)
		}
	})
}

// nilError is an error whose nil pointer cannot be asked for anything.
type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

func TestAnErrorThatPanicsFailsTheTaskNotTheServer(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Config{Handler: func(context.Context, *engine.Turn) error {
		var err *nilError
		return err
	}})
	wantState(t, sendWait(t, e, text("go")), a2a.StateFailed)
}

func TestWhatAHandlerChangesAfterwardsIsNotStored(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Config{FlushInterval: time.Hour, Handler: func(_ context.Context, turn *engine.Turn) error {
		data, file := map[string]any{"n": "before"}, []byte("before")
		err := turn.AddArtifact(a2a.Artifact{Name: "a", Parts: []a2a.Part{a2a.DataPart{Data: data}, a2a.FilePart{File: a2a.FileWithBytes{Bytes: file}}}})
		if err != nil {
			return err
		}
		data["n"] = "after"
		copy(file, "after!")
		return nil
	}})
	parts := sendWait(t, e, text("go")).Artifacts[0].Parts
	if data := parts[0].(a2a.DataPart).Data.(map[string]any); data["n"] != "before" {
		t.Errorf("data = %v, want what it was when it was told", data)
	}
	if file := parts[1].(a2a.FilePart).File.(a2a.FileWithBytes); string(file.Bytes) != "before" {
		t.Errorf("file = %q, want what it was when it was told", file.Bytes)
	}
}

func TestARepeatedBlockingSendIsAnsweredWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		e := start(t, engine.Config{Handler: func(context.Context, *engine.Turn) error {
			<-release
			return nil
		}})
		defer close(release)
		p := text("go")
		for i := range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			sent, err := e.Send(ctx, alice, p, engine.SendOptions{Wait: true, IdempotencyKey: "k"})
			cancel()
			if err != nil {
				t.Fatalf("Send() number %d = %v, want the task as it stands", i+1, err)
			}
			wantState(t, sent.Task, a2a.StateWorking)
		}
	})
}

func TestAStepOfAnEarlierTurnIsNotThatOfTheNext(t *testing.T) {
	t.Parallel()
	started, proceed, late, ended := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	var ran atomic.Int64
	s := inmem.New()
	e := start(t, engine.Config{Store: s, Handler: func(ctx context.Context, turn *engine.Turn) error {
		if turn.Number() == 1 {
			close(started)
			go func() {
				defer close(ended)
				_, _ = turn.Step(ctx, "s", func(context.Context) ([]byte, error) { <-late; return []byte("old"), nil })
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
	task := send(t, e, text("a"))
	<-started
	send(t, e, to(task.Key.ID, "b")) // which the first turn does not take, so that the second follows under its lease
	close(proceed)
	task = settled(t, e, task.Key.ID)
	if got := task.Status.Message.Text(); got != "new" {
		t.Errorf("the second turn's step = %q, want new", got)
	}
}

func TestStopWaitsForWhatBeginsAtTheSameTime(t *testing.T) {
	t.Parallel()
	for range 50 {
		s := inmem.New()
		var running atomic.Int64
		e := start(t, engine.Config{Store: s, Concurrency: 2, Poll: time.Millisecond, Handler: func(context.Context, *engine.Turn) error {
			running.Add(1)
			defer running.Add(-1)
			time.Sleep(time.Millisecond)
			return nil
		}})
		var senders sync.WaitGroup
		for range 4 {
			senders.Go(func() {
				for range 5 {
					_, _ = e.Send(t.Context(), alice, text("a"), engine.SendOptions{})
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
	}
}

// slow takes its time to tell the backlog.
type slow struct {
	store.Store
	asked, answer chan struct{}
}

func (s *slow) Backlog(ctx context.Context) (store.Backlog, error) {
	select {
	case s.asked <- struct{}{}:
		<-s.answer
	default:
	}
	return s.Store.Backlog(ctx)
}

func TestStopDuringStart(t *testing.T) {
	t.Parallel()
	s := &slow{Store: inmem.New(), asked: make(chan struct{}), answer: make(chan struct{})}
	e, err := engine.New(engine.Config{Store: s, NewID: newID, Handler: reply})
	if err != nil {
		t.Fatal(err)
	}
	var both sync.WaitGroup
	both.Go(func() { _ = e.Start(t.Context()) })
	<-s.asked
	both.Go(func() { stop(t, e) })
	both.Go(func() { _ = e.Health(t.Context()) })
	if _, err := e.Send(t.Context(), alice, text("early"), engine.SendOptions{}); a2a.CodeOf(err) != a2a.CodeUnavailable {
		t.Errorf("Send() before the end of Start = %v, want unavailable", err)
	}
	close(s.answer)
	both.Wait()
	stop(t, e)
	if err := e.Start(t.Context()); err == nil {
		t.Error("Start() after Stop() = nil, want an error")
	}
}

// What another process has left must not wait for as long as this one is busy
// with its own.
func TestDueTasksAreNotPassedByForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := inmem.New()
		e := start(t, engine.Config{Store: replicas{s}, Concurrency: 1, Poll: 10 * time.Millisecond, Handler: func(context.Context, *engine.Turn) error {
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
					_, _ = e.Send(t.Context(), alice, text("mine"), engine.SendOptions{Wait: true})
				}
			}
		}()
		defer func() { close(done); <-busy }()
		for range 5 {
			message := text("theirs").Message
			key := store.Key{Owner: "bob", ID: newID()}
			commit(t, s, store.Change{
				Key: key, Create: &store.Create{ContextID: newID()},
				Events: []store.Event{{Time: store.Time(time.Now()), State: a2a.StateSubmitted, Received: &message}},
				Run:    &store.Run{Phase: store.PhaseQueued, Turn: 1},
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

func TestATaskReadsAlikeOnAllReplicas(t *testing.T) {
	t.Parallel()
	shared := inmem.New()
	started, release := make(chan struct{}), make(chan struct{})
	handler := func(context.Context, *engine.Turn) error {
		close(started)
		<-release
		return nil
	}
	e1 := start(t, engine.Config{Store: replicas{shared}, Handler: handler})
	e2 := start(t, engine.Config{Store: replicas{shared}, Handler: handler})
	task := send(t, e1, text("a"))
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

func TestWhatTheStoreSaysIsNotToldToTheClient(t *testing.T) {
	t.Parallel()
	s := inmem.New()
	e := start(t, engine.Config{
		Store: &secretive{Store: s},
		Handler: func(_ context.Context, turn *engine.Turn) error {
			_ = turn.Status("working")
			return turn.Flush()
		},
	})
	task := settled(t, e, send(t, e, text("go")).Key.ID)
	if got := task.Status.Message.Text(); strings.Contains(got, "/var/secret") {
		t.Errorf("the client is told %q", got)
	}
}

// secretive cannot store progress, and says why at length.
type secretive struct{ store.Store }

func (s *secretive) Commit(ctx context.Context, changes ...store.Change) ([]store.Result, error) {
	for _, e := range changes[0].Events {
		if e.Progress {
			return nil, a2a.Wrap(a2a.CodeInternal, errors.New("/var/secret/holdfast.db: no such column"), "the database failed")
		}
	}
	return s.Store.Commit(ctx, changes...)
}

// A run that has lost its lease, and whose handler does not return, must not take
// down the run of the same task that has it now.
func TestARunIsNotTakenForTheOneBeforeIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, runIsNotTakenForTheOneBeforeIt)
}

func runIsNotTakenForTheOneBeforeIt(t *testing.T) {
	s := inmem.New()
	const lease = 100 * time.Millisecond
	first, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	e := start(t, engine.Config{
		Store: replicas{s}, Lease: lease, Poll: 10 * time.Millisecond, HandlerGrace: time.Minute,
		Handler: func(ctx context.Context, turn *engine.Turn) error {
			if turn.Attempt() == 1 {
				close(first)
				<-release // deaf
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
	task := send(t, e, text("go"))
	<-first
	// Another replica claims the task, as it stands now, and hands it back.
	task, err := s.Task(t.Context(), task.Key, store.TaskOptions{})
	if err != nil {
		t.Fatal(err)
	}
	run := task.Run
	run.Phase, run.Lease.Worker = store.PhaseQueued, ""
	run.Lease.Fence++
	commit(t, s, store.Change{Key: task.Key, Version: task.Seq, Run: &run})
	wantState(t, settled(t, e, task.Key.ID), a2a.StateCompleted)
}
