package loadgen

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// These tests count goroutines and are not parallel.

func TestRunCountsCorrectAnswers(t *testing.T) {
	for _, scenario := range Scenarios() {
		t.Run(string(scenario), func(t *testing.T) {
			a := &agent{polls: 2}
			var h http.Handler = a
			switch scenario {
			case Echo:
				h = http.HandlerFunc(echo)
			case Get:
				a.polls = 0
			}
			r, err := Run(t.Context(), Config{URL: serve(t, h), Scenario: scenario, Concurrency: 4, Requests: 100, Tasks: 30})
			if err != nil {
				t.Fatal(err)
			}
			if r.Requests != 100 || r.Errors != 0 || len(r.ErrorTexts) != 0 {
				t.Errorf("requests, errors = %d, %d %v, want 100, 0", r.Requests, r.Errors, r.ErrorTexts)
			}
			if r.PerSecond <= 0 || r.Elapsed <= 0 || r.BytesIn < 100*100 || r.BytesOut < 100*100 || r.Latency.P50 <= 0 || r.Latency.P50 > r.Latency.Max {
				t.Errorf("implausible report: %+v", r)
			}
			calls := int64(100)
			if scenario == SendGet {
				calls = 400
			}
			if r.Calls != calls {
				t.Errorf("calls = %d, want %d", r.Calls, calls)
			}
			if scenario == Stream && r.Events != 300 {
				t.Errorf("events = %d, want 300", r.Events)
			}
			if a.repeated > 0 {
				t.Errorf("%d message ids came twice", a.repeated)
			}
		})
	}
}

func TestRunJudgesAnswers(t *testing.T) {
	task := `{"kind":"task","id":"t","status":{"state":"completed"}}`
	stream := func(events ...string) string {
		return `data: {"id":"ID","result":` + strings.Join(events, "}\n\ndata: {\"id\":\"ID\",\"result\":") + "}\n\n"
	}
	final := `{"kind":"status-update","final":true,"status":{"state":"completed"}}`
	for _, c := range []struct {
		name     string
		scenario Scenario
		answer   string
		want     string // text of the error
	}{
		{"a completed task", Send, `{"id":"ID","result":` + task + `}`, ""},
		{"null as error", Send, `{"id":"ID","error":null,"result":` + task + `}`, ""},
		{"a failed task", Send, `{"id":"ID","result":{"kind":"task","id":"t","status":{"state":"failed"}}}`, "task is failed, want completed"},
		{"a message", Send, `{"id":"ID","result":{"kind":"message","messageId":"m"}}`, `result is of kind "message", want task`},
		{"a task without status", Send, `{"id":"ID","result":{"kind":"task","id":"t"}}`, "task has no id or no state"},
		{"an error", Send, `{"id":"ID","error":{"code":-32603,"message":"no \"luck\""}}`, `error -32603: no \"luck\"`},
		{"a foreign answer", Send, `{"id":"other","result":` + task + `}`, "answer has another request's id"},
		{"nothing", Send, `{"id":"ID"}`, "answer has neither result nor error"},
		{"no JSON", Send, `oops`, "answer is not JSON"},
		{"half a JSON", Send, `{"id":"ID","result":{"kind":"task`, "answer is not JSON"},
		{"an empty body", Send, ``, "answer is not JSON"},
		{"a list as result of send", Send, `{"id":"ID","result":[]}`, `result is of kind "", want task`},

		{"a good stream", Stream, stream(`{"kind":"task","status":{"state":"working"}}`, final), ""},
		{"a stream that ends in a task", Stream, stream(task), ""},
		{"a stream that fails", Stream, stream(`{"kind":"status-update","final":true,"status":{"state":"failed"}}`), "task is failed, want completed"},
		{"a stream without end", Stream, stream(`{"kind":"task","status":{"state":"working"}}`), "stream ends without a final event"},
		{"a stream that continues", Stream, stream(final, final), "stream continues after its final event"},
		{"a torn stream", Stream, strings.TrimSuffix(stream(final), "\n"), "stream ends within an event"},
		{"an error instead of a stream", Stream, `{"id":"ID","error":{"code":-32602,"message":"no"}}`, "error -32602: no"},
		{"a task instead of a stream", Stream, `{"id":"ID","result":` + task + "}\n", "answer is not an event stream"},
		{"an error in the stream", Stream, "data: {\"id\":\"ID\",\"error\":{\"code\":1,\"message\":\"m\"}}\n\n", "error 1: m"},

		{"a request without params as echo", Echo, `{"id":"ID"}`, "answer is not an echo of the request"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := Run(t.Context(), Config{URL: serve(t, answering(c.answer)), Scenario: c.scenario, Concurrency: 1, Requests: 3})
			if err != nil {
				t.Fatal(err)
			}
			checkErrors(t, r, 3, c.want)
		})
	}
}

