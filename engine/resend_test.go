package engine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/backend/postgres"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// obeying returns a handler that obeys, and the number of its runs.
func obeying() (engine.Handler, *atomic.Int64) {
	runs := new(atomic.Int64)
	return func(ctx context.Context, turn *engine.Turn) error {
		runs.Add(1)
		return obey(ctx, turn)
	}, runs
}

// wantSame checks that a message that is sent again is answered with the task as it was after
// the message joined, or with wait at its next final state.
func wantSame(t *testing.T, e *engine.Engine, params a2a.MessageSendParams, opts engine.SendOptions, first *engine.Sent) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	again, err := e.Send(ctx, alice, params, opts)
	switch {
	case err != nil:
		t.Errorf("Send(again) = %v, want task %s", err, first.Task.Key.ID)
	case again.Task.Key != first.Task.Key:
		t.Errorf("Send(again) = task %s, want %s", again.Task.Key.ID, first.Task.Key.ID)
	case opts.Wait && (again.Task.Seq != first.Task.Seq || again.Task.Status.State != first.Task.Status.State):
		t.Errorf("Send(again) = event %d, %s; want %d, %s", again.Task.Seq, again.Task.Status.State, first.Task.Seq, first.Task.Status.State)
	case first.First == nil || again.First == nil: // who has waited may have none
	case again.First.Seq != first.First.Seq || again.First.Status.State != first.First.Status.State:
		t.Errorf("Send(again) begins with event %d, %s; want %d, %s",
			again.First.Seq, again.First.Status.State, first.First.Seq, first.First.Status.State)
	}
}

func mustSend(t *testing.T, e *engine.Engine, params a2a.MessageSendParams, opts engine.SendOptions) *engine.Sent {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	sent, err := e.Send(ctx, alice, params, opts)
	if err != nil {
		t.Fatalf("Send() = %v", err)
	}
	return sent
}

func TestResentMessageForATaskChangesNothing(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		handler, runs := obeying()
		e := start(t, engine.Config{Handler: handler, Store: s})
		wait := engine.SendOptions{Wait: true}
		task := sendWait(t, e, text("ask"))
		// The two ways to answer: the task waits again, and is over.
		for i, words := range []string{"ask", "done"} {
			reply := to(task.Key.ID, words)
			reply.Message.ID = fmt.Sprint("msg-", i) // any form of id
			reply.Metadata = map[string]any{"n": float64(i), "a": "b"}
			first := mustSend(t, e, reply, wait)
			log := checkLog(t, s, task.Key)
			for range 2 {
				wantSame(t, e, reply, wait, first)
				wantSame(t, e, reply, engine.SendOptions{}, first)
				wantSame(t, e, reply, engine.SendOptions{IdempotencyKey: "unused"}, first)
				reply.Message.ContextID = task.ContextID
			}
			for what, change := range map[string]func(*a2a.MessageSendParams){
				"text":     func(p *a2a.MessageSendParams) { p.Message.Parts = []a2a.Part{a2a.TextPart{Text: "other"}} },
				"metadata": func(p *a2a.MessageSendParams) { p.Metadata = map[string]any{"n": float64(i), "a": "c"} },
			} {
				other := reply
				change(&other)
				_, err := e.Send(t.Context(), alice, other, engine.SendOptions{})
				wantError(t, "Send(other "+what+", same message id)", err, a2a.CodeInvalid, "message.messageId")
				if field := new(a2a.Error); errors.As(err, &field) && field.Data["field"] != "message.messageId" {
					t.Errorf("Send(other %s) names field %v, want message.messageId", what, field.Data["field"])
				}
			}
			if after := checkLog(t, s, task.Key); len(after) != len(log) {
				t.Errorf("the log has %d events, want %d as before the message was sent again", len(after), len(log))
			}
		}
		if n := runs.Load(); n != 3 {
			t.Errorf("the handler ran %d times, want 3", n)
		}
	})
}

