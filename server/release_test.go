package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/memory"
	"github.com/holdfast-dev/holdfast/rpc"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/store"
)

// serve responds to a request without a connection. The URL may be a path on localhost.
func (e *env) serve(verb, url, body string, h ...string) *httptest.ResponseRecorder {
	e.t.Helper()
	if strings.HasPrefix(url, "/") {
		url = "http://localhost" + url
	}
	r := httptest.NewRequestWithContext(e.t.Context(), verb, url, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	headers(h).set(r)
	w := httptest.NewRecorder()
	e.server.ServeHTTP(w, r)
	return w
}

// stopEngine stops the engine in a bubble.
func (e *env) stopEngine() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = e.engine.Stop(ctx)
}

// withShortID replaces the id of a message with a long text.
func withShortID(message string) string {
	return idForm.ReplaceAllString(message, `"messageId":"m"`)
}

var idForm = regexp.MustCompile(`"messageId":"[^"]*"`)

// request returns a JSON-RPC request.
func request(method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)
}

// Each response releases the memory of the request and of the response, however the call ends.
func TestResponsesReleaseTheirMemory(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	budget := memory.New(8 * limit)
	e := startEngine(t, newStore(), echo, func(c *server.Config) { c.Memory, c.Requests.MaxBodyBytes = budget, limit })
	text := strings.Repeat("x", limit/4)
	v10, short := `{`+withShortID(restMessage(text))+`}`, withShortID(message(text))
	id := "00000000-0000-4000-8000-000000000001"
	named := strings.Replace(short, `"role"`, fmt.Sprintf(`"taskId":%q,"contextId":%q,"role"`, id, id), 1)
	absent := strings.Replace(short, `"role"`, `"taskId":"absent","role"`, 1)
	get := request("tasks/get", `{"id":"`+id+`"}`)
	for _, test := range []struct {
		name, verb, path, body string
		length                 int64 // -1: unknown
		want                   string
	}{
		{"a call", "POST", "/", request("message/send", params(named, blocking)), 0, `"state":"completed"`},
		{"a read", "POST", "/", get, 0, text},
		{"a stream", "POST", "/", request("message/stream", params(short)), 0, `"final":true`},
		{"a failed call", "POST", "/", request("message/send", params(absent)), 0, "-32001"},
		{"a failed stream", "POST", "/", request("message/stream", params(absent)), 0, "-32001"},
		{"an unknown method", "POST", "/", request("nope", `{"x":"`+text+`"}`), 0, "-32601"},
		{"invalid params", "POST", "/", request("tasks/get", `{"x":"`+text+`"}`), 0, "-32602"},
		{"invalid JSON", "POST", "/", `{"` + text, 0, "-32700"},
		{"a batch", "POST", "/", "[" + get + "," + get + strings.Repeat(" ", limit/4) + "]", 0, text},
		{"a body of unknown length that is too large", "POST", "/", strings.Repeat(" ", limit+1), -1, "-32051"},
		{"a call over HTTP+JSON", "POST", "/message:send", v10, 0, "TASK_STATE_COMPLETED"},
		{"a failed call over HTTP+JSON", "POST", "/message:send", strings.Replace(v10, `"role"`, `"taskId":"absent","role"`, 1), 0, "TASK_NOT_FOUND"},
		{"invalid JSON over HTTP+JSON", "POST", "/message:send", `{"` + text, 0, "PARSE_ERROR"},
		{"a read over HTTP+JSON", "GET", "/tasks/" + id, "", 0, text},
	} {
		r := httptest.NewRequestWithContext(t.Context(), test.verb, "http://localhost"+test.path, strings.NewReader(test.body))
		if test.length < 0 {
			r.ContentLength = test.length
		}
		w := httptest.NewRecorder()
		e.server.ServeHTTP(w, r)
		if got := w.Body.String(); !strings.Contains(got, test.want) {
			t.Errorf("%s = %d %.200s, want %.200s", test.name, w.Code, got, test.want)
		}
		if held := budget.Stats().Held; held != 0 {
			t.Fatalf("%d bytes are reserved after %s, want none", held, test.name)
		}
	}
	if largest := budget.Stats().Largest; largest < limit/4 {
		t.Errorf("at most %d bytes were reserved, want the size of a body", largest)
	}
}

