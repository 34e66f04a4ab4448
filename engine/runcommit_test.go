package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// A run that does not know whether its step was stored ends if another worker has had the task since.
func TestRunWithLostAnswerEndsIfItsFenceHasMoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := inmem.New()
		lost := make(chan struct{})
		plan := failOnce(storetest.FailAfter, func(c storetest.Call) bool {
			return c.Method == "Commit" && len(c.Changes) == 1 && len(c.Changes[0].Steps) > 0
		})
		result := make(chan error, 1)
		e := start(t, engine.Config{
			Store: sharedStore{storetest.Faulty(s, func(c storetest.Call) storetest.Fault {
				fault := plan(c)
				if fault == storetest.FailAfter {
					close(lost)
				}
				return fault
			})},
			Turns: engine.Turns{Poll: time.Hour, Lease: 4 * time.Hour}, // nothing but the run reads the task
			Handler: func(ctx context.Context, turn *engine.Turn) error {
				_, err := turn.Step(ctx, "pay", func(context.Context) ([]byte, error) { return nil, nil })
				result <- err
				return err
			},
		})
		key := send(t, e, message("a")).Key
		<-lost
		synctest.Wait() // until the run waits before it reads the outcome, and the dispatcher for work
		task, err := s.Task(t.Context(), key, store.TaskOptions{})
		if err != nil {
			t.Fatalf("Task() = %v", err)
		}
		queue := task.Queue // as another worker leaves it that has claimed and requeued the task
		queue.Phase, queue.Lease.Worker = store.PhaseQueued, ""
		queue.Lease.Fence++
		commit(t, s, store.Change{Key: key, Version: task.Seq, Queue: &queue})
		if err := receive(t, result); !errors.Is(err, engine.ErrLeaseLost) {
			t.Errorf("Step() after its fence has moved = %v, want %v", err, engine.ErrLeaseLost)
		}
	})
}

// The dispatcher polls once per hour: only a notification finds the retry.
func TestRetryIsClaimedWhenItIsDue(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]storetest.Fault{"answered": storetest.Pass, "answer lost": storetest.FailAfter} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var attempts []time.Time
				e := start(t, engine.Config{
					Store: storetest.Faulty(inmem.New(), failOnce(fault, func(c storetest.Call) bool {
						return c.Method == "Commit" && c.Changes[0].Queue != nil && c.Changes[0].Queue.Phase == store.PhaseQueued
					})),
					Turns: engine.Turns{Poll: time.Hour, Lease: 4 * time.Hour, RetryDelay: time.Second, RetryDelayMax: 3 * time.Second, MaxAttempts: 4},
					Handler: func(_ context.Context, turn *engine.Turn) error {
						attempts = append(attempts, time.Now())
						if turn.Attempt() < 4 {
							return engine.Retry(errAgain)
						}
						return nil
					},
				})
				task := send(t, e, message("a"))
				wantState(t, waitFinal(t, e, task.Key.ID), a2a.StateCompleted)
				for i, want := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second} {
					// After a lost answer, the run waits before it reads the outcome. The delay started before.
					if got := attempts[i+1].Sub(attempts[i]); got < want || got > want+500*time.Millisecond {
						t.Errorf("attempt %d started %s after the one before, want %s", i+2, got, want)
					}
				}
			})
		})
	}
}

// Events that a failed commit of progress has not stored are stored without a further call of the handler.
func TestProgressIsStoredAfterAFailedCommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		e := start(t, engine.Config{
			Store: storetest.Faulty(inmem.New(), failOnce(storetest.FailBefore, func(c storetest.Call) bool {
				return c.Method == "Commit" && len(c.Changes[0].Events) > 0 && c.Changes[0].Events[0].Progress
			})),
			Handler: func(_ context.Context, turn *engine.Turn) error {
				err := turn.Status("half")
				<-release
				return err
			},
		})
		defer close(release)
		id := send(t, e, message("a")).Key.ID
		await.True(t, "the progress is stored", func() bool {
			task, err := e.Task(t.Context(), alice, id, nil)
			return err == nil && task.Status.Message != nil && task.Status.Message.Text() == "half"
		})
	})
}

