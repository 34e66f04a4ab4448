package server_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/server"
)

// stepHandler returns a handler that reports each received number as status and completes the task
// when the channel is closed.
func stepHandler(next <-chan int) engine.Handler {
	return func(ctx context.Context, turn *engine.Turn) error {
		for {
			select {
			case n, ok := <-next:
				if !ok {
					return turn.Reply()
				}
				if err := turn.Status(fmt.Sprint(n)); err != nil {
					return err
				}
				if err := turn.Flush(); err != nil {
					return err
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

func TestStreamSendsTaskThenEvents(t *testing.T) {
	t.Parallel()
	e := start(t, echo, nil)
	s := e.open("message/stream", params(message("hi")))
	if got := s.resp.Header; got.Get("Cache-Control") != "no-store" || got.Get("X-Accel-Buffering") != "no" {
		t.Errorf("headers = %v, want Cache-Control: no-store and X-Accel-Buffering: no", got)
	}
	events := s.rest()
	var list []string
	for _, v := range events {
		view := v.view(t)
		list = append(list, fmt.Sprintf("%s %s %s %t", v.ID, view.Kind, view.Status.State, view.Final))
		if string(v.Data.ID) != `"s"` || v.Data.JSONRPC != "2.0" {
			t.Errorf("event %s is %+v, want a response to request s", v.ID, v.Data)
		}
	}
	want := "1 task submitted false, 2 status-update working false, 3 artifact-update  false, 4 status-update completed true"
	if got := strings.Join(list, ", "); got != want {
		t.Errorf("events = %s, want %s", got, want)
	}
}

func TestResubscribeReplaysMissedEvents(t *testing.T) {
	t.Parallel()
	st := newStore()
	first := startOn(t, st, echo, nil)
	all := first.open("message/stream", params(message("hi"))).rest()
	id := all[0].view(t).ID
	if err := first.engine.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}

	e := startOn(t, st, echo, nil) // after a restart
	for after := range len(all) + 1 {
		s := e.open("tasks/resubscribe", fmt.Sprintf(`{"id":%q}`, id), "Last-Event-ID", fmt.Sprint(after))
		got := s.rest()
		if len(got) != len(all)-after {
			t.Fatalf("after %d: %d events, want %d", after, len(got), len(all)-after)
		}
		for i, v := range got {
			if want := all[after+i]; v.ID != want.ID || !bytes.Equal(v.Data.Result, want.Data.Result) {
				t.Errorf("after %d: event %s %s\nwant %s %s", after, v.ID, v.Data.Result, want.ID, want.Data.Result)
			}
		}
	}
	whole := e.open("tasks/resubscribe", fmt.Sprintf(`{"id":%q}`, id)).rest()
	if len(whole) != 1 || whole[0].ID != "4" || whole[0].view(t).Status.State != "completed" {
		t.Errorf("without Last-Event-ID: %+v, want the current task", whole)
	}
	for _, bad := range []string{"x", "-1", "+1", "1.5", "5", "99999999999999999999", " 1 2"} {
		got := e.call("tasks/resubscribe", fmt.Sprintf(`{"id":%q}`, id), "Last-Event-ID", bad)
		if got.code() != -32602 || got.Status != http.StatusOK || got.Error.Data["field"] != "Last-Event-ID" {
			t.Errorf("Last-Event-ID %q: response = HTTP %d %s, want -32602", bad, got.Status, got.Body)
		}
	}
}

func TestResubscribeFollowsARunningTask(t *testing.T) {
	t.Parallel()
	next := make(chan int)
	e := start(t, stepHandler(next), nil)
	s := e.open("message/stream", params(message("hi")))
	task, _ := s.next()
	_, _ = s.next() // working
	next <- 1
	seen, _ := s.next()
	s.cancel()

	// No event was missed: the response starts nevertheless.
	again := e.open("tasks/resubscribe", fmt.Sprintf(`{"id":%q}`, task.view(t).ID), "Last-Event-ID", seen.ID)
	next <- 2
	close(next)
	if got := ids(again.rest()); got != "4 5" {
		t.Errorf("events after %s = %s, want 4 5", seen.ID, got)
	}
}

func TestQueuedMessageIsAnEvent(t *testing.T) {
	t.Parallel()
	next := make(chan int)
	e := start(t, stepHandler(next), nil)
	s := e.open("message/stream", params(message("hi")))
	task, _ := s.next()
	_, _ = s.next()
	e.call("message/send", params(message("more", fmt.Sprintf(`"taskId":%q`, task.view(t).ID)))).task(t)
	got, _ := s.next()
	if view := got.view(t); view.Kind != "status-update" || view.Status.State != "working" || view.Metadata["receivedMessageId"] != "m-more" || view.Final {
		t.Errorf("event = %s, want a working update with the id of the message", got.Data.Result)
	}
	close(next)
}

func TestDisconnectDoesNotCancel(t *testing.T) {
	t.Parallel()
	next := make(chan int)
	e := start(t, stepHandler(next), nil)
	s := e.open("message/stream", params(message("hi")))
	task, _ := s.next()
	s.cancel()
	_ = s.resp.Body.Close()
	next <- 1
	next <- 2
	close(next)
	id := fmt.Sprintf(`{"id":%q}`, task.view(t).ID)
	rest := e.open("tasks/resubscribe", id, "Last-Event-ID", task.ID).rest()
	if last := rest[len(rest)-1].view(t); last.Status.State != "completed" || !last.Final {
		t.Errorf("last event = %+v, want completed", last)
	}
}

func TestThousandStreamsOfOneTask(t *testing.T) {
	t.Parallel()
	const readers, updates = 1000, 20
	next := make(chan int)
	e := start(t, stepHandler(next), nil)
	task := e.call("message/send", params(message("hi"))).task(t)
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tasks/resubscribe","params":{"id":%q}}`, task.ID)
	var open, done sync.WaitGroup
	open.Add(readers)
	results := make(chan string, readers)
	for range readers {
		done.Go(func() {
			r := e.request(http.MethodPost, "/", body, nil)
			resp, err := e.client.Do(r)
			if open.Done(); err != nil {
				results <- err.Error()
				return
			}
			defer func() { _ = resp.Body.Close() }()
			results <- eventIDs(resp.Body)
		})
	}
	open.Wait()
	for i := range updates {
		next <- i
	}
	close(next)
	done.Wait()
	close(results)
	// The first event is the task when the reader subscribed: working, at 2 or later.
	for got := range results {
		first, _, _ := strings.Cut(got, " ")
		var want []string
		for n := 1; n <= updates+3; n++ {
			if len(want) > 0 || fmt.Sprint(n) == first {
				want = append(want, fmt.Sprint(n))
			}
		}
		if got != strings.Join(want, " ") || len(want) == 0 {
			t.Fatalf("a reader saw events %q, want all up to %d without gaps", got, updates+3)
		}
	}
}

// eventIDs returns the IDs of a stream's events.
func eventIDs(body io.Reader) string {
	var all []string
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			all = append(all, id)
		}
	}
	if err := lines.Err(); err != nil {
		return err.Error()
	}
	return strings.Join(all, " ")
}

func TestStreamLimit(t *testing.T) {
	t.Parallel()
	next := make(chan int)
	e := start(t, stepHandler(next), func(c *server.Config) { c.Requests.MaxStreams = 1 })
	s := e.open("message/stream", params(message("hi")))
	task, _ := s.next()
	got := e.call("message/stream", params(message("two")))
	if got.Status != http.StatusTooManyRequests || got.code() != -32052 || got.Header.Get("Retry-After") == "" {
		t.Errorf("response = HTTP %d %s, want 429 with Retry-After and -32052", got.Status, got.Body)
	}
	if list := e.call("tasks/list", `{}`); strings.Contains(string(list.Result), "m-two") {
		t.Errorf("tasks/list = %s, want no task of the refused message", list.Result)
	}
	close(next)
	s.rest()
	for { // the slot is free when the server notices the end of the stream
		if got := e.call("tasks/resubscribe", fmt.Sprintf(`{"id":%q}`, task.view(t).ID)); got.Status == http.StatusOK {
			return
		}
	}
}

func TestHeartbeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		next := make(chan int)
		e := startEngine(t, newStore(), stepHandler(next), nil)
		_, stop := e.servePipe(t)
		defer stop()
		s := e.open("message/stream", params(message("hi")))
		_, _ = s.next()
		_, _ = s.next()
		go func() {
			time.Sleep(50 * time.Second)
			next <- 1
			time.Sleep(5 * time.Second)
			close(next)
		}()
		started := time.Now()
		_, _ = s.next()
		if s.comments != 3 || time.Since(started) != 50*time.Second {
			t.Errorf("%d heartbeats in %s, want 3 in 50s", s.comments, time.Since(started))
		}
		s.rest()
		if s.comments != 3 {
			t.Errorf("%d heartbeats, want still 3: events postpone heartbeats", s.comments)
		}
	})
}

func TestSlowReaderIsCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		next := make(chan int)
		e := startEngine(t, newStore(), stepHandler(next), nil)
		l, stop := e.servePipe(t)
		defer stop()
		conn, err := l.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"message/stream","params":%s}`, params(message("hi")))
		go func() {
			_, _ = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		}()
		in := bufio.NewReader(conn)
		for line := ""; !strings.HasPrefix(line, "data: "); {
			if line, err = in.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		// The reader stops reading. The task continues.
		for i := range 5 {
			next <- i
		}
		time.Sleep(31 * time.Second)
		left, err := io.ReadAll(in)
		if err != nil || bytes.Contains(left, []byte("\r\n0\r\n")) {
			t.Errorf("after 31 s: %v, %q, want the connection closed before the end of the response", err, left)
		}
		close(next)
		list := e.call("tasks/list", `{"includeArtifacts":true}`)
		id := strings.Split(strings.SplitAfter(string(list.Result), `"id":"`)[1], `"`)[0]
		if got := ids(e.open("tasks/resubscribe", fmt.Sprintf(`{"id":%q}`, id), "Last-Event-ID", "1").rest()); got != "2 3 4 5 6 7 8" {
			t.Errorf("events after the first = %s, want all missed events", got)
		}
	})
}

func TestBlockingTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		next := make(chan int)
		e := startEngine(t, newStore(), stepHandler(next), nil)
		_, stop := e.servePipe(t)
		defer stop()
		started := time.Now()
		task := e.send("hi")
		if took := time.Since(started); took != 5*time.Minute || task.Status.State != "working" {
			t.Errorf("response %s after %s, want the current task after 5m", task.Status.State, took)
		}
		close(next)
	})
}

func TestBlockingRequestEndsWhenClientDisconnects(t *testing.T) {
	t.Parallel()
	next := make(chan int)
	e := start(t, stepHandler(next), nil)
	ctx, cancel := context.WithCancel(t.Context())
	r := e.request(http.MethodPost, "/", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"message/send","params":%s}`, params(message("hi"), blocking)), nil)
	done := make(chan error, 1)
	go func() {
		resp, err := e.client.Do(r.WithContext(ctx))
		if err == nil {
			_ = resp.Body.Close()
		}
		done <- err
	}()
	next <- 1
	cancel()
	if err := <-done; err == nil {
		t.Error("the request succeeded, want it canceled")
	}
	next <- 2
	close(next)
}

// flushSpy records the output before the first flush.
type flushSpy struct {
	*httptest.ResponseRecorder
	first string
}

func (w *flushSpy) Flush() {
	if w.first == "" {
		w.first = w.Body.String()
	}
}

// The commit that adds the message also starts the turn, so the first flush has both events.
func TestStreamStartsWithAllCommittedEvents(t *testing.T) {
	t.Parallel()
	e := startEngine(t, newStore(), echo, nil)
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"message/stream","params":%s}`, params(message("hi")))
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := &flushSpy{ResponseRecorder: httptest.NewRecorder()}
	e.server.ServeHTTP(w, r)
	if n := strings.Count(w.first, "data: "); n < 2 {
		t.Errorf("first flushed: %d events, %q, want the task and the working update", n, w.first)
	}
	if !strings.Contains(w.Body.String(), `"final":true`) {
		t.Errorf("stream = %q, want it complete", w.Body)
	}
}