// A request that waits for its task holds no memory of its body.
func TestWaitingRequestsHoldNoMemory(t *testing.T) {
	t.Parallel()
	const size = 256 << 10
	long := strings.Repeat("x", size)
	v03, v10 := withShortID(message(long)), `{`+withShortID(restMessage(long))+`}`
	for name, call := range map[string]struct{ path, body string }{
		"message/send":         {"/", request("message/send", params(v03, blocking))},
		"message/stream":       {"/", request("message/stream", params(v03))},
		"POST /message:send":   {"/message:send", v10},
		"POST /message:stream": {"/message:stream", v10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				budget, next := memory.New(8<<20), make(chan int)
				e := startEngine(t, newStore(), stepHandler(next), func(c *server.Config) { c.Memory = budget })
				defer e.stopEngine()
				done := make(chan *httptest.ResponseRecorder)
				go func() { done <- e.serve("POST", call.path, call.body) }()
				synctest.Wait()
				if s := budget.Stats(); s.Held != 0 || s.Largest < size/2 {
					t.Errorf("a waiting request holds %d bytes, at most %d: want none after at least %d", s.Held, s.Largest, size/2)
				}
				close(next)
				if w := <-done; w.Code != http.StatusOK || !strings.Contains(w.Body.String(), long) {
					t.Errorf("response = %d %.200s, want 200", w.Code, w.Body)
				}
			})
		})
	}
}

func TestRequestsWithoutMemoryNameTheTimeToRetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		budget := memory.New(1 << 20)
		e := startEngine(t, newStore(), echo, func(c *server.Config) { c.Memory = budget })
		defer e.stopEngine()
		other := budget.Hold(a2a.Anonymous)
		if !other.TryGrow(budget.Share()) {
			t.Fatal("the budget has no memory")
		}
		long := strings.Repeat("x", 256<<10)
		for path, body := range map[string]string{
			"/": request("message/send", params(withShortID(message(long)))), "/message:send": `{` + withShortID(restMessage(long)) + `}`,
		} {
			if w := e.serve("POST", path, body); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" {
				t.Errorf("POST %s without memory = %d %v, want 429 with Retry-After", path, w.Code, w.Header())
			}
		}
		other.Release()
	})
}

// failingReads is a store that fails to read tasks.
type failingReads struct {
	store.Store
	err error
}

func (s failingReads) Task(context.Context, store.Key, store.TaskOptions) (*store.Task, error) {
	return nil, s.err
}

// An error over HTTP+JSON that may not occur again has the header that JSON-RPC cannot have: its
// status is 200.
func TestRetryableErrorsOfRESTNameTheTimeToRetry(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err    error
		status int
		after  string
	}{
		{a2a.Errorf(a2a.CodeUnavailable, "the disk is full"), http.StatusServiceUnavailable, "1"},
		{errors.New("broken"), http.StatusInternalServerError, ""},
		{store.ErrNotFound, http.StatusNotFound, ""},
	} {
		e := startEngine(t, failingReads{newStore(), test.err}, echo, nil)
		for _, path := range []string{"/tasks/x", "/v1/tasks/x"} {
			if w := e.serve("GET", path, ""); w.Code != test.status || w.Header().Get("Retry-After") != test.after {
				t.Errorf("GET %s with %v = %d, Retry-After %q, want %d, %q", path, test.err, w.Code, w.Header().Get("Retry-After"), test.status, test.after)
			}
		}
	}
}

// Calls that fail leave the slots free that limit their number.
func TestFailedCallsReleaseTheirSlots(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, body string
		calls      int
		code       a2a.Code
	}{
		{"streams", request("tasks/resubscribe", `{"id":"absent"}`), 3, a2a.CodeTaskNotFound},
		{"streams of messages", request("message/stream", params(message("a", `"taskId":"absent"`))), 3, a2a.CodeTaskNotFound},
		{"lists", request("contexts/get", `{"contextId":"absent"}`), 3, a2a.CodeContextNotFound},
		{"reads", request("tasks/get", `{"id":"absent"}`), 40, a2a.CodeTaskNotFound},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := startEngine(t, newStore(), echo, func(c *server.Config) { c.Requests.MaxStreams, c.Requests.MaxLists = 1, 2 })
				defer e.stopEngine()
				want := fmt.Sprintf(`"code":%d,`, test.code.JSONRPC())
				for i := range test.calls {
					if w := e.serve("POST", "/", test.body); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
						t.Fatalf("call %d = %d %s, want %s", i+1, w.Code, w.Body, want)
					}
				}
			})
		})
	}
}

