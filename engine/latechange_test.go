package engine_test

import (
	"context"
	"errors"
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

func TestRepeatedCancelGetsTheFirstAnswer(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Config{Handler: commandHandler})
	id := sendWait(t, e, message("ask")).Key.ID
	opts := engine.SendOptions{IdempotencyKey: "k", RequestHash: [32]byte{1}}
	for i := range 2 {
		task, err := e.Cancel(t.Context(), alice, id, opts)
		if err != nil {
			t.Fatalf("Cancel() number %d = %v", i+1, err)
		}
		wantState(t, task, a2a.StateCanceled)
	}
	opts.RequestHash = [32]byte{2}
	_, err := e.Cancel(t.Context(), alice, id, opts)
	wantError(t, "Cancel() of another request", err, a2a.CodeConflict)
	_, err = e.Cancel(t.Context(), a2a.Principal{ID: "bob"}, id, opts)
	wantError(t, "Cancel() by another", err, a2a.CodeTaskNotFound)
}

func TestCancelIsRepeatedAfterAConflict(t *testing.T) {
	t.Parallel()
	s := inmem.New()
	changed := false
	e := start(t, engine.Config{Handler: commandHandler, Store: storetest.Intercept(s, func(ctx context.Context, c storetest.Call, do func(context.Context) error) error {
		if c.Method == "Commit" && len(c.Changes[0].Events) == 1 && c.Changes[0].Events[0].State == a2a.StateCanceled && !changed {
			changed = true
			commit(t, s, store.Change{Key: c.Changes[0].Key, Version: c.Changes[0].Version, Events: []store.Event{{
				Time: store.Time(time.Now()), State: a2a.StateInputRequired, Metadata: map[string]any{"by": "another replica"},
			}}})
		}
		return do(ctx)
	})})
	id := sendWait(t, e, message("ask")).Key.ID
	task, err := e.Cancel(t.Context(), alice, id, engine.SendOptions{})
	if err != nil || !changed {
		t.Fatalf("Cancel() after a conflict = %v, want none (conflict: %t)", err, changed)
	}
	wantState(t, task, a2a.StateCanceled)
}

// A caller that already waits reads the store after a commit with an unknown outcome.
func TestCancelWithLostAnswerEndsWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		started := make(chan struct{})
		e := start(t, engine.Config{
			Store: storetest.Faulty(inmem.New(), failOnce(storetest.FailAfter, func(c storetest.Call) bool {
				return c.Method == "Commit" && len(c.Changes[0].Events) > 0 && c.Changes[0].Events[0].State == a2a.StateCanceled
			})),
			Turns: engine.Turns{Poll: time.Second, Lease: time.Hour},
			Handler: func(ctx context.Context, _ *engine.Turn) error {
				close(started)
				<-ctx.Done()
				return ctx.Err()
			},
		})
		p := message("go")
		p.Message.TaskID, p.Message.ContextID = newID(), newID()
		waited := make(chan *store.Task)
		go func() { waited <- sendWait(t, e, p) }()
		<-started
		synctest.Wait()
		if _, err := e.Cancel(t.Context(), alice, p.Message.TaskID, engine.SendOptions{}); err == nil {
			t.Error("Cancel() = nil, want the fault")
		}
		canceled := time.Now()
		wantState(t, <-waited, a2a.StateCanceled)
		if took := time.Since(canceled); took > 2*time.Second {
			t.Errorf("Send(wait) returned %s after the task was canceled, want at most two polls of 1s", took)
		}
	})
}

// Attempts belong to a turn.
func TestNextTurnStartsWithItsFirstAttempt(t *testing.T) {
	t.Parallel()
	var attempts []int
	e := start(t, engine.Config{Turns: engine.Turns{RetryDelay: time.Millisecond}, Handler: func(_ context.Context, turn *engine.Turn) error {
		attempts = append(attempts, turn.Attempt())
		switch {
		case turn.Number() == 2:
			return nil
		case turn.Attempt() == 1:
			return engine.Retry(errAgain)
		}
		return turn.RequireInput(a2a.TextPart{Text: "more?"})
	}})
	task := sendWait(t, e, message("a"))
	wantState(t, sendWait(t, e, messageTo(task.Key.ID, "b")), a2a.StateCompleted)
	if len(attempts) != 3 || attempts[2] != 1 {
		t.Errorf("attempts = %v, want 1, 2, and 1 of the next turn", attempts)
	}
}

// attempt is what a handler writes to an artifact in one attempt.
type attempt struct {
	describe string
	text     string
	open     bool // the attempt ends while the artifact is not complete
}

