package server_test

import (
	"cmp"
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

// quantile sorts values and returns their quantile q.
func quantile[V cmp.Ordered](all []V, q float64) V {
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

// Many callers list the many tasks of one owner with totals. Messages of another owner and
// renewals of leases must not wait for the lists, and no handler may lose its lease. The test counts the
// lists that end during a message or a renewal: a call that queues behind the callers counts a list of each.
// With HOLDFAST_TEST_LISTS=1000000 the test uses that number of tasks, 400 callers and leases
// of 3 s, and compares the message latency with the latencies of lists and of an idle server.
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
	lease := time.Minute
	if long {
		lease = 3 * time.Second
	}
	e := startConfig(t, engine.Config{Store: s, Handler: handler, NewID: newID, Turns: engine.Turns{Lease: lease}}, twoTokens)
	ts := httptest.NewServer(e.server)
	t.Cleanup(ts.Close)
	e.url, e.client = ts.URL, ts.Client()
	held := make([]store.Key, holding)
	for i := range held {
		held[i] = store.Key{Owner: "alice", ID: e.call(a2a.MethodSend, params(message("hold")), as("alice")...).task(t).ID}
	}
	await.True(t, "the handlers start", func() bool { return started.Load() >= holding })
	const sends = 100
	var alone []time.Duration
	if long {
		alone = e.timeSends(3 * sends)
	}

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
	answered := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(lists)
	}
	var loaded []time.Duration
	during := make(map[string][]int) // number of lists that ended during each call
	for range sends {
		before := answered()
		loaded = append(loaded, e.timeSends(1)...)
		during["sends"] = append(during["sends"], answered()-before)
		leases := leasesOf(t, s, held)
		before = answered()
		until := store.Time(time.Now().Add(lease))
		if missing, err := s.Renew(t.Context(), until, leases); err != nil || len(missing) > 0 {
			t.Fatalf("Renew() = %v, %v, want all leases renewed", missing, err)
		}
		during["renewals"] = append(during["renewals"], answered()-before)
	}
	for started := time.Now(); long && time.Since(started) < time.Minute; {
		loaded = append(loaded, e.timeSends(sends)...)
	}
	cancel()
	wg.Wait()
	close(release)
	if lost.Load() > 0 || started.Load() != holding {
		t.Errorf("%d of %d handlers were canceled during the lists, %d started", lost.Load(), holding, started.Load())
	}
	p50, p99, list := quantile(loaded, 0.5), quantile(loaded, 0.99), quantile(lists, 0.5)
	t.Logf("%d tasks, %d callers: %d lists in %v each (median), %d refused; sends p50 %v, p99 %v",
		size, callers, len(lists), list, refused.Load(), p50, p99)
	for what, ended := range during {
		// On a busy machine any single call may be slow.
		median := quantile(ended, 0.5)
		t.Logf("%d lists ended during %s (median), at most %d", median, what, slices.Max(ended))
		if median > callers/2 {
			t.Errorf("%d lists ended during %s (median), %d callers: %s must not wait for lists", median, what, callers, what)
		}
	}
	if !long {
		return
	}
	if p50 > list || p99 > list {
		t.Errorf("sends of another owner took %v (median), %v (p99), lists %v: sends must not wait for lists", p50, p99, list)
	}
	if idle := quantile(alone, 0.99); p99 > 3*idle {
		t.Errorf("sends of another owner took %v (p99), %v on an idle server: want at most three times as long", p99, idle)
	}
}

// leasesOf returns the leases of tasks.
func leasesOf(t *testing.T, s store.Store, keys []store.Key) []store.HeldLease {
	t.Helper()
	leases := make([]store.HeldLease, len(keys))
	for i, k := range keys {
		task, err := s.Task(t.Context(), k, store.TaskOptions{})
		if err != nil {
			t.Fatal(err)
		}
		leases[i] = store.HeldLease{Key: k, Worker: task.Queue.Lease.Worker, Fence: task.Queue.Lease.Fence}
	}
	return leases
}

// blockedLists is a store with lists that block until release is closed.
type blockedLists struct {
	store.Store
	release chan struct{}
}

func (s blockedLists) Tasks(ctx context.Context, q store.Query) (store.Page, error) {
	<-s.release
	return s.Store.Tasks(ctx, q)
}

// An owner may use half of the concurrent lists. Its next list waits and is rejected after
// ten seconds, while other owners can list. Messages of all owners wait for no list.
func TestListsBeyondOwnerShareAreRejected(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := blockedLists{Store: newStore(), release: make(chan struct{})}
		e := startEngine(t, s, echo, func(c *server.Config) {
			twoTokens(c)
			c.Requests.MaxLists = 4
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
		for _, owner := range []string{"alice", "bob"} {
			body := `{"jsonrpc":"2.0","id":1,"method":"message/send","params":` + params(message("x"), blocking) + `}`
			if w := get("POST", "/", body, as(owner)); !strings.Contains(w.Body.String(), `"completed"`) || time.Since(started) >= time.Second {
				t.Errorf("message/send of %s after %s: %s, want a completed task at once", owner, time.Since(started), w.Body)
			}
		}
		w := <-answers
		if since := time.Since(started); !strings.Contains(w.Body.String(), "-32052") || !strings.Contains(w.Body.String(), "--max-lists") || since != 10*time.Second {
			t.Errorf("after %v: %s, want -32052 that names --max-lists after 10s", since, w.Body)
		}
		close(s.release)
		for range 3 {
			if w := <-answers; !strings.Contains(w.Body.String(), `"result":{"tasks":[`) {
				t.Errorf("%s, want a result for lists within the share", w.Body)
			}
		}
	})
}