func TestResentMessageIsDeliveredOnceToARunningTask(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		var got []string
		e := start(t, engine.Config{Store: s, Handler: func(ctx context.Context, turn *engine.Turn) error {
			for messages := turn.Messages(); ; {
				for _, m := range messages {
					if got = append(got, m.Text()); m.Text() == "end" {
						return turn.Reply()
					}
				}
				var err error
				if messages, err = turn.Receive(ctx); err != nil {
					return err
				}
			}
		}})
		task := send(t, e, text("go"))
		more := to(task.Key.ID, "more")
		for range 3 {
			mustSend(t, e, more, engine.SendOptions{})
		}
		done := sendWait(t, e, to(task.Key.ID, "end"))
		if len(done.History) != 3 || strings.Join(got, " ") != "go more end" {
			t.Errorf("history has %d messages, the handler received %q; want 3, and each once", len(done.History), got)
		}
	})
}

func TestMessageThatCreatedTheTaskIsRecognisedByTaskID(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		handler, runs := obeying()
		e := start(t, engine.Config{Handler: handler, Store: s})
		params := text("x")
		params.Message.ID = "msg-1"
		first := mustSend(t, e, params, engine.SendOptions{Wait: true})
		params.Message.TaskID = first.Task.Key.ID
		wantSame(t, e, params, engine.SendOptions{Wait: true}, first)
		if n := runs.Load(); n != 1 {
			t.Errorf("the handler ran %d times, want once", n)
		}
	})
}

func TestResentFirstMessageIsTheSameTask(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		handler, runs := obeying()
		e := start(t, engine.Config{Handler: handler, Store: s})
		params := text("x")
		params.Message.ContextID = "c"
		params.Metadata = map[string]any{"a": 1.0, "b": "c"}
		wait := engine.SendOptions{Wait: true}
		first := mustSend(t, e, params, wait)
		again := params
		again.Configuration = &a2a.MessageSendConfiguration{AcceptedOutputModes: []string{"text/plain"}}
		again.Metadata = maps.Clone(params.Metadata)
		wantSame(t, e, again, wait, first)
		wantSame(t, e, again, engine.SendOptions{}, first)
		if n := runs.Load(); n != 1 {
			t.Errorf("the handler ran %d times, want once", n)
		}
		for what, change := range map[string]func(*a2a.MessageSendParams){
			"text":     func(p *a2a.MessageSendParams) { p.Message.Parts = []a2a.Part{a2a.TextPart{Text: "other"}} },
			"metadata": func(p *a2a.MessageSendParams) { p.Metadata = map[string]any{"a": 2.0, "b": "c"} },
			"context":  func(p *a2a.MessageSendParams) { p.Message.ContextID = "d" },
			"id":       func(p *a2a.MessageSendParams) { p.Message.ID = newID() },
		} {
			other := params
			change(&other)
			if sent := mustSend(t, e, other, wait); sent.Task.Key == first.Task.Key {
				t.Errorf("Send(other %s) = the same task, want another", what)
			} else {
				wantSame(t, e, other, wait, sent)
			}
		}
		bob, err := e.Send(t.Context(), a2a.Principal{ID: "bob"}, params, engine.SendOptions{})
		if err != nil || bob.Task.Key.Owner != "bob" {
			t.Errorf("Send(by another owner) = %+v, %v; want a task of their own", bob, err)
		}
		keyed := engine.SendOptions{Wait: true, IdempotencyKey: "k"}
		sent := mustSend(t, e, params, keyed)
		if sent.Task.Key == first.Task.Key {
			t.Error("Send(with an Idempotency-Key) = the same task, want that only the key decides")
		}
		wantSame(t, e, params, keyed, sent)
	})
}

func TestIDsThatAreNotUniqueAreNotMatched(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Config{Handler: obey})
	for _, id := range []string{"msg-1", "1", strings.ReplaceAll(newID(), "-", ""), "00000000-0000-0000-0000-000000000000"} {
		params := text("x")
		params.Message.ID = id
		if a, b := send(t, e, params), send(t, e, params); a.Key == b.Key {
			t.Errorf("messages %q began one task, want two", id)
		}
	}
}

func TestConcurrentResendsBeginOneTask(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		handler, runs := obeying()
		e := start(t, engine.Config{Handler: handler, Store: s})
		wantOneTask(t, text("x"), e)
		if n := runs.Load(); n != 1 {
			t.Errorf("the handler ran %d times, want once", n)
		}
	})
}

