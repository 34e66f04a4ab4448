package server_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/server"
)

func TestErrorsAreEventsForClientsThatExpectStreams(t *testing.T) {
	t.Parallel()
	e := start(t, echo, nil)
	absent := `{"jsonrpc":"2.0","id":7,"method":"tasks/resubscribe","params":{"id":"absent"}}`
	empty := `{"jsonrpc":"2.0","id":7,"method":"message/stream","params":{}}`
	unary := `{"jsonrpc":"2.0","id":7,"method":"tasks/get","params":{"id":"absent"}}`
	json := start(t, echo, func(c *server.Config) { c.Requests.JSONErrors = true })
	for _, tt := range []struct{ accept, body, kind, code string }{
		{"text/event-stream", absent, "text/event-stream", "-32001"},
		{"Text/Event-Stream;q=0.9", absent, "text/event-stream", "-32001"},
		{"text/event-stream", empty, "text/event-stream", "-32602"},
		{"*/*, text/event-stream", absent, "text/event-stream", "-32001"},
		{"*/*, text/event-stream", empty, "text/event-stream", "-32602"},
		{"text/event-stream, */*;q=0.1", absent, "text/event-stream", "-32001"},
		{"text/event-stream, application/json", absent, "text/event-stream", "-32001"},
		{"application/json, text/event-stream", absent, "application/json", "-32001"},
		{"text/event-stream", unary, "text/event-stream", "-32001"},
		{"*/*, text/event-stream", unary, "application/json", "-32001"},
		{"text/event-stream, application/json", unary, "application/json", "-32001"},
		{"application/json, text/event-stream", unary, "application/json", "-32001"},
		{"application/json", absent, "application/json", "-32001"},
		{"", absent, "application/json", "-32001"},
	} {
		resp, text := postAccepting(e, tt.accept, tt.body)
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != tt.kind || !strings.Contains(text, tt.code) {
			t.Errorf("Accept %q = %d %s %s, want %s in %s", tt.accept, resp.StatusCode, resp.Header.Get("Content-Type"), text, tt.code, tt.kind)
		}
		event := strings.HasPrefix(text, "data: {") && strings.HasSuffix(text, "}\n\n") && strings.Count(text, "\n") == 2
		if want := tt.kind == "text/event-stream"; event != want {
			t.Errorf("Accept %q = %q, want one event: %t", tt.accept, text, want)
		}
		if resp, text := postAccepting(json, tt.accept, tt.body); resp.Header.Get("Content-Type") != "application/json" || !strings.Contains(text, tt.code) {
			t.Errorf("Accept %q with JSONErrors = %s %s, want %s as JSON", tt.accept, resp.Header.Get("Content-Type"), text, tt.code)
		}
	}
}

// postAccepting posts a request with an Accept header. It returns the response and its body.
func postAccepting(e *env, accept, body string) (*http.Response, string) {
	e.t.Helper()
	req, err := http.NewRequestWithContext(e.t.Context(), http.MethodPost, e.url, strings.NewReader(body))
	if err != nil {
		e.t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	resp, err := e.client.Do(req)
	if err != nil {
		e.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		e.t.Fatal(err)
	}
	return resp, string(text)
}
