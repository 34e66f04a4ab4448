package server_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestErrorsAreEventsForClientsThatAcceptOnlyStreams(t *testing.T) {
	t.Parallel()
	e := start(t, echo, nil)
	absent := `{"jsonrpc":"2.0","id":7,"method":"tasks/resubscribe","params":{"id":"absent"}}`
	empty := `{"jsonrpc":"2.0","id":7,"method":"message/stream","params":{}}`
	for _, tt := range []struct{ accept, body, kind, code string }{
		{"text/event-stream", absent, "text/event-stream", "-32001"},
		{"Text/Event-Stream;q=0.9", absent, "text/event-stream", "-32001"},
		{"text/event-stream", empty, "text/event-stream", "-32602"},
		{"text/event-stream, application/json", absent, "application/json", "-32001"},
		{"text/event-stream, */*;q=0.1", absent, "application/json", "-32001"},
		{"application/json", absent, "application/json", "-32001"},
		{"", absent, "application/json", "-32001"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.url, strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", tt.accept)
		resp, err := e.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		text := string(body)
		if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != tt.kind || !strings.Contains(text, tt.code) {
			t.Errorf("Accept %q = %d %s %s, %v, want %s in %s", tt.accept, resp.StatusCode, resp.Header.Get("Content-Type"), text, err, tt.code, tt.kind)
		}
		event := strings.HasPrefix(text, "data: {") && strings.HasSuffix(text, "}\n\n") && strings.Count(text, "\n") == 2
		if want := tt.kind == "text/event-stream"; event != want {
			t.Errorf("Accept %q = %q, want one event: %t", tt.accept, text, want)
		}
	}
}
