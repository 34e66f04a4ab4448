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

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// ear gathers what a Watch tells.
type ear struct {
	mu    sync.Mutex
	tasks []store.Key
	work  bool
	lost  int
	ended chan error
}

func listenTo(ctx context.Context, s *Store) *ear {
	e := &ear{ended: make(chan error, 1)}
	go func() {
		e.ended <- s.Watch(ctx, func(n store.Notice) {
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

// until waits for something that was heard.
func (e *ear) until(t *testing.T, what string, happened func() bool) {
	t.Helper()
	await(t, what+" arrives", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return happened()
	})
}

func TestStoresTellEachOther(t *testing.T) {
	t.Parallel()
	cfg := fresh(storetest.Wrap(t), Config{})
	a, b, elsewhere := open(storetest.Wrap(t), cfg), open(storetest.Wrap(t), cfg), open(storetest.Wrap(t), fresh(storetest.Wrap(t), Config{}))
	for _, s := range []*Store{a, b, elsewhere} {
		s.news.check = 10 * time.Millisecond // silences are looked into
	}
	ctx, leave := context.WithCancel(t.Context())
	own, other, stranger := listenTo(ctx, a), listenTo(ctx, b), listenTo(ctx, elsewhere)
	for _, e := range []*ear{own, other, stranger} {
		e.until(t, "that something may have been missed before", func() bool { return e.lost == 1 })
	}
	time.Sleep(100 * time.Millisecond)
	queued := submitted(1)
	queued.Run = &store.Run{Phase: store.PhaseQueued, Turn: 1}
	queued.Events = queued.Events[:1]
	must(t, commitOne(a, queued))
	other.until(t, "the change of the other store", func() bool { return slices.Contains(other.tasks, taskKey(1)) && other.work })
	if _, err := b.Claim(t.Context(), store.ClaimParams{Worker: testWorker, Limit: 1, Now: began, Until: began, Event: submitted(1).Events[1]}); err != nil {
		t.Fatal(err)
	}
	own.until(t, "the claim of the other store", func() bool { return slices.Contains(own.tasks, taskKey(1)) && !own.work })
	stranger.mu.Lock()
	if len(stranger.tasks) > 0 {
		t.Errorf("a store on another schema heard of %v", stranger.tasks)
	}
	stranger.mu.Unlock()
	leave()
	for _, e := range []*ear{own, other, stranger} {
		if err := <-e.ended; err != nil {
			t.Errorf("Watch() = %v, want nil when its context is done", err)
		}
	}
}

func TestAWatchEndsWithItsConnection(t *testing.T) {
	t.Parallel()
	cfg := fresh(storetest.Wrap(t), Config{})
	s := open(storetest.Wrap(t), cfg)
	e := listenTo(t.Context(), s)
	e.until(t, "the beginning", func() bool { return e.lost == 1 })
	c, err := pgx.Connect(t.Context(), cfg.URL)
	must(t, err)
	defer func() { _ = c.Close(t.Context()) }()
	// Only its own: other tests share the server.
	if _, err := c.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = $1", "LISTEN "+s.channel()); err != nil {
		t.Fatal(err)
	}
	within(t, "Watch() ends with its connection", func() {
		if err := <-e.ended; err == nil {
			t.Error("Watch() = nil, want an error when the connection is gone")
		}
	})
}

func TestNoticesFitANotification(t *testing.T) {
	t.Parallel()
	n := newNews()
	want := map[store.Key]bool{}
	for i := range 1000 {
		k := store.Key{Owner: strings.Repeat("ö", i%300), ID: fmt.Sprint(i)}
		n.add(i == 7, k)
		want[k] = true
	}
	n.add(false, store.Key{Owner: strings.Repeat("x", 9000), ID: "long"})
	s := &Store{news: newNews()}
	lost := false
	for _, p := range n.take() {
		if len(p) >= 8000 {
			t.Errorf("a payload has %d bytes, PostgreSQL takes less than 8000", len(p))
		}
		notice := s.notice(p)
		if lost = lost || notice.Lost; !notice.Work {
			t.Errorf("a payload does not tell of work: %.80s", p)
		}
		for _, k := range notice.Tasks {
			if !want[k] {
				t.Errorf("told of %q twice or without reason", k)
			}
			delete(want, k)
		}
	}
	if len(want) != 0 || !lost {
		t.Errorf("%d tasks are not told, lost = %t; want all but the one that is too long, which is lost", len(want), lost)
	}
	if p := n.take(); p != nil {
		t.Errorf("take() again = %v, want nothing", p)
	}
	for i := range noticeKeys + 10 {
		n.add(false, store.Key{Owner: "o", ID: fmt.Sprint(i)})
	}
	if p := n.take(); len(p) != 1 || !s.notice(p[0]).Lost {
		t.Errorf("take() of very many = %d payloads, want one that says so", len(p))
	}
}
