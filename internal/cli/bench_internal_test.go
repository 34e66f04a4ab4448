package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A server that lacks a method keeps nobody from seeing what was measured before.
func TestBenchShowsWhatItMeasuredBeforeAFailure(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var req struct{ ID, Method string }
		_ = json.NewDecoder(r.Body).Decode(&req)
		if req.Method != "message/send" {
			_, _ = fmt.Fprintf(rw, `{"id":%q,"error":{"code":-32601,"message":"no such method"}}`, req.ID)
			return
		}
		_, _ = fmt.Fprintf(rw, `{"id":%q,"result":{"kind":"task","id":"t","status":{"state":"completed"}}}`, req.ID)
	}))
	t.Cleanup(s.Close)
	for _, c := range []struct {
		scenarios []string
		want      string // on stdout
	}{
		{[]string{"send", "contexts"}, `"scenario":"send"`},
		{[]string{"contexts"}, ""},
	} {
		args := []string{"holdfast", "bench", "--json", "-c", "1", "-d", "20ms", "--warm-up", "0s", "--server", s.URL}
		for _, name := range c.scenarios {
			args = append(args, "--scenario", name)
		}
		var out, told strings.Builder
		code := Main(t.Context(), Program{Args: args, Stdout: &out, Stderr: &told})
		if code == exitOK || !strings.Contains(told.String(), "prepare contexts: JSON-RPC error -32601") {
			t.Errorf("bench of %v = exit code %d, %q, want a failure and why", c.scenarios, code, told.String())
		}
		if !strings.Contains(out.String(), c.want) || (c.want == "") != (out.Len() == 0) {
			t.Errorf("bench of %v shows %q, want %q in it", c.scenarios, out.String(), c.want)
		}
	}
}
