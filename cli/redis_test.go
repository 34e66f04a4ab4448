//go:build services

package cli_test

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/backend/redis"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/internal/testport"
	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/history/transcripts"
	"github.com/holdfast-dev/holdfast/store/memory"
)

func TestTranscriptsAndStatesInRedis(t *testing.T) {
	t.Parallel()
	addr := testport.Addr(t)
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	kill := startService(t, addr, exec.Command(pgtest.Program(t, "redis-server"), "--port", port, "--bind", "127.0.0.1", "--save", "", "--requirepass", "hunter2", "--dir", t.TempDir()))
	url := "redis://:hunter2@" + addr
	s, err := redis.Open(t.Context(), redis.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	states, err := s.ShortTerm(memory.ShortTermConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for _, owner := range []string{"alice", "alice/*", "bob"} {
		if err := keepTranscripts(t.Context(), engine.Contracts{Stores: []contract.Store{transcripts.Of(s.History())}}, nil, owner); err != nil {
			t.Fatal(err)
		}
		for _, session := range []string{"s1", "s2"} {
			if _, err := states.Set(t.Context(), memory.Key{Owner: owner, Agent: "a", Session: session}, map[string]any{"n": 1}, memory.AnyVersion); err != nil {
				t.Fatal(err)
			}
		}
	}
	data := t.TempDir()
	createStore(t, data)
	environ := []string{"HOLDFAST_DATA=" + data, "STORE_HISTORY=" + url, "STORE_STATE=" + url}
	wants := func(code int, want string, args ...string) {
		t.Helper()
		got, out, stderr := run(t, "", environ, args...)
		if got != code || !strings.Contains(out+stderr, want) || strings.Contains(out+stderr, "hunter2") {
			t.Errorf("%q = %d, %s%s, want %d and %q without the password", args, got, out, stderr, code, want)
		}
	}
	wants(0, "travel                  20", "history", "list", "--owner", "alice")
	wants(0, "message 30 of trip", "history", "show", "trip", "--owner", "alice")
	wants(0, `"messages":60,"sessions":3,"states":2`, "forget", "alice", "--yes", "--json")
	wants(0, "no sessions", "history", "list", "--owner", "alice")
	wants(0, "nothing: it has no data", "forget", "alice", "--yes")
	for _, owner := range []string{"bob", "alice/*"} {
		wants(0, "travel                  20", "history", "list", "--owner", owner)
		page, err := states.States(t.Context(), memory.StateQuery{Owner: owner})
		if err != nil || len(page.Keys) != 2 {
			t.Errorf("States() of %s = %+v, %v, want 2", owner, page, err)
		}
	}
	environ[1] = strings.Replace(environ[1], "hunter2", "hunter2x", 1)
	wants(7, "STORE_HISTORY is redis://:***@"+addr, "history", "list")
	environ[1] = "STORE_HISTORY=" + url
	server := startServer(t, []string{"HOLDFAST_DATA=" + t.TempDir(), environ[1]})
	health := func() []string {
		t.Helper()
		var body struct{ Degraded []string }
		resp, err := http.Get(server.URL + "/health")
		if err == nil {
			err = errors.Join(json.NewDecoder(resp.Body).Decode(&body), resp.Body.Close())
		}
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("GET /health = %v, %v", resp, err)
		}
		return body.Degraded
	}
	if degraded := health(); degraded != nil {
		t.Errorf("degraded = %q, want none", degraded)
	}
	kill()
	await.True(t, "the health names the store that is down", func() bool {
		degraded := health()
		return len(degraded) == 1 && strings.HasPrefix(degraded[0], "transcripts: the Redis server ") && !strings.Contains(degraded[0], "hunter2")
	})
	wants(7, "STORE_HISTORY is redis://:***@"+addr, "serve", "--addr", "127.0.0.1:0")
}
