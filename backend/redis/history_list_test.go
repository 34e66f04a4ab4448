//go:build services

package redis

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/testseed"
	"github.com/holdfast-dev/holdfast/store/history"
)

// testClock is a clock that a test sets.
type testClock struct{ ms atomic.Int64 }

func newTestClock() *testClock {
	c := &testClock{}
	c.ms.Store(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC).UnixMilli())
	return c
}

func (c *testClock) now() time.Time          { return fromMillis(c.ms.Load()) }
func (c *testClock) advance(d time.Duration) { c.ms.Add(d.Milliseconds()) }

// list returns the names of all sessions of the owner of testKey.
func list(t *testing.T, p history.Provider, limit int) (names []string) {
	t.Helper()
	q := history.SessionQuery{Owner: testKey.Owner, Limit: limit}
	for {
		page, err := p.(history.SessionLister).Sessions(t.Context(), q)
		must(t, err)
		for _, s := range page.Sessions {
			names = append(names, s.Key.Session)
		}
		if q.Next = page.Next; q.Next == nil {
			return names
		}
	}
}

// Entries that interrupted calls left are corrected when they are read, but only when they are old.
func TestIndexIsCorrected(t *testing.T) {
	t.Parallel()
	srv, clock := startServer(t), newTestClock()
	s := open(t, Config{URL: srv.url(), Now: clock.now})
	h, c, index := s.history, srv.client(t), s.indexKey(kindIndex, testKey.Owner)
	add := func(session string, expected *int64) error {
		k := testKey
		k.Session = session
		_, err := h.Append(bg, k, history.AppendParams{Messages: text("a"), Expected: expected})
		return err
	}
	must(t, add("old", nil))
	at := clock.now()
	clock.advance(5 * time.Minute)
	must(t, add("new", nil))
	if err := add("old", new(int64(9))); err == nil {
		t.Fatal("Append() with a wrong expected sequence succeeded")
	}
	lost := testKey
	lost.Session = "lost"
	must(t, h.index(bg, lost, h.now())) // and the process ends
	check := func(entries int64, score time.Time) {
		t.Helper()
		if got := list(t, h, 1); !slices.Equal(got, []string{"new", "old"}) {
			t.Errorf("Sessions() = %v, want new and old", got)
		}
		if n := c.ZCard(bg, index).Val(); n != entries {
			t.Errorf("index has %d entries, want %d", n, entries)
		}
		if got := c.ZScore(bg, index, member(testKey.Agent, "old")).Val(); got != float64(score.UnixMilli()) {
			t.Errorf("entry of the old session has the time %.0f, want %d", got, score.UnixMilli())
		}
	}
	check(3, clock.now())
	clock.advance(11 * time.Minute)
	check(2, at)
	must(t, c.Del(bg, index).Err()) // by an operator
	must(t, add("old", nil))
	if got := list(t, h, 1); !slices.Equal(got, []string{"old"}) {
		t.Errorf("Sessions() = %v, want the session with an append since", got)
	}
}

// An index that nobody reads loses the entries of cleared and expired sessions.
func TestIndexDoesNotOnlyGrow(t *testing.T) {
	t.Parallel()
	srv, clock := startServer(t), newTestClock()
	s := open(t, Config{URL: srv.url(), Now: clock.now})
	for i := range 2000 {
		k := testKey
		k.Session = strconv.Itoa(i)
		_, err := s.History().Append(bg, k, history.AppendParams{Messages: text("a"), TTL: time.Minute})
		must(t, err)
		clock.advance(10 * time.Second)
	}
	if n := srv.client(t).ZCard(bg, s.indexKey(kindIndex, testKey.Owner)).Val(); n > 500 {
		t.Errorf("index has %d entries after 2000 sessions of a minute, want much less", n)
	}
}

// Two stores append to many sessions, also without success, and clear some. Lists have the order of
// the last appends.
func TestSessionsAreInOrder(t *testing.T) {
	t.Parallel()
	seed := testseed.Of(t)
	random := rand.New(rand.NewPCG(seed, 0))
	srv, clock := startServer(t), newTestClock()
	stores := []*Store{
		open(t, Config{URL: srv.url(), Now: clock.now, Prefix: "order:"}),
		open(t, Config{URL: srv.url(), Now: clock.now, Prefix: "order:"}),
	}
	updated := make(map[string]int64)
	for n := range 4000 {
		k := testKey
		k.Session = fmt.Sprintf("%03d", random.IntN(300))
		h := stores[random.IntN(2)].history
		switch i := random.IntN(20); {
		case i == 0:
			must(t, h.Clear(bg, k))
			delete(updated, k.Session)
		case i < 3:
			if _, err := h.Append(bg, k, history.AppendParams{Messages: text("a"), Expected: new(int64(1 << 40))}); err == nil {
				t.Fatal("Append() with a wrong expected sequence succeeded")
			}
		default:
			_, err := h.Append(bg, k, history.AppendParams{Messages: text("a")})
			must(t, err)
			updated[k.Session] = h.now()
		}
		if random.IntN(3) == 0 {
			clock.advance(time.Duration(random.IntN(40)) * time.Second)
		}
		if n%500 != 499 {
			continue
		}
		var want []string
		for session := range updated {
			want = append(want, session)
		}
		slices.SortFunc(want, func(a, b string) int {
			if updated[a] != updated[b] {
				return int(updated[b] - updated[a])
			}
			return int(b[0])*10000 + int(b[1])*100 + int(b[2]) - int(a[0])*10000 - int(a[1])*100 - int(a[2])
		})
		if got := list(t, h, 1+random.IntN(60)); !slices.Equal(got, want) {
			t.Fatalf("seed %d, call %d: Sessions() = %v, want %v", seed, n, got, want)
		}
	}
}
