package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

func clearContext(t *testing.T, e *engine.Engine, id string, force bool) (int, error) {
	t.Helper()
	return e.ClearContext(t.Context(), alice, a2a.ClearContextParams{ContextID: id, Force: force}, engine.SendOptions{})
}

// wantGone checks that nothing is to be found of a context and its tasks.
func wantGone(t *testing.T, e *engine.Engine, s store.Store, contextID string, tasks ...string) {
	t.Helper()
	_, err := e.Context(t.Context(), alice, contextID, nil)
	wantError(t, "Context()", err, a2a.CodeContextNotFound)
	for _, id := range tasks {
		_, err := e.Task(t.Context(), alice, id, nil)
		wantError(t, "Task()", err, a2a.CodeTaskNotFound)
		_, err = e.Send(t.Context(), alice, to(id, "x"), engine.SendOptions{})
		wantError(t, "Send(to task)", err, a2a.CodeTaskNotFound)
		_, err = e.Cancel(t.Context(), alice, id, engine.SendOptions{})
		wantError(t, "Cancel()", err, a2a.CodeTaskNotFound)
		_, err = e.AddFeedback(t.Context(), alice, a2a.TaskFeedbackParams{TaskID: id, Feedback: "x"}, engine.SendOptions{})
		wantError(t, "AddFeedback()", err, a2a.CodeTaskNotFound)
		for _, err := range e.Follow(t.Context(), alice, id, nil) {
			wantError(t, "Follow()", err, a2a.CodeTaskNotFound)
		}
	}
	pending, err := s.PendingDeletions(t.Context(), 10)
	if err != nil || len(pending) > 0 {
		t.Errorf("PendingDeletions() = %v, %v; want none", pending, err)
	}
}

// seedTasks adds 450 tasks that are over to a context: more than fit into two
// batches of a deletion.
func seedTasks(t *testing.T, s store.Store, contextID string) (ids []string) {
	t.Helper()
	var changes []store.Change
	for i := range 450 {
		ids = append(ids, newID())
		m := text("x").Message
		now := store.Time(time.Now())
		changes = append(changes, store.Change{
			Key: store.Key{Owner: alice.ID, ID: ids[i]}, Create: &store.Create{ContextID: contextID}, Run: &store.Run{Phase: store.PhaseIdle, Turn: 1},
			Events: []store.Event{{Time: now, State: a2a.StateSubmitted, Received: &m}, {Time: now, State: a2a.StateCompleted}},
		})
	}
	results, err := s.Commit(t.Context(), changes...)
	if err != nil || results[449].Err != nil {
		t.Fatalf("Commit() = %v, %v", results, err)
	}
	return ids
}

func TestAClearedContextIsGone(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		e := start(t, engine.Config{Handler: obey, Store: s})
		key := engine.SendOptions{Wait: true, IdempotencyKey: "k", RequestHash: [32]byte{1}}
		params := in("mine", "x")
		first, err := e.Send(t.Context(), alice, params, key)
		wantError(t, "Send()", err, "")
		tasks := append([]string{first.Task.Key.ID}, seedTasks(t, s, "mine")...)
		other := sendWait(t, e, text("x"))
		n, err := clearContext(t, e, "mine", false)
		if err != nil || n != len(tasks) {
			t.Fatalf("ClearContext() = %d, %v; want %d", n, err, len(tasks))
		}
		wantGone(t, e, s, "mine", tasks[0], tasks[200], tasks[450])
		if _, err := e.Task(t.Context(), alice, other.Key.ID, nil); err != nil {
			t.Errorf("Task(of another context) = %v", err)
		}
		_, err = clearContext(t, e, "mine", true)
		wantError(t, "ClearContext(again)", err, a2a.CodeContextNotFound)
		again, err := e.Send(t.Context(), alice, params, key)
		if err != nil || again.Task.Key == first.Task.Key {
			t.Errorf("Send(again, same key) = %v, %v; want another task", again, err)
		}
		if c, err := e.Context(t.Context(), alice, "mine", nil); err != nil || c.TaskCount != 1 || len(c.History) != 2 {
			t.Errorf("Context() = %d tasks, %d messages, %v; want one new task", c.TaskCount, len(c.History), err)
		}
	})
}

