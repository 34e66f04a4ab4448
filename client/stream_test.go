package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/client"
)

// exchange is a request that a script expects, and its response.
type exchange struct {
	method, lastID string
	// stream is the body of a text/event-stream, and body is the body of a JSON-RPC response.
	stream, body string
	// reset ends the body with an error.
	reset bool
	err   error
}

// script is a RoundTripper that plays exchanges in order.
type script struct {
	t     *testing.T
	steps []exchange
	seen  []string
}

var errReset = errors.New("connection reset")

func (s *script) RoundTrip(req *http.Request) (*http.Response, error) {
	var c call
	if err := json.NewDecoder(req.Body).Decode(&c); err != nil {
		s.t.Errorf("request: %v", err)
	}
	s.seen = append(s.seen, string(c.Params))
	if len(s.steps) == 0 {
		s.t.Errorf("unexpected %s %s", c.Method, c.Params)
		return nil, errReset
	}
	step := s.steps[0]
	s.steps = s.steps[1:]
	if got := req.Header.Get("Last-Event-ID"); c.Method != step.method || got != step.lastID {
		s.t.Errorf("request %s after %q, want %s after %q", c.Method, got, step.method, step.lastID)
	}
	if step.err != nil {
		return nil, step.err
	}
	resp := &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Request: req}
	text := step.body
	if step.stream != "" {
		resp.Header.Set("Content-Type", "text/event-stream; charset=utf-8")
		text = step.stream
	}
	var body io.Reader = strings.NewReader(text)
	if step.reset {
		body = io.MultiReader(body, resetReader{})
	}
	resp.Body = io.NopCloser(body)
	return resp, nil
}

type resetReader struct{}

func (resetReader) Read([]byte) (int, error) { return 0, errReset }

func event(id, result string) string {
	text := `data: {"jsonrpc":"2.0","id":1,"result":` + result + "}\n\n"
	if id != "" {
		text = "id: " + id + "\n" + text
	}
	return text
}

func status(state string, final bool) string {
	return fmt.Sprintf(`{"kind":"status-update","taskId":"t1","contextId":"c1","status":{"state":%q},"final":%t}`, state, final)
}

func taskIn(state string) string {
	return fmt.Sprintf(`{"kind":"task","id":"t1","contextId":"c1","status":{"state":%q}}`, state)
}

func rpcResult(result string) string { return `{"jsonrpc":"2.0","id":1,"result":` + result + `}` }

