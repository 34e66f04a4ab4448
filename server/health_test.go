package server_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
)

// A client that disconnects must not make the server report itself unready to others.
func TestCanceledHealthCheckDoesNotAffectOthers(t *testing.T) {
	t.Parallel()
	e := startEngine(t, newStore(), echo, nil)
	gone, leave := context.WithCancel(t.Context())
	leave()
	for i, ctx := range []context.Context{gone, t.Context()} {
		w := httptest.NewRecorder()
		e.server.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/readyz", nil))
		if w.Code != http.StatusOK {
			t.Errorf("request %d: /readyz = %d %s, want 200", i, w.Code, w.Body)
		}
	}
}
