package server_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/store"
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

// failingPing is a store that does not respond while failing is set.
type failingPing struct {
	store.Store
	failing *atomic.Bool
}

func (s failingPing) Ping(ctx context.Context) error {
	if s.failing.Load() {
		return errors.New("disk is full")
	}
	return s.Store.Ping(ctx)
}

// A health check is repeated, and no cache keeps its result.
func TestHealthFollowsTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var failing atomic.Bool
		e := startEngine(t, failingPing{newStore(), &failing}, echo, nil)
		defer e.stopEngine()
		for _, broken := range []bool{false, true, false} {
			failing.Store(broken)
			time.Sleep(time.Second)
			want := map[bool]int{false: http.StatusOK, true: http.StatusServiceUnavailable}[broken]
			for _, path := range []string{"/readyz", "/health"} {
				if w := e.serve("GET", path, ""); w.Code != want || w.Header().Get("Cache-Control") != "no-store" {
					t.Errorf("GET %s with a store that fails: %t = %d %v, want %d and no-store", path, broken, w.Code, w.Header(), want)
				}
			}
		}
	})
}
