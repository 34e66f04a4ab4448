package engine_test

import (
	"context"
	"errors"
	"fmt"
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

func clearContext(t *testing.T, e *engine.Engine, id string, force bool) (int, error) {
	t.Helper()
	return e.ClearContext(t.Context(), alice, a2a.ClearContextParams{ContextID: id, Force: force}, engine.SendOptions{})
}

// wantDeleted checks that a context and its tasks are not found.
func wantDeleted(t *testing.T, e *engine.Engine, s store.Store, contextID string, tasks ...string) {
	t.Helper()
	_, err := e.Context(t.Context(), alice, contextID, nil)
	wantError(t, "Context()", err, a2a.CodeContextNotFound)
	for _, id := range tasks {
		_, err := e.Task(t.Context(), alice, id, nil)
		wantError(t, "Task()", err, a2a.CodeTaskNotFound)
		_, err = e.Send(t.Context(), alice, messageTo(id, "x"), engine.SendOptions{})
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

// seedTasks adds 450 finished tasks to a context, more than two deletion batches.
func seedTasks(t *testing.T, s store.Store, contextID string) (ids []string) {
	t.Helper()
	var changes []store.Change
	for i := range 450 {
		ids = append(ids, newID())
		m := message("x").Message
		now := store.Time(time.Now())
		changes = append(changes, store.Change{
			Key: store.Key{Owner: alice.ID, ID: ids[i]}, Create: &store.Create{ContextID: contextID}, Queue: &store.QueueEntry{Phase: store.PhaseIdle, Turn: 1},
			Events: []store.Event{{Time: now, State: a2a.StateSubmitted, Received: &m}, {Time: now, State: a2a.StateCompleted}},
		})
	}
	results, err := s.Commit(t.Context(), changes...)
	if err != nil || results[449].Err != nil {
		t.Fatalf("Commit() = %v, %v", results, err)
	}
	return ids
}

func TestClearContextRemovesTasks(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		e := start(t, engine.Config{Handler: commandHandler, Store: s})
		key := engine.SendOptions{Wait: true, IdempotencyKey: "k", RequestHash: [32]byte{1}}
		params := messageIn("mine", "x")
		first, err := e.Send(t.Context(), alice, params, key)
		wantError(t, "Send()", err, "")
		tasks := append([]string{first.Task.Key.ID}, seedTasks(t, s, "mine")...)
		other := sendWait(t, e, message("x"))
		n, err := clearContext(t, e, "mine", false)
		if err != nil || n != len(tasks) {
			t.Fatalf("ClearContext() = %d, %v; want %d", n, err, len(tasks))
		}
		wantDeleted(t, e, s, "mine", tasks[0], tasks[200], tasks[450])
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

// A handler runs, and a stream and a blocking send wait for the task. All of them end, and the
// run commits nothing more.
func TestForcedClearEndsRunsAndStreams(t *testing.T) {
	t.Parallel()
	for _, exclusive := range []bool{true, false} {
		t.Run(fmt.Sprint("exclusive ", exclusive), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				shared := inmem.New()
				var s store.Store = shared
				if !exclusive {
					s = sharedStore{shared}
				}
				started, cause, late := make(chan struct{}), make(chan error, 1), make(chan error, 2)
				release := make(chan struct{})
				handler := func(ctx context.Context, turn *engine.Turn) error {
					if turn.Messages()[0].Text() == "ask" {
						return turn.RequireInput()
					}
					_ = turn.Status("started")
					close(started)
					<-ctx.Done()
					cause <- context.Cause(ctx)
					<-release // until everything is removed
					late <- turn.Status("late")
					late <- turn.Flush()
					return turn.Reply(a2a.TextPart{Text: "late"})
				}
				cfg := engine.Config{Handler: handler, Store: s, Turns: engine.Turns{Poll: 10 * time.Millisecond, Lease: 3 * time.Second, HandlerGrace: time.Minute}}
				e := start(t, cfg)
				clearer := e
				if !exclusive {
					clearer = start(t, cfg)
				}
				asks := sendWait(t, e, messageIn("c", "ask"))
				runs := send(t, e, messageIn("c", "run"))
				<-started
				ends := followEnd(t, e, runs.Key.ID)
				blocked, stored := make(chan error, 1), make(chan struct{})
				go func() {
					opts := engine.SendOptions{Wait: true, OnStored: func() { close(stored) }}
					_, err := e.Send(t.Context(), alice, messageTo(runs.Key.ID, "more"), opts)
					blocked <- err
				}()
				<-stored
				_, err := clearContext(t, clearer, "c", false)
				wantError(t, "ClearContext()", err, notCancelable, "1 unfinished task and")
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
				wantDeleted(t, e, shared, "c", runs.Key.ID, asks.Key.ID)
			})
		})
	}
}

// followEnd returns a channel that receives the last error of a task's stream.
func followEnd(t *testing.T, e *engine.Engine, id string) <-chan error {
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

// A stream of a task that is not canceled ends when the task is deleted. Here another process
// has claimed and deleted it.
func TestStreamEndsWhenTaskIsDeleted(t *testing.T) {
	t.Parallel()
	for name, recreate := range map[string]bool{"deleted": false, "created again": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := inmem.New()
				e := start(t, engine.Config{Handler: commandHandler, Store: sharedStore{s}})
				task := send(t, e, message("run"))
				end := followEnd(t, e, task.Key.ID)
				waited := make(chan error, 1)
				go func() {
					_, err := e.Send(t.Context(), alice, messageTo(task.Key.ID, "more"), engine.SendOptions{Wait: true})
					waited <- err
				}()
				synctest.Wait()
				revokeLease(t, s, task.Key)
				if _, err := s.DeleteContext(t.Context(), alice.ID, task.ContextID, 10); err != nil {
					t.Fatalf("DeleteContext() = %v", err)
				}
				if recreate {
					time.Sleep(time.Millisecond) // otherwise it is the same task
					m := message("ask").Message
					commit(t, s, store.Change{
						Key: task.Key, Create: &store.Create{ContextID: task.ContextID}, Queue: &store.QueueEntry{Phase: store.PhaseIdle, Turn: 1},
						Events: []store.Event{{Time: time.Now(), State: a2a.StateSubmitted, Received: &m}},
					})
				}
				wantError(t, "the stream's end", <-end, a2a.CodeTaskNotFound, task.Key.ID)
				wantError(t, "the wait's end", <-waited, a2a.CodeTaskNotFound, task.Key.ID)
				time.Sleep(time.Minute) // time for the run to detect the deletion
				if h := e.Health(t.Context()); h.Running != 0 || h.Abandoned != 0 {
					t.Errorf("Health() = %+v, want nothing running", h)
				}
			})
		})
	}
}