// wantOneTask sends a message 50 times at once to engines, and checks that one task answers.
func wantOneTask(t *testing.T, params a2a.MessageSendParams, engines ...*engine.Engine) (id string) {
	t.Helper()
	var ids sync.Map
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
			defer cancel()
			sent, err := engines[i%len(engines)].Send(ctx, alice, params, engine.SendOptions{Wait: true})
			if err != nil {
				t.Errorf("Send() = %v", err)
				return
			}
			if !sent.Task.Status.State.Final() {
				t.Errorf("Send(wait) = a task that is %s, want a final state", sent.Task.Status.State)
			}
			ids.Store(sent.Task.Key.ID, true)
		})
	}
	wg.Wait()
	n := 0
	ids.Range(func(key, _ any) bool {
		id = key.(string)
		n++
		return true
	})
	if n != 1 {
		t.Errorf("50 sends of one message are answered with %d tasks, want one", n)
	}
	return id
}

func TestFirstMessageIsForgottenAfter30Days(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := start(t, engine.Config{Handler: obey, Poll: time.Hour, Lease: time.Hour})
		params := text("x")
		first := send(t, e, params)
		time.Sleep(30*day - time.Hour)
		if again := send(t, e, params); again.Key != first.Key {
			t.Error("Send(within 30 days) = another task, want the same")
		}
		time.Sleep(6 * time.Hour)
		if again := send(t, e, params); again.Key == first.Key {
			t.Error("Send(after 30 days) = the same task, want another")
		}
	})
}

func TestResendsAfterARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	handler, runs := obeying()
	params, reply := text("ask"), text("done")
	reply.Message.ID = "msg-2"
	var first, second *engine.Sent
	wait := engine.SendOptions{Wait: true}
	session := func(use func(e *engine.Engine)) {
		s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		e := start(t, engine.Config{Handler: handler, Store: s})
		use(e)
		if err := errors.Join(e.Stop(t.Context()), s.Close()); err != nil {
			t.Fatal(err)
		}
	}
	session(func(e *engine.Engine) {
		first = mustSend(t, e, params, wait)
		reply.Message.TaskID = first.Task.Key.ID
		second = mustSend(t, e, reply, wait)
	})
	session(func(e *engine.Engine) {
		wantSame(t, e, params, wait, first)
		wantSame(t, e, reply, wait, second)
	})
	if n := runs.Load(); n != 2 {
		t.Errorf("the handler ran %d times, want twice", n)
	}
}

func TestResendsThroughAnotherReplica(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	schema := pgtest.Schema(t, url)
	handler, runs := obeying()
	var engines []*engine.Engine
	for range 2 {
		s, err := postgres.Open(t.Context(), postgres.Config{URL: url, Schema: schema, Migrate: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		engines = append(engines, start(t, engine.Config{Handler: handler, Store: s, Poll: 50 * time.Millisecond}))
	}
	id := wantOneTask(t, text("ask"), engines...)
	reply := to(id, "done")
	if got := wantOneTask(t, reply, engines...); got != id {
		t.Errorf("Send(reply) = task %s, want %s", got, id)
	}
	other := to(id, "other")
	other.Message.ID = reply.Message.ID
	for _, e := range engines {
		_, err := e.Send(t.Context(), alice, other, engine.SendOptions{})
		wantError(t, "Send(other content, same message id)", err, a2a.CodeInvalid, "message.messageId")
	}
	if n := runs.Load(); n != 2 {
		t.Errorf("the handlers ran %d times, want twice", n)
	}
}

// A repeat is answered although the queue is full or a webhook is not accepted any more.
func TestResentMessageIsAnsweredWhenNoMoreAreAccepted(t *testing.T) {
	t.Parallel()
	held, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	e := start(t, engine.Config{
		Concurrency: 1, Limits: engine.Limits{Queued: 1},
		Handler: func(_ context.Context, turn *engine.Turn) error {
			once.Do(func() {
				close(held)
				<-release
			})
			return turn.Reply()
		},
	})
	t.Cleanup(func() { close(release) })
	full := errors.New("no webhooks are accepted")
	refuse := engine.SendOptions{Push: func(context.Context, store.Key, int64) ([]store.NewPush, error) { return nil, full }}
	running, waiting := text("runs"), text("waits")
	first := mustSend(t, e, running, engine.SendOptions{})
	<-held
	second := mustSend(t, e, waiting, engine.SendOptions{})
	wantSame(t, e, running, refuse, first)
	wantSame(t, e, waiting, engine.SendOptions{}, second)
	_, err := e.Send(t.Context(), alice, text("other"), engine.SendOptions{})
	wantError(t, "Send(other)", err, a2a.CodeExhausted)
}

func TestMessageIsForgottenWithItsTask(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		e := start(t, engine.Config{Handler: obey, Store: s})
		params := in("c", "x")
		first := sendWait(t, e, params)
		if _, err := clearContext(t, e, "c", false); err != nil {
			t.Fatal(err)
		}
		if again := sendWait(t, e, params); again.Key == first.Key {
			t.Error("Send(after the context was cleared) = the task that is gone, want another")
		}
	})
}

