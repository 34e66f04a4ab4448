package webhook

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/memory"
	"github.com/holdfast-dev/holdfast/internal/safehttp"
	"github.com/holdfast-dev/holdfast/store"
)

// bodies records the memory addresses of request bodies.
type bodies struct {
	Sender
	mu sync.Mutex
	at map[string]map[*byte]int // by event id and body, the number of requests
}

func (b *bodies) Post(ctx context.Context, r safehttp.Request) (safehttp.Response, error) {
	b.mu.Lock()
	id := r.Header.Get("Webhook-Id")
	if b.at[id] == nil {
		b.at[id] = make(map[*byte]int)
	}
	b.at[id][unsafe.SliceData(r.Body)]++
	b.mu.Unlock()
	return b.Sender.Post(ctx, r)
}

// Three tasks of 6 MB with ten webhooks each. Receivers do not respond until all ten of a task
// have a request. The service is stopped in between, and another one continues. The test is not
// parallel, since it measures the heap.
func TestWebhooksOfLargeTasksShareTheirBodiesWithinTheBudget(t *testing.T) {
	const tasks, hooks, chunks, size, total = 3, 10, 6, 1 << 20, 64 << 20
	st := inmem.New()
	defer st.Close()
	var mu sync.Mutex
	got := make(map[string]int)            // responses of 200 by task and receiver
	arrived := make(map[string]*sync.Cond) // by task
	counts := make(map[string]int)
	stopped := make(chan struct{})
	var urls []string
	for n := range hooks {
		receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.Copy(io.Discard, r.Body)
			if err != nil {
				return // the service stopped
			}
			if body < chunks*size {
				t.Errorf("receiver %d got %d bytes, want the whole task", n, body)
			}
			task := r.URL.Query().Get("task")
			mu.Lock()
			defer mu.Unlock()
			if arrived[task] == nil {
				arrived[task] = sync.NewCond(&mu)
			}
			counts[task]++
			arrived[task].Broadcast()
			stop := context.AfterFunc(r.Context(), arrived[task].Broadcast)
			defer stop()
			for counts[task] < hooks && r.Context().Err() == nil {
				arrived[task].Wait()
			}
			if r.Context().Err() != nil {
				counts[task]--
				return
			}
			got[fmt.Sprint(task, n)]++
		}))
		defer receiver.Close()
		urls = append(urls, receiver.URL)
	}
	policy, err := safehttp.ParsePolicy(safehttp.PolicyParams{AllowNets: []string{"127.0.0.0/8"}})
	if err != nil {
		t.Fatal(err)
	}
	client, err := safehttp.New(safehttp.ClientConfig{Policy: policy, Timeout: time.Minute, MaxPerAddress: 100})
	if err != nil {
		t.Fatal(err)
	}
	seen := &bodies{Sender: client, at: make(map[string]map[*byte]int)}
	budget := memory.New(total)
	ids := 0
	start := func() *Service {
		s, err := New(Config{
			Store: st, Sender: seen, Memory: budget, NewID: func() string { ids++; return fmt.Sprint("worker-", ids) },
			Settings: Settings{
				Timeout: time.Minute, Lease: 2 * time.Minute, Poll: 50 * time.Millisecond,
				Schedule: []time.Duration{50 * time.Millisecond, 100 * time.Millisecond, time.Minute, time.Minute, time.Minute, time.Minute},
			},
		})
		if err == nil {
			err = s.Start(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for n := range tasks {
		task := store.Key{Owner: "bob", ID: fmt.Sprint("t", n)}
		log := []store.Event{{State: a2a.StateSubmitted}}
		for range chunks {
			log = append(log, chunk(strings.Repeat("x", size)))
		}
		change := store.Change{Key: task, Create: &store.Create{ContextID: "c"}, Events: log, Queue: &store.QueueEntry{Phase: store.PhaseIdle}}
		end := store.Change{Key: task, Version: chunks + 1, Events: []store.Event{{State: a2a.StateCompleted}}}
		for i, url := range urls {
			data, err := sealer(nil).encode(settings{URL: url + "/?task=" + task.ID, Format: a2a.PayloadTask}, task, fmt.Sprint("w", i))
			if err != nil {
				t.Fatal(err)
			}
			end.Webhooks = append(end.Webhooks, store.NewWebhook{
				ID: fmt.Sprint("w", i), Endpoint: endpointOf(url), Data: data, Cursor: store.WebhookCursor{Seq: chunks + 1, Sequence: chunks},
			})
		}
		for _, c := range []store.Change{change, end} {
			for i := range c.Events {
				c.Events[i].Time = time.Now()
			}
			if results, err := st.Commit(t.Context(), c); err != nil || results[0].Err != nil {
				t.Fatal(err, results)
			}
		}
	}
	live := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, most := live(), uint64(0)
	measured := make(chan struct{})
	go func() {
		defer close(measured)
		for {
			select {
			case <-stopped:
				return
			case <-time.After(20 * time.Millisecond):
				most = max(most, live())
			}
		}
	}()

	first := start()
	await.True(t, "a receiver gets a request", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(counts) > 0
	})
	now, cancel := context.WithCancel(t.Context())
	cancel()
	if err := first.Stop(now); err != nil {
		t.Errorf("Stop() = %v", err)
	}
	if held := budget.Stats().Held; held != 0 {
		t.Errorf("%d bytes are reserved after Stop(), want 0", held)
	}
	second := start()
	await.True(t, "all events are delivered", func() bool {
		backlog, err := st.WebhookBacklog(t.Context())
		if err != nil || backlog.Dead > 0 {
			t.Fatalf("WebhookBacklog() = %+v, %v, want no dead letters", backlog, err)
		}
		return backlog.Pending == 0
	})
	if err := second.Stop(t.Context()); err != nil {
		t.Errorf("Stop() = %v", err)
	}
	close(stopped)
	<-measured
	if len(got) != tasks*hooks {
		t.Errorf("%d of %d receivers got their task", len(got), tasks*hooks)
	}
	for id, at := range seen.at {
		shares := 0
		for _, n := range at {
			shares = max(shares, n)
		}
		if shares < hooks {
			t.Errorf("event %s: %d bodies, the most shared one served %d requests, want %d", id, len(at), shares, hooks)
		}
	}
	if stats := budget.Stats(); stats.Held != 0 || stats.Largest > total || stats.Largest < chunks*size {
		t.Errorf("budget: %+v, want nothing reserved and at most %d", stats, total)
	}
	t.Logf("heap: %d MiB before, at most %d MiB more", before>>20, (most-before)>>20)
	// Includes connections and garbage of the test. Requests that share no bodies need 180 MiB.
	if most-before > 2*total && raceShare == 1 {
		t.Errorf("the heap grew by %d MiB, the budget is %d MiB", (most-before)>>20, total>>20)
	}
}

func TestEventLargerThanTheMemoryShareIsADeadLetter(t *testing.T) {
	for _, format := range []a2a.PayloadFormat{a2a.PayloadEvent, a2a.PayloadTask} {
		t.Run(string(format), func(t *testing.T) {
			inBubble(t, plan{config: func(c *Config) { c.Memory = memory.New(8 << 20) }}, func(w *world) {
				task := store.Key{Owner: "alice", ID: "t"}
				w.create(task, w.newHookWithFormat(task, 1, format))
				w.appendEvent(task, 2, chunk("before"))
				w.appendEvent(task, 3, chunk(strings.Repeat("x", 20<<20)))
				w.appendEvent(task, 4, chunk("after"))
				w.drain(time.Minute)
				letters := w.deadOf(laneID{task, "t-hook-1"})
				want := 1
				if format == a2a.PayloadTask {
					want = 2 // the task remains too large
				}
				if d := letters[3]; len(letters) != want || d.Seq != 4 || !strings.Contains(d.Reason, "too large") || d.Attempts != 0 {
					t.Errorf("%s: dead letters = %+v, want %d that are too large", format, letters, want)
				}
				if got := len(w.posts); got != 4-want {
					t.Errorf("%s: %d updates were sent, want %d", format, got, 4-want)
				}
				if l := w.laneOf(laneID{task, "t-hook-1"}); l.State != store.LaneActive || l.Pending() {
					t.Errorf("%s: lane = %+v, want active and not pending", format, l)
				}
			})
		})
	}
}

func TestLaneWaitsForMemory(t *testing.T) {
	for _, text := range []string{"small", strings.Repeat("x", 1<<20)} {
		t.Run(fmt.Sprint(len(text)), func(t *testing.T) {
			budget := memory.New(16 << 20)
			inBubble(t, plan{config: func(c *Config) { c.Memory = budget }}, func(w *world) {
				others := budget.Hold("bob")
				if !others.TryGrow(budget.Share()) {
					t.Fatal("the budget is not free")
				}
				for _, owner := range []string{"bob", "alice"} {
					task := store.Key{Owner: owner, ID: "t"}
					w.create(task, w.newHook(task, 1))
					w.appendEvent(task, 2, chunk(text))
				}
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				s := w.replicas[0].s
				if stats := s.Stats(); len(w.posts) != 2 || stats.MemoryRefused == 0 || stats.Failed+stats.DeadLetters != 0 {
					t.Errorf("without memory: %d requests, %+v, want 2 and refused reservations", len(w.posts), stats)
				}
				if l := w.laneOf(laneID{store.Key{Owner: "bob", ID: "t"}, "t-hook-1"}); l.Attempt != 0 || !l.Pending() {
					t.Errorf("waiting lane = %+v, want no attempts", l)
				}
				others.Release()
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if len(w.posts) != 4 {
					t.Errorf("with memory: %d requests in total, want 4", len(w.posts))
				}
				w.checkAll()
				if stats := s.Stats(); stats.Memory != 0 || stats.WaitingForMemory != 0 {
					t.Errorf("after delivery: %+v, want nothing reserved", stats)
				}
			})
		})
	}
}