// While a handler runs, a reader follows, one waits and a client blocks: all come to
// their end, and the handler's run does not commit any more.
func TestClearingByForceWhileATaskRunsAndIsFollowed(t *testing.T) {
	t.Parallel()
	for _, exclusive := range []bool{true, false} {
		t.Run(fmt.Sprint("exclusive ", exclusive), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				shared := inmem.New()
				var s store.Store = shared
				if !exclusive {
					s = replicas{shared}
				}
				began, cause, late := make(chan struct{}), make(chan error, 1), make(chan error, 2)
				release := make(chan struct{})
				handler := func(ctx context.Context, turn *engine.Turn) error {
					if turn.Messages()[0].Text() == "ask" {
						return turn.RequireInput()
					}
					_ = turn.Status("started")
					close(began)
					<-ctx.Done()
					cause <- context.Cause(ctx)
					<-release // until all is gone
					late <- turn.Status("late")
					late <- turn.Flush()
					return turn.Reply(a2a.TextPart{Text: "late"})
				}
				cfg := engine.Config{Handler: handler, Store: s, Poll: 10 * time.Millisecond, Lease: 3 * time.Second, HandlerGrace: time.Minute}
				e := start(t, cfg)
				clearer := e
				if !exclusive {
					clearer = start(t, cfg)
				}
				asks := sendWait(t, e, in("c", "ask"))
				runs := send(t, e, in("c", "run"))
				<-began
				ends := follow(t, e, runs.Key.ID)
				blocked, stored := make(chan error, 1), make(chan struct{})
				go func() {
					opts := engine.SendOptions{Wait: true, Stored: func() { close(stored) }}
					_, err := e.Send(t.Context(), alice, to(runs.Key.ID, "more"), opts)
					blocked <- err
				}()
				<-stored
				_, err := clearContext(t, clearer, "c", false)
				wantError(t, "ClearContext()", err, forbidden, "1 task that is")
				n, err := clearContext(t, clearer, "c", true)
				if err != nil || n != 2 {
					t.Errorf("ClearContext(force) = %d, %v; want 2", n, err)
				}
				if err := <-ends; err != nil && a2a.CodeOf(err) != a2a.CodeTaskNotFound {
					t.Errorf("the follower's stream ended with %v", err)
				}
				if err := <-blocked; err != nil && a2a.CodeOf(err) != a2a.CodeTaskNotFound {
					t.Errorf("the blocked send ended with %v", err)
				}
				if err := <-cause; !errors.Is(err, engine.ErrCanceled) && !errors.Is(err, engine.ErrLeaseLost) {
					t.Errorf("the handler's context ended with %v", err)
				}
				close(release)
				for range 2 {
					if err := <-late; !errors.Is(err, engine.ErrCanceled) && !errors.Is(err, engine.ErrLeaseLost) {
						t.Errorf("the context of a deleted task's handler ended with %v", err)
					}
				}
				wantGone(t, e, shared, "c", runs.Key.ID, asks.Key.ID)
			})
		})
	}
}

// follow tells how the stream of a task ends.
func follow(t *testing.T, e *engine.Engine, id string) <-chan error {
	t.Helper()
	started, end := make(chan struct{}), make(chan error, 1)
	go func() {
		var last error
		first := true
		for _, err := range e.Follow(t.Context(), alice, id, ptr(int64(0))) {
			if first {
				close(started)
				first = false
			}
			last = err
		}
		end <- last
	}()
	<-started
	return end
}

// A stream of a task that nobody cancels ends when it is deleted: here another
// process has claimed and deleted it.
func TestAStreamEndsWithTheTaskThatWasDeletedUnderIt(t *testing.T) {
	t.Parallel()
	for name, recreate := range map[string]bool{"deleted": false, "created anew": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := inmem.New()
				e := start(t, engine.Config{Handler: obey, Store: replicas{s}})
				task := send(t, e, text("run"))
				end := follow(t, e, task.Key.ID)
				waited := make(chan error, 1)
				go func() {
					_, err := e.Send(t.Context(), alice, to(task.Key.ID, "more"), engine.SendOptions{Wait: true})
					waited <- err
				}()
				synctest.Wait()
				steal(t, s, task.Key)
				if _, err := s.DeleteContext(t.Context(), alice.ID, task.ContextID, 10); err != nil {
					t.Fatalf("DeleteContext() = %v", err)
				}
				if recreate {
					time.Sleep(time.Millisecond) // or it is the same task
					m := text("ask").Message
					commit(t, s, store.Change{
						Key: task.Key, Create: &store.Create{ContextID: task.ContextID}, Run: &store.Run{Phase: store.PhaseIdle, Turn: 1},
						Events: []store.Event{{Time: time.Now(), State: a2a.StateSubmitted, Received: &m}},
					})
				}
				wantError(t, "the stream's end", <-end, a2a.CodeTaskNotFound, task.Key.ID)
				wantError(t, "the wait's end", <-waited, a2a.CodeTaskNotFound, task.Key.ID)
				time.Sleep(time.Minute) // for the run to find out
				if h := e.Health(t.Context()); h.Running != 0 || h.Abandoned != 0 {
					t.Errorf("Health() = %+v, want nothing running", h)
				}
			})
		})
	}
}

