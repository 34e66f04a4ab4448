package server_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/await"
)

// While running turns finish, a stopping server rejects new work with a response that makes
// clients and load balancers use another server, and serves all other requests.
func TestStoppingServerRejectsNewWork(t *testing.T) {
	t.Parallel()
	next := make(chan int)
	e := start(t, stepHandler(next), nil)
	s := e.open("message/stream", params(message("first")))
	first, _ := s.next()
	task := first.view(t)
	get := func(path string) int { return e.do(http.MethodGet, path, "", nil).Status }
	for _, path := range []string{"/readyz", "/health"} { // the result is cached for a while
		if status := get(path); status != http.StatusOK {
			t.Fatalf("%s = %d before the stop, want 200", path, status)
		}
	}
	stopped := make(chan error, 1)
	go func() { stopped <- e.engine.Stop(context.Background()) }()
	await.True(t, "the engine stops", e.engine.Stopping)
	for path, want := range map[string]int{"/readyz": 503, "/health": 503, "/healthz": 200} {
		if status := get(path); status != want {
			t.Errorf("%s = %d while stopping, want %d", path, status, want)
		}
	}

	const message503 = `"code":-32053,"message":"the server is stopping; retry later"`
	call := func(accept, body string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
		r.Header.Set("Accept", accept)
		e.server.ServeHTTP(w, r)
		return w
	}
	one := func(method, params string) string {
		return `{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":` + params + `}`
	}
	for _, test := range []struct{ name, accept, body string }{
		{"send", "*/*", one("message/send", params(message("new")))},
		{"follow-up", "*/*", one("message/send", params(message("more", `"taskId":"`+task.ID+`"`)))},
		{"stream", "*/*", one("message/stream", params(message("new")))},
		{"stream for a client that accepts only streams", "text/event-stream", one("message/stream", params(message("new")))},
	} {
		w := call(test.accept, test.body)
		h := w.Header()
		if w.Code != http.StatusServiceUnavailable || h.Get("Retry-After") != "1" || h.Get("Connection") != "close" || h.Get("Content-Type") != "application/json" {
			t.Errorf("%s = %d %v, want 503, Retry-After, Connection: close and JSON", test.name, w.Code, h)
		}
		if body := w.Body.String(); !strings.Contains(body, `"id":7`) || !strings.Contains(body, message503) {
			t.Errorf("%s = %s, want its id and %s", test.name, body, message503)
		}
	}
	for _, test := range []struct{ name, body, want string }{
		{"get", one("tasks/get", `{"id":"`+task.ID+`"}`), `"id":"` + task.ID + `"`},
		{"an invalid send", one("message/send", `{}`), `"code":-32602`},
		{"a batch", "[" + one("message/send", params(message("new"))) + "," + one("tasks/get", `{"id":"`+task.ID+`"}`) + "]", message503},
	} {
		w := call("*/*", test.body)
		if w.Code != http.StatusOK || w.Header().Get("Retry-After") != "" || !strings.Contains(w.Body.String(), test.want) {
			t.Errorf("%s = %d %s, want 200 and %s", test.name, w.Code, w.Body, test.want)
		}
	}

	again := e.open("tasks/resubscribe", `{"id":"`+task.ID+`"}`)
	next <- 1
	close(next)
	for name, s := range map[string]*stream{"the stream that was open": s, "the stream opened while stopping": again} {
		events := s.rest()
		if len(events) == 0 || !events[len(events)-1].view(t).Final {
			t.Errorf("%s sent %v, want all events of the task", name, events)
		}
	}
	if err := <-stopped; err != nil {
		t.Errorf("Stop() = %v", err)
	}
}