// Another replica adds a message to a running task. The replica that runs the task sees it with its next commit.
func TestCommitFindsTheMessageOfAnotherReplica(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]storetest.Fault{"answered": storetest.Pass, "answer lost": storetest.FailAfter} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				shared := inmem.New()
				started, proceed, inbox := make(chan struct{}), make(chan struct{}), make(chan []a2a.Message, 1)
				cfg := engine.Config{
					Store: sharedStore{storetest.Faulty(shared, failOnce(fault, commitsChunk))}, Turns: engine.Turns{Poll: time.Hour, Lease: 4 * time.Hour, FlushInterval: time.Hour},
					Handler: func(_ context.Context, turn *engine.Turn) error {
						w := turn.Artifact("a")
						_, _ = w.WriteString("0")
						if err := turn.Flush(); err != nil {
							return err
						}
						close(started)
						<-proceed
						_, _ = w.WriteString("a")
						if err := turn.Flush(); err != nil {
							return err
						}
						inbox <- turn.Inbox()
						return nil
					},
				}
				e := start(t, cfg)
				id := send(t, e, message("first")).Key.ID
				<-started
				cfg.Store = sharedStore{shared}
				send(t, start(t, cfg), messageTo(id, "second"))
				close(proceed)
				if got := receive(t, inbox); len(got) != 1 || got[0].Text() != "second" {
					t.Errorf("Inbox() after a commit = %+v, want the message of the other replica", got)
				}
				task := waitFinal(t, e, id)
				if got := task.Artifacts[0].Text(); got != "0a" {
					t.Errorf("artifact = %q, want each chunk once", got)
				}
				checkLog(t, shared, task.Key)
			})
		})
	}
}

// Output of a turn that ends while a message waits is no output of the next turn. The next turn has its own attempts and limits.
func TestNextTurnUnderTheSameLeaseKeepsTheOutputOfTheTurnBefore(t *testing.T) {
	t.Parallel()
	started, proceed := make(chan struct{}), make(chan struct{})
	text := strings.Repeat("x", 1000)
	var attempts []string // turn and attempt
	e := start(t, engine.Config{
		Turns: engine.Turns{FlushInterval: time.Hour, RetryDelay: time.Millisecond, MaxAttempts: 2}, Limits: engine.Limits{ArtifactBytes: 1500},
		Handler: func(_ context.Context, turn *engine.Turn) error {
			name := map[int]string{1: "first", 2: "second"}[turn.Number()]
			if turn.Number() == 1 && turn.Attempt() == 2 {
				close(started)
				<-proceed
			}
			attempts = append(attempts, fmt.Sprint(turn.Number(), ".", turn.Attempt()))
			if turn.Number() == 1 && turn.Attempt() == 1 {
				return engine.Retry(errAgain)
			}
			if err := writeText(turn.Artifact(name), text); err != nil || turn.Attempt() == 2 {
				return err
			}
			return engine.Retry(errAgain)
		},
	})
	id := send(t, e, message("a")).Key.ID
	<-started
	send(t, e, messageTo(id, "b"))
	close(proceed)
	task := waitFinal(t, e, id)
	wantState(t, task, a2a.StateCompleted)
	wantTexts(t, task, "first="+text, "second="+text)
	if want := []string{"1.1", "1.2", "2.1", "2.2"}; !slices.Equal(attempts, want) {
		t.Errorf("turns and attempts = %v, want %v", attempts, want)
	}
}

// A store can fail a commit with an error that is not marked as temporary, such as a broken connection.
func TestCommitIsRepeatedAfterAnUnknownError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		failures := 3
		s := storetest.Intercept(inmem.New(), func(ctx context.Context, c storetest.Call, do func(context.Context) error) error {
			if c.Method == "Commit" && len(c.Changes[0].Steps) > 0 && failures > 0 {
				failures--
				return errSecret
			}
			return do(ctx)
		})
		e := start(t, engine.Config{Store: s, Handler: func(ctx context.Context, turn *engine.Turn) error {
			_, err := turn.Step(ctx, "pay", func(context.Context) ([]byte, error) { return nil, nil })
			return err
		}})
		wantState(t, sendWait(t, e, message("a")), a2a.StateCompleted)
	})
}

