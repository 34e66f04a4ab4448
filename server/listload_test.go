package server_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/postgres"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/store"
)

// createTasks creates n finished tasks of an owner.
func createTasks(t *testing.T, s store.Store, owner string, n int) {
	t.Helper()
	var wg sync.WaitGroup
	var next atomic.Int64
	for range 4 {
		wg.Go(func() {
			for {
				from := int(next.Add(200)) - 200
				if from >= n || t.Failed() {
					return
				}
				changes := make([]store.Change, 0, 200)
				for i := from; i < min(from+200, n); i++ {
					at := store.Time(time.Now().Add(time.Duration(i-n) * time.Millisecond))
					m := &a2a.Message{ID: fmt.Sprint("m", i), Role: a2a.RoleUser, Parts: []a2a.Part{a2a.TextPart{Text: "a short question"}}}
					changes = append(changes, store.Change{
						Key: store.Key{Owner: owner, ID: fmt.Sprintf("t%08d", i)}, Create: &store.Create{ContextID: fmt.Sprint("c", i/50)},
						Events: []store.Event{{Time: at, State: a2a.StateSubmitted, Received: m}, {Time: at, State: a2a.StateCompleted}},
						Queue:  &store.QueueEntry{Phase: store.PhaseIdle, Turn: 1, SeenSeq: 1},
					})
				}
				results, err := s.Commit(t.Context(), changes...)
				if err != nil {
					t.Errorf("Commit() = %v", err)
					return
				}
				for _, r := range results {
					if r.Err != nil {
						t.Errorf("Commit() = %v", r.Err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// quantile sorts durations and returns their quantile q.
func quantile(all []time.Duration, q float64) time.Duration {
	slices.Sort(all)
	return all[int(q*float64(len(all)-1))]
}

// timeSends sends n messages one after the other and returns the duration of each.
func (e *env) timeSends(n int) []time.Duration {
	all := make([]time.Duration, n)
	for i := range all {
		sentAt := time.Now()
		e.call(a2a.MethodSend, params(message("quick"), blocking), as("alice")...).task(e.t)
		all[i] = time.Since(sentAt)
	}
	return all
}

// Many callers list the many tasks of one owner with totals. Messages of another owner must
// not wait for the lists, and no handler may lose its lease. With
// HOLDFAST_TEST_LISTS=1000000 the test uses that number of tasks and 400 callers, and
// compares the message latency with that of an idle server.
func TestListsOfOneOwnerDoNotDelayOthers(t *testing.T) {
	size, callers, long := 20_000, 100, os.Getenv("HOLDFAST_TEST_LISTS")
	if long != "" {
		var err error
		if size, err = strconv.Atoi(long); err != nil {
			t.Fatal(err)
		}
		callers = 400
	}
	t.Run("sqlite", func(t *testing.T) {
		dir := t.TempDir()
		s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		var longest atomic.Int64
		watch := func() {
			if info, err := os.Stat(filepath.Join(dir, sqlite.FileName+"-wal")); err == nil {
				longest.Store(max(longest.Load(), info.Size()))
			}
		}
		listLoad(t, s, size, callers, long != "", watch)
		t.Logf("the write-ahead log grew to %d MB", longest.Load()>>20)
		if longest.Load() > 80<<20 {
			t.Errorf("the write-ahead log grew to %d MB, want 80 at most", longest.Load()>>20)
		}
	})
	if !pgtest.Enabled {
		return
	}
	t.Run("postgres", func(t *testing.T) {
		url := pgtest.URL(t)
		s, err := postgres.Open(t.Context(), postgres.Config{URL: url, Schema: pgtest.Schema(t, url), Migrate: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		listLoad(t, s, size, callers, long != "", func() {})
	})
}

func listLoad(t *testing.T, s store.Store, size, callers int, long bool, watch func()) {
	createTasks(t, s, "bob", size)
	const holding = 20
	var started, lost atomic.Int64
	release := make(chan struct{})
	handler := func(ctx context.Context, turn *engine.Turn) error {
		if turn.Messages()[0].Text() != "hold" {
			return turn.Reply(a2a.TextPart{Text: "done"})
		}
		started.Add(1)
		select {
		case <-release:
		case <-ctx.Done():
			lost.Add(1)
		}
		return turn.Reply(a2a.TextPart{Text: "held"})
	}
	e := startConfig(t, engine.Config{Store: s, Handler: handler, NewID: newID, Lease: 3 * time.Second}, twoTokens)
	ts := httptest.NewServer(e.server)
	t.Cleanup(ts.Close)
	e.url, e.client = ts.URL, ts.Client()
	for range holding {
		e.call(a2a.MethodSend, params(message("hold")), as("alice")...).task(t)
	}
	await.True(t, "the handlers start", func() bool { return started.Load() >= holding })
	const sends = 300
	alone := e.timeSends(sends)

	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var mu sync.Mutex
	var lists []time.Duration
	var refused atomic.Int64
	for range callers {
		wg.Go(func() {
			for ctx.Err() == nil {
				body := `{"jsonrpc":"2.0","id":1,"method":"tasks/list","params":{"pageSize":20,"includeTotal":true}}`
				r := httptest.NewRequestWithContext(ctx, "POST", "/", strings.NewReader(body))
				r.Header.Set("Content-Type", "application/json")
				headers(as("bob")).set(r)
				w := httptest.NewRecorder()
				listedAt := time.Now()
				e.server.ServeHTTP(w, r)
				switch {
				case w.Code == 200 && strings.Contains(w.Body.String(), `"totalCapped":true`):
					mu.Lock()
					lists = append(lists, time.Since(listedAt))
					mu.Unlock()
				case strings.Contains(w.Body.String(), `"code":-32052`):
					refused.Add(1)
				case ctx.Err() == nil:
					t.Errorf("tasks/list = %d %.200s", w.Code, w.Body)
					return
				}
			}
		})
	}
	wg.Go(func() {
		for ctx.Err() == nil {
			watch()
			time.Sleep(time.Millisecond) // between two samples
		}
	})
	await.True(t, "a quarter of the lists is answered", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(lists) >= callers/4 || t.Failed()
	})
	loaded := e.timeSends(sends)
	for started := time.Now(); long && time.Since(started) < time.Minute; {
		loaded = append(loaded, e.timeSends(sends)...)
	}
	cancel()
	wg.Wait()
	close(release)
	if lost.Load() > 0 || started.Load() != holding {
		t.Errorf("%d of %d handlers were canceled during the lists, %d started", lost.Load(), holding, started.Load())
	}
	p99, idle, list := quantile(loaded, 0.99), quantile(alone, 0.99), quantile(lists, 0.5)
	t.Logf("%d tasks, %d callers: %d lists in %v each (median), %d refused; sends p50 %v, p99 %v, idle %v, %v",
		size, callers, len(lists), list, refused.Load(), quantile(loaded, 0.5), p99, quantile(alone, 0.5), idle)
	// On a busy machine any single send may be slow.
	if p50 := quantile(loaded, 0.5); p50 > list || long && p99 > list {
		t.Errorf("sends of another owner took %v (median), %v (p99), lists %v: sends must not wait for lists", p50, p99, list)
	}
	if long && p99 > 3*idle {
		t.Errorf("sends of another owner took %v (p99), %v on an idle server: want at most three times as long", p99, idle)
	}
}

// blockedLists is a store whose lists block until release is closed.
type blockedLists struct {
	store.Store
	release chan struct{}
}

func (s blockedLists) Tasks(ctx context.Context, q store.Query) (store.Page, error) {
	<-s.release
	return s.Store.Tasks(ctx, q)
}

// An owner may use half of the concurrent lists. Its next list waits and is rejected after
// ten seconds, while other owners can list.
func TestListsBeyondOwnerShareAreRejected(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := blockedLists{Store: newStore(), release: make(chan struct{})}
		e := startEngine(t, s, echo, func(c *server.Config) {
			twoTokens(c)
			c.MaxLists = 4
		})
		get := func(verb, path, body string, h []string) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(t.Context(), verb, path, strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			headers(h).set(r)
			w := httptest.NewRecorder()
			e.server.ServeHTTP(w, r)
			return w
		}
		started := time.Now()
		answers := make(chan *httptest.ResponseRecorder, 9)
		list := func(owner string) {
			go func() {
				answers <- get("POST", "/", `{"jsonrpc":"2.0","id":1,"method":"tasks/list","params":{}}`, as(owner))
			}()
			synctest.Wait()
		}
		for range 3 {
			list("alice")
		}
		list("bob")
		if w := get("GET", "/health", "", as("bob")); !strings.Contains(w.Body.String(), `"lists":{"reading":3,"waiting":1,"refused":0}`) {
			t.Errorf("/health = %s, want 3 lists being read and one waiting", w.Body)
		}
		w := <-answers
		if since := time.Since(started); !strings.Contains(w.Body.String(), "-32052") || !strings.Contains(w.Body.String(), "--max-lists") || since != 10*time.Second {
			t.Errorf("after %v: %s, want -32052 that names --max-lists after 10s", since, w.Body)
		}
		close(s.release)
		for range 3 {
			if w := <-answers; !strings.Contains(w.Body.String(), `"tasks":[]`) {
				t.Errorf("%s, want a result for lists within the share", w.Body)
			}
		}
	})
}