func TestRunJudgesLists(t *testing.T) {
	good := &agent{}
	for _, c := range []struct {
		scenario Scenario
		method   string
		what     string
		formats  []string
	}{
		{List, "tasks/list", "tasks", []string{"[%]", `{"tasks":[%],"total":99}`}},
		{Contexts, "contexts/list", "contexts", []string{`{"contexts":[%],"total":99}`}},
	} {
		none := fmt.Sprintf("list has 0 %s, want 1 to 20", c.what)
		for items, want := range map[int]string{0: none, 20: "", 21: fmt.Sprintf("list has 21 %s, want 1 to 20", c.what)} {
			for _, format := range c.formats {
				list := strings.Replace(format, "%", strings.TrimSuffix(strings.Repeat(`{"kind":"task","parts":[1,[2]]},`, items), ","), 1)
				checkErrors(t, runWith(t, good, c.scenario, c.method, list), 3, want)
			}
		}
	}
	checkErrors(t, runWith(t, good, List, "tasks/list", `{"contexts":[{}]}`), 3, "list has 1 tasks, want 1 to 20")
	checkErrors(t, runWith(t, good, Contexts, "contexts/list", `{"tasks":[{}]}`), 3, "list has 1 contexts, want 1 to 20")
}

// runWith makes three requests to a server that returns the given result for a method.
func runWith(t *testing.T, good *agent, s Scenario, method, result string) Report {
	t.Helper()
	h := except(good, method, `"result":`+result)
	r, err := Run(t.Context(), Config{URL: serve(t, h), Scenario: s, Concurrency: 1, Requests: 3, Tasks: 1})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestContextsRequestsAllListsEquallyOften(t *testing.T) {
	a := &agent{}
	r, err := Run(t.Context(), Config{URL: serve(t, a), Scenario: Contexts, Concurrency: 3, Requests: 150, Tasks: 21})
	if err != nil {
		t.Fatal(err)
	}
	checkErrors(t, r, 0, "")
	if a.contexts != 3 || len(a.tasks) != 21 {
		t.Errorf("contexts, tasks made = %d, %d, want 3, 21", a.contexts, len(a.tasks))
	}
	if len(a.lists) != 5 {
		t.Errorf("lists asked for = %v, want 5 different ones", a.lists)
	}
	for filters, n := range a.lists {
		if n < 27 || n > 33 { // each worker ends at any of the lists
			t.Errorf("lists with %s = %d, want about 30", filters, n)
		}
	}
}

func TestRunFailsWhenContextsCannotBeMade(t *testing.T) {
	for result, want := range map[string]string{
		`"error":{"code":-32601,"message":"no such method"}`: "error -32601: no such method",
		`"result":{"kind":"task"}`:                           `result is of kind "task", want context`,
	} {
		h := except(&agent{}, "contexts/create", result)
		_, err := Run(t.Context(), Config{URL: serve(t, h), Scenario: Contexts, Concurrency: 1})
		if err == nil || !strings.HasSuffix(err.Error(), "prepare contexts: "+want) {
			t.Errorf("Run(contexts) = %v, want %s", err, want)
		}
	}
}

// except is like good, except for one method.
func except(good *agent, method, answer string) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.Contains(body, []byte(method)) {
			answering(`{"id":"ID",`+answer+`}`)(rw, r)
			return
		}
		good.ServeHTTP(rw, r)
	})
}

func checkErrors(t *testing.T, r Report, n int64, want string) {
	t.Helper()
	if want == "" {
		if r.Errors != 0 {
			t.Errorf("errors = %d %v, want none", r.Errors, r.ErrorTexts)
		}
		return
	}
	if r.Errors != n || len(r.ErrorTexts) != 1 || r.ErrorTexts[0] != (ErrorCount{want, n}) {
		t.Errorf("errors = %d %+v, want %d of %q", r.Errors, r.ErrorTexts, n, want)
	}
	if r.PerSecond != 0 || r.Latency.Max != 0 {
		t.Errorf("errors count towards rate %v or latency %v", r.PerSecond, r.Latency)
	}
}