func rpcFailure(code int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"error":{"code":%d,"message":"no"}}`, code)
}

// play runs a stream against a script and returns the yielded updates.
func play(t *testing.T, steps []exchange, follow func(context.Context, *client.Client) func(func(client.Update, error) bool)) (got []string, reconnects []client.Reconnect, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &script{t: t, steps: steps}
		c := newClient(t, client.Config{
			URL: "http://agent.test/", HTTPClient: &http.Client{Transport: s}, Reconnects: 3,
			OnReconnect: func(r client.Reconnect) { reconnects = append(reconnects, r) },
		})
		for u, e := range follow(t.Context(), c) {
			if e != nil {
				err = e
				continue
			}
			got = append(got, u.ID+" "+describe(u.Event))
			if !json.Valid(u.Raw) {
				t.Errorf("Raw = %q, want JSON", u.Raw)
			}
		}
		if len(s.steps) > 0 {
			t.Errorf("%d exchanges remain, want none", len(s.steps))
		}
	})
	return got, reconnects, err
}

func describe(e a2a.Event) string {
	switch e := e.(type) {
	case *a2a.Task:
		return "task " + string(e.Status.State)
	case *a2a.Message:
		return "message"
	case *a2a.TaskStatusUpdateEvent:
		return string(e.Status.State)
	case *a2a.TaskArtifactUpdateEvent:
		return "artifact " + e.Artifact.Text()
	}
	return "?"
}

func stream(key string) func(context.Context, *client.Client) func(func(client.Update, error) bool) {
	return func(ctx context.Context, c *client.Client) func(func(client.Update, error) bool) {
		return c.Stream(ctx, client.SendParams{Message: client.Text("hi"), IdempotencyKey: key})
	}
}

func resubscribe(last string) func(context.Context, *client.Client) func(func(client.Update, error) bool) {
	return func(ctx context.Context, c *client.Client) func(func(client.Update, error) bool) {
		return c.Resubscribe(ctx, "t1", last)
	}
}

func TestStreams(t *testing.T) {
	t.Parallel()
	const send, again, get = "message/stream", "tasks/resubscribe", "tasks/get"
	start := event("1", taskIn("submitted")) + event("2", status("working", false))
	tests := []struct {
		name       string
		follow     func(context.Context, *client.Client) func(func(client.Update, error) bool)
		steps      []exchange
		want       []string
		code       a2a.Code
		reconnects int
	}{
		{
			"until the final event", stream(""),
			[]exchange{{method: send, stream: start + event("3", status("completed", true)) + "garbage"}},
			[]string{"1 task submitted", "2 working", "3 completed"},
			"", 0,
		},
		{
			"a message ends it", stream(""),
			[]exchange{{method: send, stream: event("", `{"kind":"message","messageId":"m","role":"agent","parts":[]}`)}},
			[]string{" message"},
			"", 0,
		},
		{
			"a lost connection", stream(""),
			[]exchange{
				{method: send, stream: start + "id: 3\ndata: {\"jsonr", reset: true},
				{method: again, lastID: "2", stream: event("3", status("completed", true))},
			},
			[]string{"1 task submitted", "2 working", "3 completed"},
			"", 1,
		},
		{
			"a server that restarts", stream(""),
			[]exchange{
				{method: send, stream: start, reset: true},
				{method: again, lastID: "2", err: errReset},
				{method: again, lastID: "2", body: rpcFailure(-32053)},
				{method: again, lastID: "2", stream: event("3", status("working", false)), reset: true},
				{method: again, lastID: "3", stream: event("4", status("completed", true))},
			},
			[]string{"1 task submitted", "2 working", "3 working", "4 completed"},
			"", 4,
		},
		{
			"a stopping server sends an error in the stream", stream(""),
			[]exchange{
				{method: send, stream: start + "data: " + rpcFailure(-32053) + "\n\n"},
				{method: again, lastID: "2", stream: event("3", status("completed", true))},
			},
			[]string{"1 task submitted", "2 working", "3 completed"},
			"", 1,
		},
		{
			"a server that does not return", stream(""),
			[]exchange{{method: send, stream: start, reset: true}, {method: again, lastID: "2", err: errReset}, {method: again, lastID: "2", err: errReset}, {method: again, lastID: "2", err: errReset}},
			[]string{"1 task submitted", "2 working"},
			a2a.CodeUnavailable, 3,
		},
		{
			"a server that lost the task", stream(""),
			[]exchange{{method: send, stream: start, reset: true}, {method: again, lastID: "2", body: rpcFailure(-32001)}, {method: get, body: rpcFailure(-32001)}},
			[]string{"1 task submitted", "2 working"},
			a2a.CodeTaskNotFound, 1,
		},
		{
			"a normal end before the final event", stream(""),
			[]exchange{{method: send, stream: start}, {method: get, body: rpcResult(taskIn("working"))}, {method: again, lastID: "2", stream: event("3", status("failed", true))}},
			[]string{"1 task submitted", "2 working", "3 failed"},
			"", 1,
		},
		{
			"a normal end before the final event, and the task finishes", stream(""),
			[]exchange{{method: send, stream: start}, {method: get, body: rpcResult(taskIn("completed"))}, {method: again, lastID: "2", stream: event("3", status("completed", true))}},
			[]string{"1 task submitted", "2 working", "3 completed"},
			"", 1,
		},
		{
			"a normal end after the last update", stream(""),
			[]exchange{
				{method: send, stream: start},
				{method: get, body: rpcResult(taskIn("completed"))},
				{method: again, lastID: "2", stream: ": ok\n\n"},
				{method: get, body: rpcResult(taskIn("completed"))},
			},
			[]string{"1 task submitted", "2 working"},
			"", 1,
		},
		{
			"a normal end without event ids", stream(""),
			[]exchange{{method: send, stream: event("", taskIn("working"))}, {method: get, body: rpcResult(taskIn("completed"))}},
			[]string{" task working", " task completed"},
			"", 0,
		},
		{
			"a server that cannot resubscribe to a finished task", stream(""),
			[]exchange{{method: send, stream: event("", taskIn("working")), reset: true}, {method: again, body: rpcFailure(-32004)}, {method: get, body: rpcResult(taskIn("completed"))}},
			[]string{" task working", " task completed"},
			"", 1,
		},
		{
			"a final state without the final flag", stream(""),
			[]exchange{{method: send, stream: start + event("3", status("completed", false)), reset: true}},
			[]string{"1 task submitted", "2 working", "3 completed"},
			"", 0,
		},
		{
			"a message is not sent twice", stream(""),
			[]exchange{{method: send, err: errReset}},
			nil, a2a.CodeUnavailable, 0,
		},
		{
			"a message with an idempotency key is resent", stream("k"),
			[]exchange{{method: send, err: errReset}, {method: send, stream: ": nothing\n\n", reset: true}, {method: send, stream: start + event("3", status("completed", true))}},
			[]string{"1 task submitted", "2 working", "3 completed"},
			"", 2,
		},
		{
			"a rejected message", stream("k"),
			[]exchange{{method: send, body: rpcFailure(-32602)}},
			nil, a2a.CodeInvalid, 0,
		},
		{
			"an answer without a stream", stream(""),
			[]exchange{{method: send, body: rpcResult(taskIn("completed"))}},
			nil, a2a.CodeInvalidAgentResponse, 0,
		},
		{
			"unknown kinds and event names are skipped", stream(""),
			[]exchange{{method: send, stream: start + event("3", `{"kind":"timeline"}`) + "event: ping\ndata: x\n\n" + event("4", status("completed", true))}},
			[]string{"1 task submitted", "2 working", "4 completed"},
			"", 0,
		},
		{
			"an invalid event", stream(""),
			[]exchange{{method: send, stream: start + event("3", `{"kind":"task"}`)}, {method: get, body: rpcFailure(-32601)}},
			[]string{"1 task submitted", "2 working"},
			a2a.CodeInvalidAgentResponse, 0,
		},
		{
			"resubscribe", resubscribe(""),
			[]exchange{{method: again, stream: event("7", taskIn("completed"))}},
			[]string{"7 task completed"},
			"", 0,
		},
		{
			"resubscribe after the last event", resubscribe("7"),
			[]exchange{{method: again, lastID: "7", stream: ": ok\n\n"}, {method: get, body: rpcResult(taskIn("completed"))}},
			nil, "", 0,
		},
		{
			"resubscribe to a missing task", resubscribe("7"),
			[]exchange{{method: again, lastID: "7", body: rpcFailure(-32001)}, {method: get, body: rpcFailure(-32001)}},
			nil, a2a.CodeTaskNotFound, 0,
		},
		{
			"resubscribe to a finished task of a server that rejects it", resubscribe(""),
			[]exchange{{method: again, body: rpcFailure(-32004)}, {method: get, body: rpcResult(taskIn("completed"))}},
			[]string{" task completed"},
			"", 0,
		},
		{
			"ids that are not numbers, and a subscription that does not start with the task", stream(""),
			[]exchange{
				{method: send, stream: event("a", taskIn("submitted")), reset: true},
				{method: again, lastID: "a", stream: event("b", status("completed", true))},
				{method: get, body: rpcResult(taskIn("completed"))},
			},
			[]string{"a task submitted", "b completed", " task completed"},
			"", 1,
		},
		{
			"ids that are not numbers, and a subscription that starts with the task", stream(""),
			[]exchange{
				{method: send, stream: event("a", taskIn("submitted")), reset: true},
				{method: again, lastID: "a", stream: event("b", taskIn("working")) + event("c", status("completed", true))},
			},
			[]string{"a task submitted", "b task working", "c completed"},
			"", 1,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, reconnects, err := play(t, tt.steps, tt.follow)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("updates (-want +got):\n%s", diff)
			}
			if (err != nil) != (tt.code != "") || (err != nil && a2a.CodeOf(err) != tt.code) {
				t.Errorf("error = %v (code %s), want code %q", err, a2a.CodeOf(err), tt.code)
			}
			if len(reconnects) != tt.reconnects {
				t.Errorf("%d reconnects (%v), want %d", len(reconnects), reconnects, tt.reconnects)
			}
		})
	}
}

func TestReconnectDelayGrowsWithinBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		steps := []exchange{{method: "tasks/resubscribe", stream: "retry: 2000\n\n" + event("1", taskIn("working")), reset: true}}
		for range 10 {
			steps = append(steps, exchange{method: "tasks/resubscribe", lastID: "1", err: errReset})
		}
		var delays []time.Duration
		c := newClient(t, client.Config{
			URL: "http://agent.test/", HTTPClient: &http.Client{Transport: &script{t: t, steps: steps}}, Reconnects: 10,
			OnReconnect: func(r client.Reconnect) {
				if r.TaskID != "t1" || r.Attempt != len(delays)+1 || r.Err == nil {
					t.Errorf("OnReconnect(%+v), want attempt %d of t1 with an error", r, len(delays)+1)
				}
				delays = append(delays, r.Delay)
			},
		})
		started := time.Now()
		for _, err := range c.Resubscribe(t.Context(), "t1", "") {
			_ = err
		}
		if delays[0] < 2*time.Second {
			t.Errorf("first delay = %v, want at least the 2 s of the retry field", delays[0])
		}
		if last := delays[len(delays)-1]; last < 10*time.Second || last > 12500*time.Millisecond {
			t.Errorf("last delay = %v, want 10 s to 12.5 s", last)
		}
		if took := time.Since(started); took > 75*time.Second {
			t.Errorf("stream ended after %v, want about a minute", took)
		}
	})
}

func TestContextEndsAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("had enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, why)
		defer cancel()
		s := &script{t: t, steps: []exchange{{method: "tasks/resubscribe", stream: event("1", taskIn("working")), reset: true}}}
		c := newClient(t, client.Config{URL: "http://agent.test/", HTTPClient: &http.Client{Transport: s}})
		var last error
		for _, err := range c.Resubscribe(ctx, "t1", "") {
			last = err
		}
		if !errors.Is(last, why) {
			t.Errorf("stream ends with %v, want the cause of its context", last)
		}
	})
}

func TestBreakingOutOfAStreamClosesTheConnection(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	url := serve(t, func(w http.ResponseWriter, _ call) {
		defer close(gone)
		w.Header().Set("Content-Type", "text/event-stream")
		rc := http.NewResponseController(w)
		for i := range 1_000_000 {
			if _, err := io.WriteString(w, event(fmt.Sprint(i+1), taskIn("working"))); err != nil || rc.Flush() != nil {
				return
			}
		}
		t.Error("the connection is still open")
	})
	for _, err := range newClient(t, client.Config{URL: url}).Stream(t.Context(), client.SendParams{Message: client.Text("hi")}) {
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	<-gone
}

func TestTooLargeEventEndsTheStream(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, _ call) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write(append([]byte("data: "), bytes.Repeat([]byte("x"), 1<<20)...))
	})
	for _, err := range newClient(t, client.Config{URL: url, MaxResponseBytes: 1 << 16}).Resubscribe(t.Context(), "t1", "") {
		if a2a.CodeOf(err) != a2a.CodeTooLarge {
			t.Errorf("stream ends with %v, want code %s", err, a2a.CodeTooLarge)
		}
	}
}