// revokeLease ends the lease of a task like a cancel by another process, but without an event.
func revokeLease(t *testing.T, s store.Store, key store.Key) {
	t.Helper()
	task, err := s.Task(t.Context(), key, store.TaskOptions{})
	if err != nil {
		t.Fatal(err)
	}
	run := task.Queue
	run.Phase, run.Lease.Worker = store.PhaseIdle, ""
	run.Lease.Fence++
	commit(t, s, store.Change{Key: key, Version: task.Seq, Queue: &run})
}

// After an interrupted deletion, with or without the answer, nobody sees the context, and the
// next process completes the deletion.
func TestInterruptedDeletionIsFinished(t *testing.T) {
	t.Parallel()
	for _, fault := range []storetest.Fault{storetest.FailBefore, storetest.FailAfter} {
		for _, nth := range []int{1, 2, 3} {
			t.Run(fmt.Sprintf("fault %d of call %d", fault, nth), func(t *testing.T) {
				t.Parallel()
				onStores(t, func(t *testing.T, s store.Store) {
					down := false
					e := start(t, engine.Config{Handler: commandHandler, Store: storetest.Faulty(s, func(c storetest.Call) storetest.Fault {
						if c.Method == "PendingDeletions" || down && c.Method == "FinishDelete" {
							return storetest.FailBefore // this process does not continue the deletion
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
							t.Errorf("Context() = %v, want the context, because its deletion was never started", err)
						}
						return
					}
					if _, err := s.Context(t.Context(), alice.ID, "c", 0); !errors.Is(err, store.ErrNotFound) {
						t.Errorf("Context() = %v, want ErrNotFound", err)
					}
					next := start(t, engine.Config{Handler: commandHandler, Store: s})
					await.True(t, "no deletion is pending", func() bool {
						pending, err := s.PendingDeletions(t.Context(), 10)
						return err == nil && len(pending) == 0
					})
					wantDeleted(t, next, s, "c", tasks[0], tasks[449])
				})
			})
		}
	}
}

// If a deletion is interrupted and the client repeats the call, the call completes the
// deletion.
func TestRepeatedClearCompletesAPendingDeletion(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		var up atomic.Bool
		e := start(t, engine.Config{Handler: commandHandler, Store: storetest.Faulty(s, func(c storetest.Call) storetest.Fault {
			if c.Method == "PendingDeletions" || c.Method == "FinishDelete" && !up.Load() {
				return storetest.FailBefore // only the call continues the deletion
			}
			return storetest.Pass
		})})
		tasks := seedTasks(t, s, "c")
		for range 2 { // of which the second one finds a pending deletion
			_, err := clearContext(t, e, "c", false)
			wantError(t, "ClearContext() with a fault", err, a2a.CodeUnavailable)
		}
		up.Store(true)
		if n, err := clearContext(t, e, "c", false); err != nil || n != 0 {
			t.Errorf("ClearContext() of a pending deletion = %d, %v, want 0 and no error", n, err)
		}
		if pending, err := s.PendingDeletions(t.Context(), 10); err != nil || len(pending) != 0 {
			t.Errorf("PendingDeletions() = %v, %v, want none", pending, err)
		}
		wantDeleted(t, e, s, "c", tasks[0], tasks[449])
		_, err := clearContext(t, e, "c", false)
		wantError(t, "ClearContext() after the deletion", err, a2a.CodeContextNotFound)
	})
}

// Directly after a start, readers see nothing of a context with a pending deletion.
func TestStartFinishesPendingDeletions(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		first := start(t, engine.Config{Handler: commandHandler, Store: s})
		c := newID()
		for range 20 {
			sendWait(t, first, messageIn(c, "x"))
		}
		if err := first.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if more, err := s.DeleteContext(t.Context(), alice.ID, c, 1); err != nil || !more {
			t.Fatalf("DeleteContext(1) = %v, %v; want more to remove", more, err)
		}
		second := start(t, engine.Config{Handler: commandHandler, Store: s})
		list, err := second.List(t.Context(), alice, a2a.ListTasksParams{IncludeTotal: true})
		if err != nil || list.Total != 0 {
			t.Errorf("List() after the start = %+v, %v; want no tasks", list, err)
		}
	})
}

