package webhook

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/safehttp"
	"github.com/holdfast-dev/holdfast/store"
)

// receiverFaults are faults of one owner's receivers at a host that other owners use too.
var receiverFaults = map[string]func(longest time.Duration) (status int, after time.Duration){
	"answers late":     func(longest time.Duration) (int, time.Duration) { return 200, longest * 9 / 10 },
	"hangs":            func(longest time.Duration) (int, time.Duration) { return 200, 10 * longest },
	"answers 500":      func(time.Duration) (int, time.Duration) { return 500, 0 },
	"answers 429":      func(time.Duration) (int, time.Duration) { return 429, 0 },
	"answers 503 late": func(longest time.Duration) (int, time.Duration) { return 503, longest * 9 / 10 },
}

// An event of another owner at the same host waits for one attempt at most.
func TestOneOwnersReceiversDoNotDelayOthersAtTheHost(t *testing.T) {
	for name, fault := range receiverFaults {
		t.Run(name, func(t *testing.T) {
			inBubble(t, plan{config: func(c *Config) { c.Timeout, c.Lease, c.Schedule = 10*time.Second, 30*time.Second, nil }}, func(w *world) {
				w.setAnswer(func(_ string, p *post, _ int) (safehttp.Response, error) {
					if p.lane.task.Owner == "alice" {
						return status(200)
					}
					code, after := fault(10 * time.Second)
					if after > 10*time.Second {
						time.Sleep(10 * time.Second)
						return safehttp.Response{}, &safehttp.Error{Outcome: safehttp.OutcomeTimeout, Err: fmt.Errorf("no answer")}
					}
					time.Sleep(after)
					return status(code)
				})
				for n := range 40 {
					w.newTask("bob", fmt.Sprint("b", n), 0, 5)
				}
				time.Sleep(time.Minute)
				for n := range 20 {
					before := time.Now()
					id := w.newTask("alice", fmt.Sprint("a", n), 0, 0)
					for len(w.postsOf(id)) == 0 && time.Since(before) < time.Minute {
						time.Sleep(10 * time.Millisecond)
					}
					if took := time.Since(before); took > time.Second {
						t.Errorf("event %d took %s, want at most 1s", n, took)
					}
					time.Sleep(3 * time.Second)
				}
				if wakes := w.replicas[0].store.count("WakeLanes"); wakes > 100 {
					t.Errorf("%d calls of WakeLanes, want at most 100", wakes)
				}
				if s := w.replicas[0].s; len(s.Health()) > 0 {
					t.Errorf("Health() = %v, want no problems", s.Health())
				}
			})
		})
	}
}

// A success of one owner makes the host available for all owners.
func TestRecoveredHostIsCalledForAllOwners(t *testing.T) {
	for _, owners := range testSizes(1, 30, 300) {
		for _, outage := range testSizes(30*time.Second, 5*time.Minute, 10*time.Hour) {
			t.Run(fmt.Sprint(owners, " ", outage), func(t *testing.T) {
				inBubble(t, plan{config: func(c *Config) { c.Schedule = nil }}, func(w *world) {
					w.setDown("endpoint-0.example.com", true)
					for n := range owners {
						w.newTask(fmt.Sprint("owner-", n), fmt.Sprint("t", n), 0, 3)
					}
					time.Sleep(outage)
					w.setDown("endpoint-0.example.com", false)
					up := time.Now()
					w.newTask("alice", "t", 0, 0)
					w.drain(24 * time.Hour)
					if took := time.Since(up); took > 15*time.Second {
						t.Errorf("drained %s after the outage, want at most 15s", took)
					}
					w.checkAll()
				})
			})
		}
	}
}

// Like the test before, with a real HTTP server and a tenth of the times.
func TestOneOwnersReceiversDoNotDelayOthersAtARealHost(t *testing.T) {
	t.Parallel()
	const longest, webhooks, tasks = time.Second, 40, 5
	for name, fault := range receiverFaults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			arrived := make(map[string]func())
			bobPosts := 0
			receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if task, ok := strings.CutPrefix(r.URL.Path, "/alice/"); ok {
					mu.Lock()
					defer mu.Unlock()
					arrived[task]()
					return
				}
				_, _ = io.Copy(io.Discard, r.Body) // net/http detects a closed connection only after this
				mu.Lock()
				bobPosts++
				mu.Unlock()
				code, after := fault(longest)
				select {
				case <-time.After(after):
				case <-r.Context().Done():
				}
				w.WriteHeader(code)
			}))
			defer receiver.Close()
			st := inmem.New()
			defer st.Close()
			ids := 0
			s, err := New(Config{
				Store: st, NewID: func() string { ids++; return fmt.Sprint(ids) }, Settings: Settings{AllowNets: []string{"127.0.0.0/8"}, Timeout: longest, Lease: 3 * time.Second, Poll: 50 * time.Millisecond},
			})
			if err == nil {
				err = s.Start(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			defer s.Stop(t.Context())
			add := func(owner, id string) {
				task := store.Key{Owner: owner, ID: id}
				data, err := sealer(nil).encode(settings{URL: receiver.URL + "/" + owner + "/" + id}, task, "w")
				if err != nil {
					t.Fatal(err)
				}
				results, err := st.Commit(t.Context(), store.Change{
					Key: task, Create: &store.Create{ContextID: "c"}, Queue: &store.QueueEntry{Phase: store.PhaseIdle},
					Events:   []store.Event{{Time: time.Now(), State: a2a.StateCompleted}},
					Webhooks: []store.NewWebhook{{ID: "w", Endpoint: endpointOf(receiver.URL), Data: data}},
				})
				if err != nil || results[0].Err != nil {
					t.Fatal(err, results)
				}
			}
			for n := range webhooks {
				add("bob", fmt.Sprint("b", n))
			}
			await.True(t, "the host is busy", func() bool {
				mu.Lock()
				defer mu.Unlock()
				return bobPosts >= 7
			})
			var waits []int // attempts of the other owner before each event
			for n := range tasks {
				id := fmt.Sprint("a", n)
				mu.Lock()
				done := make(chan struct{})
				arrived[id] = sync.OnceFunc(func() { close(done) }) // attempts may be repeated
				before := bobPosts
				mu.Unlock()
				started := time.Now()
				add("alice", id)
				select {
				case <-done:
				case <-time.After(await.Limit):
					t.Fatalf("event %d did not arrive", n)
				}
				mu.Lock()
				t.Logf("event %d arrived after %s and %d attempts of others", n, time.Since(started), bobPosts-before)
				waits = append(waits, bobPosts-before)
				mu.Unlock()
			}
			// Twice the concurrent requests. The median, since events may be late on a slow machine.
			slices.Sort(waits)
			if _, after := fault(longest); after > 0 && waits[tasks/2] > 16 {
				t.Errorf("events waited for %v attempts of others, want at most 16", waits)
			}
		})
	}
}