// A chunk cannot become the last one while its commit is in progress.
func TestCloseDuringACommitAddsNoChunk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, release := inmem.New(), make(chan struct{})
		slow := storetest.Intercept(s, func(ctx context.Context, c storetest.Call, do func(context.Context) error) error {
			err := do(ctx)
			if c.Method == "Commit" && len(c.Changes[0].Events) > 0 && c.Changes[0].Events[0].Artifact != nil {
				<-release
			}
			return err
		})
		e := start(t, engine.Config{Store: slow, Turns: engine.Turns{FlushInterval: time.Millisecond}, Handler: func(_ context.Context, turn *engine.Turn) error {
			w := turn.Artifact("a")
			_, err := w.WriteString("x")
			time.Sleep(time.Second) // the commit has been applied and has not returned
			closed := w.Close()
			close(release)
			return errors.Join(err, closed)
		}})
		task := sendWait(t, e, message("a"))
		wantState(t, task, a2a.StateCompleted)
		wantChunks(t, checkLog(t, s, task.Key))
	})
}

// When a task is claimed again in the same process, its older run ends at once.
func TestNewRunEndsTheOlderRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := inmem.New()
		first, causes := make(chan struct{}), make(chan error, 1)
		e := start(t, engine.Config{
			// The older run neither reads the task nor renews its lease before the dispatcher claims the task.
			Store: sharedStore{s}, Turns: engine.Turns{Lease: 12 * time.Second, Poll: time.Hour},
			Handler: func(ctx context.Context, turn *engine.Turn) error {
				if turn.Attempt() == 1 {
					close(first)
					<-ctx.Done()
					causes <- context.Cause(ctx)
					return ctx.Err()
				}
				synctest.Wait()
				select {
				case cause := <-causes:
					if !errors.Is(cause, engine.ErrLeaseLost) {
						t.Errorf("cause of the end of the older run = %v, want %v", cause, engine.ErrLeaseLost)
					}
				default:
					t.Error("two runs of the task are in progress")
				}
				return nil
			},
		})
		key := send(t, e, message("a")).Key
		<-first
		synctest.Wait()
		task, err := s.Task(t.Context(), key, store.TaskOptions{})
		if err != nil {
			t.Fatalf("Task() = %v", err)
		}
		queue := task.Queue
		queue.Phase, queue.Lease.Worker = store.PhaseQueued, ""
		queue.Lease.Fence++
		commit(t, s, store.Change{Key: key, Version: task.Seq, Queue: &queue})
		wantState(t, waitFinal(t, e, key.ID), a2a.StateCompleted)
	})
}

// If the store refuses the result of a run, the task is left to a later attempt of the same process.
func TestTaskWhoseResultIsRefusedIsClaimedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var refuses atomic.Bool
		s := storetest.Intercept(inmem.New(), func(ctx context.Context, c storetest.Call, do func(context.Context) error) error {
			if c.Method == "Commit" && refuses.Load() {
				return errSecret
			}
			return do(ctx)
		})
		e := start(t, engine.Config{Store: sharedStore{s}, Turns: engine.Turns{Lease: time.Second, Poll: 100 * time.Millisecond}, Handler: func(_ context.Context, turn *engine.Turn) error {
			if turn.Attempt() == 1 {
				refuses.Store(true)
				time.AfterFunc(2500*time.Millisecond, func() { refuses.Store(false) }) // the first attempt has ended
			}
			return nil
		}})
		id := send(t, e, message("a")).Key.ID
		time.Sleep(time.Minute)
		wantState(t, waitFinal(t, e, id), a2a.StateCompleted)
	})
}
