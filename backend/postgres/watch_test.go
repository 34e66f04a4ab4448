//go:build services

package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// watchRecorder records the notifications of a Watch.
type watchRecorder struct {
	mu    sync.Mutex
	tasks []store.Key
	work  bool
	lost  int
	ended chan error
}

func recordWatch(ctx context.Context, s *Store) *watchRecorder {
	e := &watchRecorder{ended: make(chan error, 1)}
	go func() {
		e.ended <- s.Watch(ctx, func(n store.Notification) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.tasks, e.work = append(e.tasks, n.Tasks...), e.work || n.Work
			if n.Lost {
				e.lost++
			}
		})
	}()
	return e
}

// await waits until a condition on the recorded notifications holds.
func (e *watchRecorder) await(t *testing.T, what string, happened func() bool) {
	t.Helper()
	await.True(t, what+" arrives", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return happened()
	})
}

func TestStoresNotifyEachOther(t *testing.T) {
	t.Parallel()
	cfg := emptyConfig(storetest.Wrap(t), Config{})
	a, b, elsewhere := open(storetest.Wrap(t), cfg), open(storetest.Wrap(t), cfg), open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{}))
	for _, s := range []*Store{a, b, elsewhere} {
		s.outbox.idleCheck = 10 * time.Millisecond // check idle connections often
	}
	ctx, leave := context.WithCancel(t.Context())
	own, other, unrelated := recordWatch(ctx, a), recordWatch(ctx, b), recordWatch(ctx, elsewhere)
	for _, e := range []*watchRecorder{own, other, unrelated} {
		e.await(t, "the first notification", func() bool { return e.lost == 1 })
	}
	time.Sleep(100 * time.Millisecond) // the idle connections are checked, which leaves no signal
	queued := submitted(1)
	queued.Queue = &store.QueueEntry{Phase: store.PhaseQueued, Turn: 1}
	queued.Events = queued.Events[:1]
	must(t, commitOne(a, queued))
	other.await(t, "the change of the other store", func() bool { return slices.Contains(other.tasks, taskKey(1)) && other.work })
	if _, err := b.Claim(t.Context(), store.ClaimParams{Worker: testWorker, Limit: 1, Now: testStart, Until: testStart, Event: submitted(1).Events[1]}); err != nil {
		t.Fatal(err)
	}
	own.await(t, "the claim of the other store", func() bool { return slices.Contains(own.tasks, taskKey(1)) && !own.work })
	unrelated.mu.Lock()
	if len(unrelated.tasks) > 0 {
		t.Errorf("a store on another schema was notified of %v", unrelated.tasks)
	}
	unrelated.mu.Unlock()
	leave()
	for _, e := range []*watchRecorder{own, other, unrelated} {
		if err := <-e.ended; err != nil {
			t.Errorf("Watch() = %v, want nil when its context is done", err)
		}
	}
}

func TestWatchEndsWithItsConnection(t *testing.T) {
	t.Parallel()
	cfg := emptyConfig(storetest.Wrap(t), Config{})
	s := open(storetest.Wrap(t), cfg)
	e := recordWatch(t.Context(), s)
	e.await(t, "the first notification", func() bool { return e.lost == 1 })
	c, err := pgx.Connect(t.Context(), cfg.URL)
	must(t, err)
	defer func() { _ = c.Close(t.Context()) }()
	// Only its own session: other tests share the server.
	if _, err := c.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = $1", "LISTEN "+s.channel()); err != nil {
		t.Fatal(err)
	}
	within(t, "Watch() ends with its connection", func() {
		if err := <-e.ended; err == nil {
			t.Error("Watch() = nil, want an error when the connection is lost")
		}
	})
}

func TestPayloadsFitANotification(t *testing.T) {
	t.Parallel()
	n := newOutbox()
	want := map[store.Key]bool{}
	for i := range 1000 {
		k := store.Key{Owner: strings.Repeat("ö", i%300), ID: fmt.Sprint(i)}
		n.add(i == 7, k)
		want[k] = true
	}
	n.add(false, store.Key{Owner: strings.Repeat("x", 9000), ID: "long"})
	s := &notifier{outbox: newOutbox()}
	lost := false
	for _, p := range n.take() {
		if len(p) >= 8000 {
			t.Errorf("a payload has %d bytes, PostgreSQL takes less than 8000", len(p))
		}
		notice := s.decodeNotification(p)
		if lost = lost || notice.Lost; !notice.Work {
			t.Errorf("payload without work: %.80s", p)
		}
		for _, k := range notice.Tasks {
			if !want[k] {
				t.Errorf("payloads name %q twice or without a change", k)
			}
			delete(want, k)
		}
	}
	if len(want) != 0 || !lost {
		t.Errorf("payloads miss %d tasks, lost = %t; want all tasks but the one that is too long, and lost", len(want), lost)
	}
	if p := n.take(); p != nil {
		t.Errorf("take() again = %v, want nothing", p)
	}
	for i := range maxPendingTasks + 10 {
		n.add(false, store.Key{Owner: "o", ID: fmt.Sprint(i)})
	}
	if p := n.take(); len(p) != 1 || !s.decodeNotification(p[0]).Lost {
		t.Errorf("take() of too many tasks = %d payloads, want one with lost", len(p))
	}
}
