package engine_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// countingCommandHandler returns a commandHandler and the number of its runs.
func countingCommandHandler() (engine.Handler, *atomic.Int64) {
	runs := new(atomic.Int64)
	return func(ctx context.Context, turn *engine.Turn) error {
		runs.Add(1)
		return commandHandler(ctx, turn)
	}, runs
}

// wantSameAnswer checks the answer to a message that is sent again: the task directly after the
// message or, with Wait, at its next final state.
func wantSameAnswer(t *testing.T, e *engine.Engine, params a2a.MessageSendParams, opts engine.SendOptions, first *engine.Sent) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	again, err := e.Send(ctx, alice, params, opts)
	switch {
	case err != nil:
		t.Errorf("Send(again) = %v, want task %s", err, first.Task.Key.ID)
	case again.Task.Key != first.Task.Key:
		t.Errorf("Send(again) = task %s, want %s", again.Task.Key.ID, first.Task.Key.ID)
	case opts.Wait && (again.Task.Seq != first.Task.Seq || again.Task.Status.State != first.Task.Status.State):
		t.Errorf("Send(again) = event %d, %s; want %d, %s", again.Task.Seq, again.Task.Status.State, first.Task.Seq, first.Task.Status.State)
	case first.First == nil || again.First == nil: // a caller that waited may have none
	case again.First.Seq != first.First.Seq || again.First.Status.State != first.First.Status.State:
		t.Errorf("Send(again) starts with event %d, %s; want %d, %s",
			again.First.Seq, again.First.Status.State, first.First.Seq, first.First.Status.State)
	}
}

func mustSend(t *testing.T, e *engine.Engine, params a2a.MessageSendParams, opts engine.SendOptions) *engine.Sent {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	sent, err := e.Send(ctx, alice, params, opts)
	if err != nil {
		t.Fatalf("Send() = %v", err)
	}
	return sent
}

func TestResentMessageChangesNothing(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		handler, runs := countingCommandHandler()
		e := start(t, engine.Config{Handler: handler, Store: s})
		wait := engine.SendOptions{Wait: true}
		task := sendWait(t, e, message("ask"))
		// The task either waits again or finishes.
		for i, words := range []string{"ask", "done"} {
			reply := messageTo(task.Key.ID, words)
			if i == 0 {
				reply.Message.ID = "msg-0" // any form of id
			}
			reply.Metadata = map[string]any{"n": float64(i), "a": "b"}
			first := mustSend(t, e, reply, wait)
			log := checkLog(t, s, task.Key)
			for range 2 {
				wantSameAnswer(t, e, reply, wait, first)
				wantSameAnswer(t, e, reply, engine.SendOptions{}, first)
				wantSameAnswer(t, e, reply, engine.SendOptions{IdempotencyKey: "unused"}, first)
				reply.Message.ContextID = task.ContextID
			}
			for what, change := range map[string]func(*a2a.MessageSendParams){
				"text":     func(p *a2a.MessageSendParams) { p.Message.Parts = []a2a.Part{a2a.TextPart{Text: "other"}} },
				"metadata": func(p *a2a.MessageSendParams) { p.Metadata = map[string]any{"n": float64(i), "a": "c"} },
			} {
				other := reply
				if change(&other); i == 0 {
					continue // see TestReusedMessageIDIsANewMessage
				}
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

func TestResentMessageIsDeliveredOnceToRunningTask(t *testing.T) {
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
		task := send(t, e, message("go"))
		more := messageTo(task.Key.ID, "more")
		for range 3 {
			mustSend(t, e, more, engine.SendOptions{})
		}
		done := sendWait(t, e, messageTo(task.Key.ID, "end"))
		if len(done.History) != 3 || strings.Join(got, " ") != "go more end" {
			t.Errorf("history has %d messages, the handler received %q; want 3, and each once", len(done.History), got)
		}
	})
}

func TestFirstMessageIsRecognizedByTaskID(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		handler, runs := countingCommandHandler()
		e := start(t, engine.Config{Handler: handler, Store: s})
		params := message("x")
		params.Message.ID = "msg-1"
		first := mustSend(t, e, params, engine.SendOptions{Wait: true})
		params.Message.TaskID = first.Task.Key.ID
		wantSameAnswer(t, e, params, engine.SendOptions{Wait: true}, first)
		if n := runs.Load(); n != 1 {
			t.Errorf("the handler ran %d times, want once", n)
		}
	})
}