// lostAnswer is a store that commits the next change and does not say so.
type lostAnswer struct {
	store.Store
	lose atomic.Bool
}

func (s *lostAnswer) Commit(ctx context.Context, changes ...store.Change) ([]store.Result, error) {
	results, err := s.Store.Commit(ctx, changes...)
	if s.lose.CompareAndSwap(true, false) {
		return nil, a2a.Errorf(a2a.CodeUnavailable, "answer lost")
	}
	return results, err
}

func TestResendAfterTheStoresAnswerWasLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &lostAnswer{Store: inmem.New()}
		handler, runs := obeying()
		e := start(t, engine.Config{Handler: handler, Store: s, Lease: 200 * time.Millisecond, Poll: 20 * time.Millisecond})
		var task string
		for i, words := range []string{"ask", "done"} {
			params := to(task, words)
			s.lose.Store(true)
			_, err := e.Send(t.Context(), alice, params, engine.SendOptions{})
			wantError(t, "Send(answer lost)", err, a2a.CodeUnavailable)
			sent := mustSend(t, e, params, engine.SendOptions{Wait: true})
			if task = sent.Task.Key.ID; len(sent.Task.History) != 2*i+2 && words == "ask" {
				t.Errorf("history has %d messages after %q", len(sent.Task.History), words)
			}
		}
		list, err := e.List(t.Context(), alice, a2a.ListTasksParams{HistoryLength: ptr(9)})
		if err != nil || len(list.Tasks) != 1 || len(list.Tasks[0].History) != 4 || runs.Load() != 2 {
			t.Errorf("List() = %d tasks, %v; the handler ran %d times; want one task with 4 messages and 2 runs", len(list.Tasks), err, runs.Load())
		}
	})
}

// A database may have committed the first message without being able to make it durable.
func TestResendIsAcknowledgedOnlyAfterADurableWrite(t *testing.T) {
	t.Parallel()
	var stuck atomic.Bool
	e := start(t, engine.Config{Handler: obey, Store: storetest.Faulty(replicas{inmem.New()}, func(c storetest.Call) storetest.Fault {
		if c.Method == "Ping" && stuck.Load() {
			return storetest.FailBefore
		}
		return storetest.Pass
	})})
	params := text("ask")
	first := mustSend(t, e, params, engine.SendOptions{Wait: true})
	reply := to(first.Task.Key.ID, "x")
	second := mustSend(t, e, reply, engine.SendOptions{Wait: true})
	stuck.Store(true)
	for _, p := range []a2a.MessageSendParams{params, reply} {
		if sent, err := e.Send(t.Context(), alice, p, engine.SendOptions{Wait: true}); err == nil {
			t.Errorf("Send(again) = %+v while the store cannot write, want an error", sent.Task)
		}
	}
	stuck.Store(false)
	wantSame(t, e, params, engine.SendOptions{Wait: true}, first)
	wantSame(t, e, reply, engine.SendOptions{Wait: true}, second)
}