// Creating a task or context with the id of a pending deletion does not wait for the janitor.
func TestCreateCompletesPendingDeletionOfSameID(t *testing.T) {
	t.Parallel()
	for name, create := range map[string]func(t *testing.T, e *engine.Engine, old *store.Task) error{
		"task": func(t *testing.T, e *engine.Engine, old *store.Task) error {
			_, err := e.Send(t.Context(), alice, messageIn(old.ContextID, "x"), engine.SendOptions{})
			return err
		},
		"task of an old id": func(t *testing.T, e *engine.Engine, old *store.Task) error {
			p := messageTo(old.Key.ID, "x")
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
				e := start(t, engine.Config{Handler: commandHandler, Store: s})
				c := newID()
				p := messageIn(c, "ask")
				p.Message.TaskID = newID()
				old := sendWait(t, e, p)
				for range 2 {
					sendWait(t, e, messageIn(c, "ask"))
				}
				more, err := s.DeleteContext(t.Context(), alice.ID, old.ContextID, 1)
				if err != nil || !more {
					t.Fatalf("DeleteContext(1) = %v, %v; want more to remove", more, err)
				}
				wantError(t, "create", create(t, e, old), "")
				if c, err := e.Context(t.Context(), alice, old.ContextID, nil); err != nil || c.TaskCount > 1 {
					t.Errorf("Context() = %+v, %v; want the old tasks removed", c, err)
				}
			})
		})
	}
}

// A task with the id of a pending deletion starts even if another process completes the
// deletion at the same time.
func TestTaskStartsDuringDeletionOfSameID(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		c := newID()
		var plan storetest.Plan = func(call storetest.Call) storetest.Fault {
			switch call.Method {
			case "PendingDeletions":
				return storetest.FailBefore // the janitor does not continue the deletion
			case "FinishDelete":
				for more := true; more; {
					more, _ = s.FinishDelete(context.WithoutCancel(t.Context()), alice.ID, c, 1)
				}
			}
			return storetest.Pass
		}
		e := start(t, engine.Config{Handler: commandHandler, Store: storetest.Faulty(s, plan)})
		p := messageIn(c, "ask")
		p.Message.TaskID = newID()
		old := sendWait(t, e, p)
		sendWait(t, e, messageIn(c, "ask"))
		if more, err := s.DeleteContext(t.Context(), alice.ID, c, 1); err != nil || !more {
			t.Fatalf("DeleteContext(1) = %v, %v; want more to remove", more, err)
		}
		p = messageTo(old.Key.ID, "x")
		p.Message.ContextID = c
		_, err := e.Send(t.Context(), alice, p, engine.SendOptions{})
		wantError(t, "Send()", err, "")
	})
}

// Clears, sends, cancels, reads and archiving of one context run concurrently in two processes,
// with a store that sometimes fails. Nothing panics or blocks, and no error is internal.
func TestConcurrentOperationsOnOneContext(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			s := inmem.New()
			var engines [2]*engine.Engine
			for i := range engines {
				faulty := storetest.Faulty(sharedStore{s}, exceptBacklog(storetest.FailRandomly(seed+uint64(i)*100, 0.02)))
				engines[i] = start(t, engine.Config{Store: faulty, Handler: commandHandler, Turns: engine.Turns{Lease: 300 * time.Millisecond, Poll: 10 * time.Millisecond}})
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			var actors sync.WaitGroup
			for n := range 8 {
				e := engines[n%2]
				actors.Go(func() {
					for i := 0; ctx.Err() == nil; i++ {
						randomOperation(ctx, t, e, n, i)
					}
				})
			}
			actors.Wait()
			await.True(t, "the context is cleared", func() bool {
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

// randomOperation runs one operation on the shared context.
func randomOperation(ctx context.Context, t *testing.T, e *engine.Engine, n, i int) {
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
		if sent, err = e.Send(ctx, alice, messageIn("c", []string{"x", "ask", "run"}[i%3]), engine.SendOptions{}); err == nil {
			short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
			for range e.Follow(short, alice, sent.Task.Key.ID, nil) {
				continue
			}
			cancel()
			_, err = e.Cancel(ctx, alice, sent.Task.Key.ID, engine.SendOptions{})
		}
	}
	if err != nil && a2a.CodeOf(err) == a2a.CodeInternal && ctx.Err() == nil {
		t.Errorf("operation %d = %v, want no internal error", n, err)
	}
}