func TestResentFirstMessageReturnsSameTask(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		handler, runs := countingCommandHandler()
		e := start(t, engine.Config{Handler: handler, Store: s})
		params := message("x")
		params.Message.ContextID = "c"
		params.Metadata = map[string]any{"a": 1.0, "b": "c"}
		wait := engine.SendOptions{Wait: true}
		first := mustSend(t, e, params, wait)
		again := params
		again.Configuration = &a2a.MessageSendConfiguration{AcceptedOutputModes: []string{"text/plain"}}
		again.Metadata = maps.Clone(params.Metadata)
		wantSameAnswer(t, e, again, wait, first)
		wantSameAnswer(t, e, again, engine.SendOptions{}, first)
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
				wantSameAnswer(t, e, other, wait, sent)
			}
		}
		bob, err := e.Send(t.Context(), a2a.Principal{ID: "bob"}, params, engine.SendOptions{})
		if err != nil || bob.Task.Key.Owner != "bob" {
			t.Errorf("Send(by another owner) = %+v, %v; want a task of their own", bob, err)
		}
		keyed := engine.SendOptions{Wait: true, IdempotencyKey: "k"}
		sent := mustSend(t, e, params, keyed)
		if sent.Task.Key == first.Task.Key {
			t.Error("Send(with an Idempotency-Key) = the same task, want another task, identified by the key")
		}
		wantSameAnswer(t, e, params, keyed, sent)
	})
}

func TestNonUniqueMessageIDsAreNotMatched(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Config{Handler: commandHandler})
	for _, id := range []string{"msg-1", "1", strings.ReplaceAll(newID(), "-", ""), "00000000-0000-0000-0000-000000000000"} {
		params := message("x")
		params.Message.ID = id
		if a, b := send(t, e, params), send(t, e, params); a.Key == b.Key {
			t.Errorf("messages %q started one task, want two", id)
		}
	}
}

// Clients without unique ids use one id for several messages of a task.
func TestReusedMessageIDIsANewMessage(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		e := start(t, engine.Config{Handler: commandHandler, Store: s})
		task := sendWait(t, e, message("ask"))
		var texts []string
		for i, words := range []string{"ask", "ask", "done"} {
			reply := messageTo(task.Key.ID, words)
			reply.Message.ID, reply.Metadata = "msg-1", map[string]any{"n": float64(i)}
			task = sendWait(t, e, reply)
		}
		for _, entry := range task.History {
			if entry.Received && entry.Message.ID == "msg-1" {
				texts = append(texts, entry.Message.Text())
			}
		}
		if want := []string{"ask", "ask", "done"}; !slices.Equal(texts, want) {
			t.Errorf("messages with the id = %q, want %q", texts, want)
		}
	})
}

func TestConcurrentResendsStartOneTask(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		handler, runs := countingCommandHandler()
		e := start(t, engine.Config{Handler: handler, Store: s})
		wantOneTask(t, message("x"), e)
		if n := runs.Load(); n != 1 {
			t.Errorf("the handler ran %d times, want once", n)
		}
	})
}

// wantOneTask sends a message 50 times concurrently to engines, and checks that one task
// answers.
func wantOneTask(t *testing.T, params a2a.MessageSendParams, engines ...*engine.Engine) (id string) {
	t.Helper()
	var ids sync.Map
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
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

func TestMessageIDExpiresAfter30Days(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := start(t, engine.Config{Handler: commandHandler, Turns: engine.Turns{Poll: time.Hour, Lease: time.Hour}})
		params := message("x")
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

func TestResendAfterRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	handler, runs := countingCommandHandler()
	params, reply := message("ask"), message("done")
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
		wantSameAnswer(t, e, params, wait, first)
		wantSameAnswer(t, e, reply, wait, second)
	})
	if n := runs.Load(); n != 2 {
		t.Errorf("the handler ran %d times, want twice", n)
	}
}