// steal ends the run of a task as another process would that cancels it, but tells
// no event.
func steal(t *testing.T, s store.Store, key store.Key) {
	t.Helper()
	task, err := s.Task(t.Context(), key, store.TaskOptions{})
	if err != nil {
		t.Fatal(err)
	}
	run := task.Run
	run.Phase, run.Lease.Worker = store.PhaseIdle, ""
	run.Lease.Fence++
	commit(t, s, store.Change{Key: key, Version: task.Seq, Run: &run})
}

// A deletion that breaks off, with the answer lost or not, is gone for everybody
// from then on, and the next process ends it.
func TestADeletionThatBrokeOffIsFinished(t *testing.T) {
	t.Parallel()
	for _, fault := range []storetest.Fault{storetest.FailBefore, storetest.FailAfter} {
		for _, nth := range []int{1, 2, 3} {
			t.Run(fmt.Sprintf("fault %d of call %d", fault, nth), func(t *testing.T) {
				t.Parallel()
				onStores(t, func(t *testing.T, s store.Store) {
					down := false
					e := start(t, engine.Config{Handler: obey, Store: storetest.Faulty(s, func(c storetest.Call) storetest.Fault {
						if c.Method == "PendingDeletions" || down && c.Method == "FinishDelete" {
							return storetest.FailBefore // this process does no more about it
						}
						if c.Method == "DeleteContext" && nth == 1 || c.Method == "FinishDelete" && c.N == nth-1 {
							down = true
							return fault
						}
						return storetest.Pass
					})})
					tasks := seedTasks(t, s, "c")
					_, err := clearContext(t, e, "c", false)
					wantError(t, "ClearContext()", err, a2a.CodeUnavailable)
					stop(t, e)
					if nth == 1 && fault == storetest.FailBefore {
						if _, err := s.Context(t.Context(), alice.ID, "c", 0); err != nil {
							t.Errorf("Context() = %v, want a context whose deletion was never started", err)
						}
						return
					}
					if _, err := s.Context(t.Context(), alice.ID, "c", 0); !errors.Is(err, store.ErrNotFound) {
						t.Errorf("Context() = %v, want ErrNotFound", err)
					}
					next := start(t, engine.Config{Handler: obey, Store: s})
					eventually(t, func() bool {
						pending, err := s.PendingDeletions(t.Context(), 10)
						return err == nil && len(pending) == 0
					})
					wantGone(t, next, s, "c", tasks[0], tasks[449])
				})
			})
		}
	}
}

// eventually waits for something another goroutine does, which tells nobody.
func eventually(t *testing.T, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(waitLimit)
	for !done() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("it did not happen in %s", waitLimit)
		}
	}
}

// Who asks right after a start sees nothing of a context whose deletion an earlier
// process began.
func TestDeletionsThatWereBegunAreEndedAtStart(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		first := start(t, engine.Config{Handler: obey, Store: s})
		c := newID()
		for range 20 {
			sendWait(t, first, in(c, "x"))
		}
		if err := first.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if more, err := s.DeleteContext(t.Context(), alice.ID, c, 1); err != nil || !more {
			t.Fatalf("DeleteContext(1) = %v, %v; want more to remove", more, err)
		}
		second := start(t, engine.Config{Handler: obey, Store: s})
		list, err := second.List(t.Context(), alice, a2a.ListTasksParams{IncludeTotal: true})
		if err != nil || list.Total != 0 {
			t.Errorf("List() after the start = %+v, %v; want no tasks", list, err)
		}
	})
}

