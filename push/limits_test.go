package push

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/safehttp"
	"github.com/holdfast-dev/holdfast/store"
)

// Whatever comes and goes, a lane that waits has another to wait for.
func TestLimitsLetNoLaneWaitForAnIdleEndpoint(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		dice, now := newDice(seed), time.Unix(1e9, 0)
		m := newLimits(Config{InFlight: 1 + dice.below(6), PerEndpoint: 1 + dice.below(4), PerOwner: 1 + dice.below(20), Bytes: 100})
		var in []*lane // begun, or waiting
		for step := range 300 {
			now = now.Add(dice.upTo(2 * time.Second))
			e := m.endpoint(fmt.Sprint("e", dice.below(4)))
			switch n := dice.below(10); {
			case n == 0:
				e.shrink(now, m.perEndpoint)
			case n == 1:
				e.proven = !e.proven
			case n < 6 || len(in) == 0:
				l := &lane{endpoint: e, lease: store.LaneLease{Task: store.Key{Owner: fmt.Sprint("o", dice.below(3))}}}
				l.size = 1 + dice.below(150)
				if m.admit(l, now, dice.float()); l.counted {
					in = append(in, l)
				}
			default:
				i := dice.below(len(in))
				m.leave(in[i], now)
				in = slices.Delete(in, i, i+1)
			}
			total := 0
			for _, l := range in {
				total += l.size
			}
			if m.bytes != total || total > m.most && len(in) > 1 {
				t.Fatalf("seed %d, step %d: %d lanes of %d bytes are in, %d counted, want at most %d or one", seed, step, len(in), total, m.bytes, m.most)
			}
			if idle := m.idle(); len(idle) > 0 {
				t.Fatalf("seed %d, step %d: lanes wait for %v, of which none is under way", seed, step, idle)
			}
		}
	}
}

// Lanes of others that begin while the store answers a claim take the last place there is.
func TestALaneForWhichThereIsNoPlaceComesAgain(t *testing.T) {
	inBubble(t, plan{config: func(c *Config) {
		c.InFlight, c.PerEndpoint, c.Timeout, c.Lease, c.Schedule = 4, 4, 15*time.Second, 30*time.Second, nil
	}}, func(w *world) {
		s := w.replicas[0].s
		w.answers(func(string, *post, int) (safehttp.Response, error) {
			time.Sleep(time.Second)
			return status(200)
		})
		s.mu.Lock()
		e := s.limits.endpoint("https://endpoint-0.example.com:443")
		e.limit, e.shrunkAt = 1, s.now().Add(-9500*time.Millisecond) // it has asked for less 9.5 s ago
		s.mu.Unlock()
		for n := range 4 {
			w.story("alice", fmt.Sprint("t", n), 0, 0)
		}
		time.Sleep(900 * time.Millisecond)
		w.replicas[0].store.answerLate(300 * time.Millisecond)
		task := store.Key{Owner: "bob", ID: "b"}
		w.create(task, w.hook(task, 1), w.hook(task, 2), w.hook(task, 3))
		time.Sleep(5 * time.Second)
		w.replicas[0].store.answerLate(0)
		w.drain(time.Minute)
		w.checkAll()
		w.equal("problems", s.Health(), []string{})
	})
}

func TestHealthTellsOfLanesThatWouldWaitForEver(t *testing.T) {
	inBubble(t, plan{}, func(w *world) {
		s := w.replicas[0].s
		s.mu.Lock()
		e := s.limits.endpoint("https://idle.example.com:443")
		e.waiting = []*lane{{endpoint: e}}
		s.mu.Unlock()
		w.equal("problems", s.Health(), []string{"push: webhooks wait for 1 endpoints that are not being called"})
		s.mu.Lock()
		e.waiting = nil
		s.mu.Unlock()
	})
}

// However many have large events.
func TestEventsTakeABoundedAmountOfMemory(t *testing.T) {
	const size, lanes = 1 << 20, 40
	var under, most atomic.Int64
	inBubble(t, plan{config: func(c *Config) { c.Bytes = 8 * size }}, func(w *world) {
		w.answers(func(_ string, p *post, _ int) (safehttp.Response, error) {
			defer under.Add(-int64(len(p.body)))
			if now := under.Add(int64(len(p.body))); now > most.Load() {
				most.Store(now)
			}
			time.Sleep(time.Second)
			return status(200)
		})
		for n := range lanes {
			task := store.Key{Owner: fmt.Sprint("owner-", n), ID: "t"}
			w.create(task, w.hook(task, n))
			w.tell(task, 2, chunk(strings.Repeat("x", size)))
		}
		w.tell(store.Key{Owner: "owner-0", ID: "t"}, 3, chunk(strings.Repeat("x", 20*size))) // more than that by itself
		w.drain(10 * time.Minute)
		w.checkAll()
		if got := most.Load(); got > 21*size || got < 20*size {
			w.t.Errorf("requests of up to %d bytes were under way, want the largest, and little beside it", got)
		}
	})
}
