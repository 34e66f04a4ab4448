package server_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-dev/holdfast/engine"
)

// askOnce returns a handler that asks for input once, and counts its executions.
func askOnce() (engine.Handler, *atomic.Int64) {
	runs := new(atomic.Int64)
	return func(_ context.Context, turn *engine.Turn) error {
		runs.Add(1)
		if turn.Number() == 1 {
			return turn.RequireInput()
		}
		return turn.Reply()
	}, runs
}

func TestResentMessagesReturnTheFirstResult(t *testing.T) {
	t.Parallel()
	handler, runs := askOnce()
	e := start(t, handler, twoTokens)
	alice := as("alice")
	body := params(messageWithUUID("a"), blocking, `"metadata":{"a":1,"b":[true]}`)
	first := e.call("message/send", body, alice...)
	task := first.task(t)
	// The order of members, spaces, the case of names and the configuration are irrelevant.
	respelled := `{"metadata" : {"b":[true], "a":1.0}, "message":{"parts":[{"text":"a","kind":"text"}],"role":"user","message_id":"6f1c9f56-58a1-4d0e-9d0b-0c1d8a6f3c11"},` +
		`"configuration":{"blocking":true,"acceptedOutputModes":["text/plain"]}}`
	for _, again := range []string{body, respelled} {
		if got := e.call("message/send", again, alice...); string(got.Result) != string(first.Result) {
			t.Errorf("the repeated message = %s, want the first response %s", got.Body, first.Result)
		}
	}
	events := e.open("message/stream", body, alice...).rest()
	if len(events) == 0 || events[0].view(t).ID != task.ID || events[len(events)-1].view(t).Status.State != "input-required" {
		t.Errorf("the repeated message as a stream = %v, want the stream of task %s", events, task.ID)
	}

	answer := params(message("b", fmt.Sprintf(`"taskId":%q`, task.ID)), blocking)
	second := e.call("message/send", answer, alice...)
	full := params(message("b", fmt.Sprintf(`"taskId":%q,"contextId":%q`, task.ID, task.ContextID)), blocking)
	for _, again := range []string{answer, full} {
		if got := e.call("message/send", again, alice...); string(got.Result) != string(second.Result) || got.code() != 0 {
			t.Errorf("the repeated answer = %s, want the first response %s", got.Body, second.Result)
		}
	}
	events = e.open("message/stream", answer, alice...).rest()
	if len(events) == 0 || events[0].view(t).ID != task.ID || events[len(events)-1].view(t).Status.State != "completed" {
		t.Errorf("the repeated answer as a stream = %v, want the whole stream of task %s", events, task.ID)
	}
	other := e.call("message/send", strings.Replace(answer, `"text":"b"`, `"text":"c"`, 1), alice...)
	if other.code() != -32004 {
		t.Errorf("other content, same messageId = %s, want -32004 like any new message to the finished task", other.Body)
	}
	if n := runs.Load(); n != 2 {
		t.Errorf("the handler ran %d times, want twice", n)
	}
	if bobs := e.call("message/send", body, as("bob")...).task(t); bobs.ID == task.ID {
		t.Error("Bob's message with the same ID returned Alice's task")
	}
}

func TestConcurrentResendsByCallAndStream(t *testing.T) {
	t.Parallel()
	handler, runs := askOnce()
	e := start(t, handler, nil)
	ts := httptest.NewServer(e.server)
	t.Cleanup(ts.Close)
	e.url, e.client = ts.URL, ts.Client()
	body := params(messageWithUUID("a"), blocking)
	var ids sync.Map
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			if i%2 == 0 {
				ids.Store(e.call("message/send", body).task(t).ID, true)
				return
			}
			events := e.open("message/stream", body).rest()
			if len(events) == 0 || !events[len(events)-1].view(t).Final {
				t.Errorf("stream of a repeat = %v, want it to end with the final update", events)
				return
			}
			ids.Store(events[0].view(t).ID, true)
		})
	}
	wg.Wait()
	n := 0
	ids.Range(func(any, any) bool { n++; return true })
	if n != 1 || runs.Load() != 1 {
		t.Errorf("50 requests with one message returned %d tasks and ran the handler %d times, want one", n, runs.Load())
	}
}