func TestRunReportsHTTPStatus(t *testing.T) {
	n := 0
	h := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if n++; n%4 == 0 {
			rw.WriteHeader(http.StatusBadRequest)
			answering(`{"id":"ID","error":{"code":-32600,"message":"bad"}}`)(rw, r)
			return
		}
		http.Error(rw, "busy", http.StatusServiceUnavailable)
	})
	r, err := Run(t.Context(), Config{URL: serve(t, h), Concurrency: 1, Requests: 8})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.ErrorTexts) != 2 || r.ErrorTexts[0] != (ErrorCount{"HTTP status 503", 6}) ||
		r.ErrorTexts[1] != (ErrorCount{"HTTP status 400, error -32600: bad", 2}) {
		t.Errorf("error texts = %+v", r.ErrorTexts)
	}
}

func TestRunLimitsDistinctErrorTexts(t *testing.T) {
	h := answering(`{"id":"ID","error":{"code":1,"message":"no ID"}}`)
	r, err := Run(t.Context(), Config{URL: serve(t, h), Concurrency: 3, Requests: 100})
	if err != nil {
		t.Fatal(err)
	}
	var sum int64
	for _, e := range r.ErrorTexts {
		sum += e.Count
	}
	if len(r.ErrorTexts) != errorTexts+1 || r.ErrorTexts[0].Text != "other errors" || sum != 100 {
		t.Errorf("error texts = %+v", r.ErrorTexts)
	}
}

func TestRunSurvivesConnectionsClosedByTheServer(t *testing.T) {
	a := &agent{}
	n := 0
	h := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if n++; n%3 == 0 {
			rw.Header().Set("Connection", "close") // announced by the server
		}
		a.ServeHTTP(rw, r)
	})
	r, err := Run(t.Context(), Config{URL: serve(t, h), Concurrency: 1, Requests: 30})
	if err != nil || r.Errors != 0 || r.Reconnects != 0 {
		t.Errorf("Run = %+v, %v, want no errors, no reconnects", r, err)
	}
}

func TestRunReconnectsAfterAnIdleConnectionWasClosed(t *testing.T) {
	url := serveRaw(t, func(nc net.Conn) {
		for range 3 { // then the server closes the connection without notice
			if !rawAnswer(nc) {
				return
			}
		}
	})
	r, err := Run(t.Context(), Config{URL: url, Concurrency: 1, Requests: 30})
	if err != nil || r.Errors != 0 || r.Reconnects != 9 {
		t.Errorf("Run = %+v, %v, want no errors, 9 reconnects", r, err)
	}
}

func TestRunCountsAnswersCutOff(t *testing.T) {
	url := serveRaw(t, func(nc net.Conn) {
		_, _ = nc.Read(make([]byte, 4096))
		_, _ = io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
	})
	r, err := Run(t.Context(), Config{URL: url, Concurrency: 1, Requests: 3})
	if err != nil {
		t.Fatal(err)
	}
	checkErrors(t, r, 3, "connection closed within the answer")
}

func TestRunCountsTimeouts(t *testing.T) {
	release := make(chan struct{})
	url := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer close(release)
	r, err := Run(t.Context(), Config{URL: url, Concurrency: 2, Requests: 2, Timeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	checkErrors(t, r, 2, "timeout")
}

func TestRunFailsWithoutAServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	_, err = Run(t.Context(), Config{URL: "http://" + addr, Concurrency: 2})
	if err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("Run without server = %v, want connection refused", err)
	}
}

func TestRunFailsWhenTasksCannotBeMade(t *testing.T) {
	_, err := Run(t.Context(), Config{URL: serve(t, answering("{}")), Scenario: Get, Concurrency: 2})
	if err == nil || !strings.Contains(err.Error(), "prepare get") {
		t.Errorf("Run(get) = %v, want an error of the preparation", err)
	}
}

func TestRunStopsAtOnceWhenCanceled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	release := make(chan struct{})
	reached := make(chan struct{}, 100)
	url := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		reached <- struct{}{}
		<-release
	}))
	defer close(release)
	why := errors.New("enough")
	go func() {
		<-reached
		cancel(why)
	}()
	begin := time.Now()
	r, err := Run(ctx, Config{URL: url, Concurrency: 8})
	if took := time.Since(begin); took > time.Minute || !errors.Is(err, why) || r.Errors != 0 {
		t.Errorf("Run canceled = %+v, %v after %v, want cause, no errors, at once", r, err, took)
	}
}