// A stream that waits for events does not occupy one of the slots for reading.
func TestIdleStreamsDoNotDelayReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		next := make(chan int)
		e := startEngine(t, newStore(), stepHandler(next), nil)
		defer e.stopEngine()
		w := e.serve("POST", "/", request("SendMessage", `{`+restMessage("a")+`,"configuration":{"returnImmediately":true}}`))
		_, rest, _ := strings.Cut(w.Body.String(), `"id":"`)
		id, _, _ := strings.Cut(rest, `"`)
		const streams = 40
		done := make(chan *httptest.ResponseRecorder)
		for range streams {
			go func() { done <- e.serve("POST", "/", request("tasks/resubscribe", `{"id":"`+id+`"}`)) }()
		}
		synctest.Wait()
		started := time.Now()
		if w := e.serve("POST", "/", request("tasks/get", `{"id":"`+id+`"}`)); !strings.Contains(w.Body.String(), `"state":"working"`) || time.Since(started) > 0 {
			t.Errorf("tasks/get beside %d streams = %s after %s, want the task at once", streams, w.Body, time.Since(started))
		}
		close(next)
		for range streams {
			if w := <-done; !strings.Contains(w.Body.String(), `"final":true`) {
				t.Errorf("stream = %d %s, want all events", w.Code, w.Body)
			}
		}
	})
}

// The requests of a batch share one timeout.
func TestBatchHasOneTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		next := make(chan int)
		e := startEngine(t, newStore(), stepHandler(next), func(c *server.Config) { c.Requests.BlockingTimeout = time.Minute })
		defer e.stopEngine()
		started := time.Now()
		one := request("message/send", params(message("a"), blocking))
		w := e.serve("POST", "/", "["+one+","+one+","+one+"]")
		if took := time.Since(started); took != time.Minute || strings.Count(w.Body.String(), `"id":1`) != 3 {
			t.Errorf("batch = %s after %s, want 3 responses after 1m", w.Body, took)
		}
		close(next)
	})
}

// An incomplete response does not end like a complete one.
func TestPanicAbortsAStreamThatHasStarted(t *testing.T) {
	t.Parallel()
	broken := false
	e := start(t, func(_ context.Context, turn *engine.Turn) error {
		return turn.AddArtifact(a2a.Artifact{Parts: []a2a.Part{a2a.TextPart{Text: "x"}}})
	}, func(c *server.Config) { c.Requests.Interceptors = panickingStreams(&broken) })
	for _, path := range []string{"/", "/message:stream"} {
		body := `{` + restMessage("a") + `}`
		if path == "/" {
			body = request("SendStreamingMessage", body)
		}
		for _, broken = range []bool{false, true} {
			resp, err := e.client.Do(e.request("POST", path, body, nil))
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if (err != nil) != broken || !strings.Contains(string(text), "data: ") {
				t.Errorf("POST %s with a panic after the first event: %t: %q, %v", path, broken, text, err)
			}
		}
	}
}

// panickingStreams makes streams panic after the first event while broken is set.
func panickingStreams(broken *bool) []rpc.Interceptor {
	return []rpc.Interceptor{func(_ *a2a.Method, next rpc.Handler) rpc.Handler {
		return func(ctx context.Context, c *rpc.Call) (any, error) {
			result, err := next(ctx, c)
			stream, ok := result.(rpc.Stream)
			if items := stream.Items; ok && *broken {
				stream.Items = func(yield func(rpc.Item, error) bool) {
					for item, err := range items {
						item.More = false
						yield(item, err)
						panic("broken")
					}
				}
				return stream, err
			}
			return result, err
		}
	}}
}