// A repeat is answered even if the queue is full or its webhook would now be rejected.
func TestResentMessageIsAnsweredWhenQueueIsFull(t *testing.T) {
	t.Parallel()
	held, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	e := start(t, engine.Config{
		Turns: engine.Turns{Concurrency: 1}, Limits: engine.Limits{Queued: 1},
		Handler: func(_ context.Context, turn *engine.Turn) error {
			once.Do(func() {
				close(held)
				<-release
			})
			return turn.Reply()
		},
	})
	t.Cleanup(func() { close(release) })
	errRejected := errors.New("no webhooks are accepted")
	rejecting := engine.SendOptions{Webhook: func(context.Context, store.Key, int64) ([]store.NewWebhook, error) { return nil, errRejected }}
	running, waiting := message("runs"), message("waits")
	first := mustSend(t, e, running, engine.SendOptions{})
	<-held
	second := mustSend(t, e, waiting, engine.SendOptions{})
	wantSameAnswer(t, e, running, rejecting, first)
	wantSameAnswer(t, e, waiting, engine.SendOptions{}, second)
	_, err := e.Send(t.Context(), alice, message("other"), engine.SendOptions{})
	wantError(t, "Send(other)", err, a2a.CodeExhausted)
}

func TestMessageIDExpiresWithTask(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		e := start(t, engine.Config{Handler: commandHandler, Store: s})
		params := messageIn("c", "x")
		first := sendWait(t, e, params)
		if _, err := clearContext(t, e, "c", false); err != nil {
			t.Fatal(err)
		}
		if again := sendWait(t, e, params); again.Key == first.Key {
			t.Error("Send(after the context was cleared) = the deleted task, want another")
		}
	})
}

// lostAnswerStore is a store that commits the next change but returns an error.
type lostAnswerStore struct {
	store.Store
	lose atomic.Bool
}

func (s *lostAnswerStore) Commit(ctx context.Context, changes ...store.Change) ([]store.Result, error) {
	results, err := s.Store.Commit(ctx, changes...)
	if s.lose.CompareAndSwap(true, false) {
		return nil, a2a.Errorf(a2a.CodeUnavailable, "connection lost")
	}
	return results, err
}

func TestResendAfterLostAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &lostAnswerStore{Store: inmem.New()}
		handler, runs := countingCommandHandler()
		e := start(t, engine.Config{Handler: handler, Store: s, Turns: engine.Turns{Lease: 200 * time.Millisecond, Poll: 20 * time.Millisecond}})
		var task string
		for i, words := range []string{"ask", "done"} {
			params := messageTo(task, words)
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

// A database may have committed the first message but failed to make it durable.
func TestResendIsAcknowledgedOnlyAfterDurableWrite(t *testing.T) {
	t.Parallel()
	var stuck atomic.Bool
	e := start(t, engine.Config{Handler: commandHandler, Store: storetest.Faulty(sharedStore{inmem.New()}, func(c storetest.Call) storetest.Fault {
		if c.Method == "Ping" && stuck.Load() {
			return storetest.FailBefore
		}
		return storetest.Pass
	})})
	params := message("ask")
	first := mustSend(t, e, params, engine.SendOptions{Wait: true})
	reply := messageTo(first.Task.Key.ID, "x")
	second := mustSend(t, e, reply, engine.SendOptions{Wait: true})
	stuck.Store(true)
	for _, p := range []a2a.MessageSendParams{params, reply} {
		if sent, err := e.Send(t.Context(), alice, p, engine.SendOptions{Wait: true}); err == nil {
			t.Errorf("Send(again) = %+v while the store cannot write, want an error", sent.Task)
		}
	}
	stuck.Store(false)
	wantSameAnswer(t, e, params, engine.SendOptions{Wait: true}, first)
	wantSameAnswer(t, e, reply, engine.SendOptions{Wait: true}, second)
}