func TestRunKeepsToItsWindow(t *testing.T) {
	url := serve(t, http.HandlerFunc((&agent{}).ServeHTTP))
	const warmUp, length = 300 * time.Millisecond, 2 * time.Second
	begin := time.Now()
	var window time.Duration
	r, err := Run(t.Context(), Config{
		URL: url, Concurrency: 2, Duration: length, WarmUp: warmUp,
		OnStart: func() { window = time.Since(begin) },
	})
	if took := time.Since(begin); err != nil || took < warmUp+length || took > time.Minute {
		t.Fatalf("Run = %v after %v, want nil after %v", err, took, warmUp+length)
	}
	if window < warmUp {
		t.Errorf("the callback ran after %v, want %v", window, warmUp)
	}
	if r.Elapsed > length || r.Elapsed < length/4 {
		t.Errorf("elapsed = %v, want %v", r.Elapsed, length)
	}
	if got := r.PerSecond * r.Elapsed.Seconds(); math.Abs(got-float64(r.Requests)) > 3 {
		t.Errorf("rate x elapsed = %.1f, requests = %d", got, r.Requests)
	}
}

func TestRunMeasuresLatency(t *testing.T) {
	a := &agent{}
	const nap = 20 * time.Millisecond
	url := serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		time.Sleep(nap) // this is the latency
		a.ServeHTTP(rw, r)
	}))
	r, err := Run(t.Context(), Config{URL: url, Concurrency: 4, Requests: 20})
	if err != nil || r.Latency.P50 < nap || r.PerSecond > 4/nap.Seconds() {
		t.Errorf("Run = %+v, %v, want a latency of %v or more", r, err, nap)
	}
}

func TestRunSendsHeadersAndPayload(t *testing.T) {
	for _, payload := range []int{1, 5000, 1 << 20} {
		a := &agent{}
		bad := make(chan string, 100)
		url := serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			var req rpcRequest
			if err := json.Unmarshal(body, &req); err != nil {
				bad <- err.Error()
			} else if n := len(req.Params.Message.Parts[0].Text); n != payload {
				bad <- "wrong payload"
			}
			if r.Header.Get("Authorization") != "Bearer secret" || r.Header.Get("X-Tenant") != "a" || r.URL.Path != "/rpc" {
				bad <- "wrong header"
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			a.ServeHTTP(rw, r)
		}))
		r, err := Run(t.Context(), Config{
			URL: url + "/rpc?x=1", Token: "secret", Header: http.Header{"x-tenant": {"a"}},
			Concurrency: 2, Requests: 6, PayloadBytes: payload,
		})
		if err != nil || r.Errors != 0 {
			t.Errorf("Run = %+v, %v", r, err)
		}
		select {
		case text := <-bad:
			t.Error(text)
		default:
		}
	}
}

func TestRunReportsAllProblemsOfTheConfigAtOnce(t *testing.T) {
	_, err := Run(t.Context(), Config{
		URL: "ftp://user:hunter2@host", Scenario: "dance", Concurrency: -1, Duration: -1, Requests: -1, PayloadBytes: -1,
		WarmUp: -1, Timeout: -1, Tasks: -1, Token: "hunter2\n", Header: http.Header{"Host": {"x"}, "X-A": {"hunter2\r"}, "a b": nil},
	})
	if err == nil {
		t.Fatal("Run of a bad Config = nil")
	}
	if got, want := strings.Count(err.Error(), "loadgen: "), 14; got != want {
		t.Errorf("%d problems, want %d:\n%v", got, want, err)
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error contains a secret: %v", err)
	}
}

func TestReportIsJSONAndText(t *testing.T) {
	r, err := Run(t.Context(), Config{URL: serve(t, answering("{}")), Concurrency: 1, Requests: 2})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(text, &back); err != nil || back.Errors != 2 || back.ErrorTexts[0] != r.ErrorTexts[0] {
		t.Errorf("round trip of %s = %+v, %v", text, back, err)
	}
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"send http://127.0.0.1:", "errors 2", "p99", "2 x answer has neither result nor error"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("text lacks %q:\n%s", want, b.String())
		}
	}
}