// The last attempt leaves one complete artifact, whatever earlier attempts have stored.
func TestLastAttemptDeterminesTheArtifact(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		attempts []attempt
		last     bool // the newest event is a last chunk
		starts   int  // events that replace the content
	}{
		"content was stored, its end was not":  {[]attempt{{text: "x", open: true}, {text: "x"}}, false, 1},
		"complete artifact is extended":        {[]attempt{{text: "x"}, {text: "xy"}}, true, 2},
		"complete artifact was replaced":       {[]attempt{{text: "x"}, {text: "y", open: true}, {text: "y"}}, false, 2},
		"description changes":                  {[]attempt{{text: "x", describe: "first"}, {text: "x", describe: "second"}}, true, 2},
		"complete artifact is written again":   {[]attempt{{text: "x"}, {text: "x"}}, true, 1},
		"the beginning was stored":             {[]attempt{{text: "x", open: true}, {text: "xy"}}, true, 1},
		"more was stored than is written now":  {[]attempt{{text: "xy", open: true}, {text: "x"}}, true, 2},
		"replaced content was stored and ends": {[]attempt{{text: "x"}, {text: "y", open: true}, {text: "yz"}}, true, 2},
	} {
		attempts := test.attempts
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := inmem.New()
			e := start(t, engine.Config{Store: s, Turns: engine.Turns{RetryDelay: time.Millisecond, MaxAttempts: len(attempts)}, Handler: func(_ context.Context, turn *engine.Turn) error {
				a := attempts[turn.Attempt()-1]
				w := turn.Artifact("a")
				w.Describe(a.describe, nil)
				err := writeText(w, a.text)
				if !a.open {
					err = errors.Join(err, w.Close())
				}
				err = errors.Join(err, turn.Flush())
				if turn.Attempt() < len(attempts) {
					err = errors.Join(err, engine.Retry(errAgain))
				}
				return err
			}})
			task := waitFinal(t, e, send(t, e, message("a")).Key.ID)
			wantState(t, task, a2a.StateCompleted)
			last := attempts[len(attempts)-1]
			wantTexts(t, task, "a="+last.text)
			if got := task.Artifacts[0].Description; got != last.describe {
				t.Errorf("description = %q, want %q", got, last.describe)
			}
			events := checkLog(t, s, task.Key)
			if last := wantChunks(t, events); last != test.last {
				t.Errorf("the newest event is a last chunk: %t, want %t", last, test.last)
			}
			starts := 0
			for _, e := range events {
				if e.Artifact != nil && !e.Append {
					starts++
				}
			}
			if starts != test.starts {
				t.Errorf("%d events replace the content, want %d", starts, test.starts)
			}
		})
	}
}

// The content of a recorded step counts in later attempts as if the step had run again.
func TestRecordedStepCountsLikeOneThatRuns(t *testing.T) {
	t.Parallel()
	text := string(make([]byte, 1000))
	e := start(t, engine.Config{Turns: engine.Turns{RetryDelay: time.Millisecond, MaxAttempts: 2}, Limits: engine.Limits{ArtifactBytes: 1500}, Handler: func(ctx context.Context, turn *engine.Turn) error {
		w := turn.Artifact("a")
		_, err := turn.Step(ctx, "s", func(context.Context) ([]byte, error) { return nil, errors.Join(writeText(w, text), w.Close()) })
		if err != nil {
			return err
		}
		if err := writeText(w, "more"); a2a.CodeOf(err) != a2a.CodeInvalid {
			t.Errorf("attempt %d: WriteString() to the artifact that the step has closed = %v, want invalid_params", turn.Attempt(), err)
		}
		if err := writeText(turn.Artifact("b"), text); a2a.CodeOf(err) != a2a.CodeTooLarge {
			t.Errorf("attempt %d: WriteString() over the limit = %v, want too_large", turn.Attempt(), err)
		}
		if turn.Attempt() == 1 {
			return engine.Retry(errAgain)
		}
		return nil
	}})
	wantState(t, waitFinal(t, e, send(t, e, message("a")).Key.ID), a2a.StateCompleted)
}