// A new task, or context, of an id whose deletion was started does not wait for the
// janitor.
func TestCreateCompletesPendingDeletionOfSameID(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(t *testing.T, e *engine.Engine, old *store.Task) error{
		"task": func(t *testing.T, e *engine.Engine, old *store.Task) error {
			_, err := e.Send(t.Context(), alice, in(old.ContextID, "x"), engine.SendOptions{})
			return err
		},
		"task of an old id": func(t *testing.T, e *engine.Engine, old *store.Task) error {
			p := to(old.Key.ID, "x")
			p.Message.ContextID = old.ContextID
			_, err := e.Send(t.Context(), alice, p, engine.SendOptions{})
			return err
		},
		"context": func(t *testing.T, e *engine.Engine, old *store.Task) error {
			_, err := e.CreateContext(t.Context(), alice, a2a.CreateContextParams{ContextID: old.ContextID}, engine.SendOptions{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onStores(t, func(t *testing.T, s store.Store) {
				e := start(t, engine.Config{Handler: obey, Store: s})
				c := newID()
				p := in(c, "ask")
				p.Message.TaskID = newID()
				old := sendWait(t, e, p)
				for range 2 {
					sendWait(t, e, in(c, "ask"))
				}
				more, err := s.DeleteContext(t.Context(), alice.ID, old.ContextID, 1)
				if err != nil || !more {
					t.Fatalf("DeleteContext(1) = %v, %v; want more to remove", more, err)
				}
				wantError(t, "begin", begin(t, e, old), "")
				if c, err := e.Context(t.Context(), alice, old.ContextID, nil); err != nil || c.TaskCount > 1 {
					t.Errorf("Context() = %+v, %v; want the old ones gone", c, err)
				}
			})
		})
	}
}

// A task of an id whose deletion was started begins too when another process ends the
// deletion in the middle of it.
func TestATaskBeginsWhileOthersFinishTheDeletionOfItsId(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		c := newID()
		var plan storetest.Plan = func(call storetest.Call) storetest.Fault {
			switch call.Method {
			case "PendingDeletions":
				return storetest.FailBefore // the janitor does nothing about it
			case "FinishDelete":
				for more := true; more; {
					more, _ = s.FinishDelete(context.WithoutCancel(t.Context()), alice.ID, c, 1)
				}
			}
			return storetest.Pass
		}
		e := start(t, engine.Config{Handler: obey, Store: storetest.Faulty(s, plan)})
		p := in(c, "ask")
		p.Message.TaskID = newID()
		old := sendWait(t, e, p)
		sendWait(t, e, in(c, "ask"))
		if more, err := s.DeleteContext(t.Context(), alice.ID, c, 1); err != nil || !more {
			t.Fatalf("DeleteContext(1) = %v, %v; want more to remove", more, err)
		}
		p = to(old.Key.ID, "x")
		p.Message.ContextID = c
		_, err := e.Send(t.Context(), alice, p, engine.SendOptions{})
		wantError(t, "Send()", err, "")
	})
}

// Clears, sends, cancels, reads and archiving of one context at once, in two
// processes, with a store that fails now and then: nothing panics, nothing is stuck,
// and no error is internal.
func TestAStormAroundOneContext(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			s := inmem.New()
			var engines [2]*engine.Engine
			for i := range engines {
				faulty := storetest.Faulty(replicas{s}, afterStart(storetest.FailRandomly(seed+uint64(i)*100, 0.02)))
				engines[i] = start(t, engine.Config{Store: faulty, Handler: obey, Lease: 300 * time.Millisecond, Poll: 10 * time.Millisecond})
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			var actors sync.WaitGroup
			for n := range 8 {
				e := engines[n%2]
				actors.Go(func() {
					for i := 0; ctx.Err() == nil; i++ {
						act(ctx, t, e, n, i)
					}
				})
			}
			actors.Wait()
			eventually(t, func() bool {
				_, err := engines[0].ClearContext(t.Context(), alice, a2a.ClearContextParams{ContextID: "c", Force: true}, engine.SendOptions{})
				return err == nil || a2a.CodeOf(err) == a2a.CodeContextNotFound
			})
			page, err := s.Tasks(t.Context(), store.Query{Owner: alice.ID, ContextID: "c", Limit: 10})
			if pending, _ := s.PendingDeletions(t.Context(), 1); len(pending) == 0 && (err != nil || len(page.Tasks) != 0) {
				t.Errorf("%d tasks are left, %v", len(page.Tasks), err)
			}
		})
	}
}

// act does one thing to the context of the storm.
func act(ctx context.Context, t *testing.T, e *engine.Engine, n, i int) {
	var err error
	switch n {
	case 0:
		_, err = e.ClearContext(ctx, alice, a2a.ClearContextParams{ContextID: "c", Force: i%2 == 0}, engine.SendOptions{})
	case 1:
		_, err = e.UpdateContext(ctx, alice, a2a.UpdateContextParams{ContextID: "c", Status: ptr(a2a.ContextArchived), Force: i%10 == 0}, engine.SendOptions{})
	case 2:
		_, err = e.Context(ctx, alice, "c", nil)
	default:
		var sent *engine.Sent
		if sent, err = e.Send(ctx, alice, in("c", []string{"x", "ask", "run"}[i%3]), engine.SendOptions{}); err == nil {
			short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
			for range e.Follow(short, alice, sent.Task.Key.ID, nil) {
				continue
			}
			cancel()
			_, err = e.Cancel(ctx, alice, sent.Task.Key.ID, engine.SendOptions{})
		}
	}
	if err != nil && a2a.CodeOf(err) == a2a.CodeInternal && ctx.Err() == nil {
		t.Errorf("actor %d was told %v", n, err)
	}
}