// A pass continues until it has removed all expired data. The next pass is far away.
func TestPassRemovesAllExpiredData(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := inmem.New()
		const each = 450 // more than two batches
		at := store.Time(time.Now().Add(-100 * day))
		var changes []store.Change
		for i, state := range []a2a.TaskState{a2a.StateCompleted, a2a.StateRejected} {
			for range each {
				m := message("x").Message
				c := store.Change{
					Key: store.Key{Owner: alice.ID, ID: newID()}, Create: &store.Create{ContextID: "c"}, Queue: &store.QueueEntry{Phase: store.PhaseIdle, Turn: 1},
					Events: []store.Event{{Time: at, State: a2a.StateSubmitted, Received: &m}, {Time: at, State: state}},
				}
				if i == 1 { // the task remains
					c.Idempotency = &store.IdempotencyRecord{Owner: alice.ID, Key: "key:" + newID(), TaskID: c.Key.ID, CreatedAt: at}
				}
				changes = append(changes, c)
			}
		}
		results, err := s.Commit(t.Context(), changes...)
		for _, r := range results {
			err = errors.Join(err, r.Err)
		}
		if err != nil {
			t.Fatalf("Commit() = %v", err)
		}
		e := start(t, engine.Config{
			Handler: commandHandler, Store: s, Turns: engine.Turns{Poll: 100 * day, Lease: 100 * day, Timeout: -1},
			Retention: engine.Retention{"completed": 10 * day, engine.RetainIdempotency: 10 * day},
		})
		time.Sleep(time.Minute)
		want := engine.Expired{Tasks: each, IdempotencyRecords: each}
		if got := e.Health(t.Context()).Expired; got != want {
			t.Errorf("Health().Expired after the first pass = %+v, want %+v", got, want)
		}
	})
}

// A deletion that has started does not end with its caller.
func TestDeletionContinuesWithoutItsCaller(t *testing.T) {
	t.Parallel()
	for name, method := range map[string]string{"first call": "DeleteContext", "repeated call": "FinishDelete"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := inmem.New()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				e := start(t, engine.Config{Handler: commandHandler, Turns: engine.Turns{Poll: time.Hour, Lease: time.Hour}, Store: storetest.Intercept(s, func(ctx context.Context, c storetest.Call, do func(context.Context) error) error {
					if err := ctx.Err(); err != nil {
						return err
					}
					if c.Method == method {
						defer cancel()
					}
					return do(ctx)
				})})
				sendWait(t, e, messageIn("mine", "x"))
				synctest.Wait()
				if name == "repeated call" {
					if _, err := s.DeleteContext(t.Context(), alice.ID, "mine", 0); err != nil {
						t.Fatalf("DeleteContext() = %v", err)
					}
				}
				if _, err := e.ClearContext(ctx, alice, a2a.ClearContextParams{ContextID: "mine"}, engine.SendOptions{}); err != nil {
					t.Errorf("ClearContext() after its caller has gone = %v", err)
				}
				if pending, err := s.PendingDeletions(t.Context(), 10); err != nil || len(pending) > 0 {
					t.Errorf("PendingDeletions() = %v, %v, want none", pending, err)
				}
			})
		})
	}
}

// While a forced deletion cancels tasks, no task can start in the context.
func TestForcedClearAcceptsNoNewTasks(t *testing.T) {
	t.Parallel()
	var e *engine.Engine
	rejected := make(chan error, 1)
	var once sync.Once
	e = start(t, engine.Config{Handler: commandHandler, Store: storetest.Intercept(inmem.New(), func(ctx context.Context, c storetest.Call, do func(context.Context) error) error {
		if c.Method == "Commit" && len(c.Changes[0].Events) > 0 && c.Changes[0].Events[0].State == a2a.StateCanceled {
			once.Do(func() {
				_, err := e.Send(ctx, alice, messageIn("mine", "x"), engine.SendOptions{})
				rejected <- err
			})
		}
		return do(ctx)
	})})
	send(t, e, messageIn("mine", "run"))
	if _, err := clearContext(t, e, "mine", true); err != nil {
		t.Fatalf("ClearContext(force) = %v", err)
	}
	wantError(t, "Send() during a forced deletion", receive(t, rejected), a2a.CodeContextNotCancelable)
}

// A stream from an earlier event continues after a pause that has ended.
func TestFollowContinuesAfterAPauseThatHasEnded(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Config{Handler: commandHandler})
	id := sendWait(t, e, message("ask")).Key.ID
	task := sendWait(t, e, messageTo(id, "x"))
	var seqs []int64
	var after int64
	last := false
	for u, err := range e.Follow(t.Context(), alice, id, &after) {
		if err != nil {
			t.Fatalf("Follow() = %v", err)
		}
		seqs, last = append(seqs, u.Seq), u.Last
	}
	if n := int64(len(seqs)); n != task.Seq || !last {
		t.Errorf("Follow(after 0) = events %v, last: %t; want %d events and the last one marked", seqs, last, task.Seq)
	}
}
