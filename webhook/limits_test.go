package webhook

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/safehttp"
	"github.com/holdfast-dev/holdfast/store"
)

// Random operations: a waiting lane always waits for an active one.
func TestNoLaneWaitsForAnIdleEndpoint(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		dice, now := newDice(seed), time.Unix(1e9, 0)
		m := newLimits(Config{Settings: Settings{Limits: Limits{InFlight: 1 + dice.below(6), PerEndpoint: 1 + dice.below(4), PerOwner: 1 + dice.below(20)}}})
		var in []*lane // active or waiting
		for step := range 300 {
			now = now.Add(dice.upTo(2 * time.Second))
			name := endpointName{fmt.Sprint("o", dice.below(3)), fmt.Sprint("e", dice.below(4))}
			e := m.endpoint(name)
			switch n := dice.below(10); {
			case n == 0:
				e.shrink(now, m.perEndpoint)
			case n == 1:
				e.proven = !e.proven
			case n < 6 || len(in) == 0:
				l := &lane{endpoint: e, lease: store.LaneLease{Task: store.Key{Owner: name.owner}}}
				if m.admit(l, now, dice.float()); l.counted {
					in = append(in, l)
				}
			default:
				i := dice.below(len(in))
				m.remove(in[i], now)
				in = slices.Delete(in, i, i+1)
			}
			waiting := make(map[*host]int)
			for _, e := range m.endpoints {
				waiting[e.host] += len(e.waiting)
			}
			for address, h := range m.hosts {
				if h.waiting != waiting[h] {
					t.Fatalf("seed %d, step %d: host %s has waiting = %d, want %d", seed, step, address, h.waiting, waiting[h])
				}
				if h.active > m.perHost {
					t.Fatalf("seed %d, step %d: %d requests to %s, want at most %d", seed, step, h.active, address, m.perHost)
				}
			}
			if idle := m.stalled(); len(idle) > 0 {
				t.Fatalf("seed %d, step %d: lanes wait for %v, which have no active lane", seed, step, idle)
			}
		}
	}
}

// Other lanes that start while a claim is in progress use the last slot.
func TestLaneWithoutASlotIsClaimedAgain(t *testing.T) {
	inBubble(t, plan{config: func(c *Config) {
		c.Limits.InFlight, c.Limits.PerEndpoint, c.Timeout, c.Lease, c.Schedule = 4, 4, 15*time.Second, 30*time.Second, nil
	}}, func(w *world) {
		s := w.replicas[0].s
		w.setAnswer(func(string, *post, int) (safehttp.Response, error) {
			time.Sleep(time.Second)
			return status(200)
		})
		s.endpoints.mu.Lock()
		e := s.endpoints.limits.endpoint(endpointName{"bob", "https://endpoint-0.example.com:443"})
		e.limit, e.shrunkAt = 1, s.now().Add(-9500*time.Millisecond) // throttled 9.5 s ago
		s.endpoints.mu.Unlock()
		for n := range 4 {
			w.newTask("alice", fmt.Sprint("t", n), 0, 0)
		}
		time.Sleep(900 * time.Millisecond)
		w.replicas[0].store.delayResponses(300 * time.Millisecond)
		task := store.Key{Owner: "bob", ID: "b"}
		w.create(task, w.newHook(task, 1), w.newHook(task, 2), w.newHook(task, 3))
		time.Sleep(5 * time.Second)
		w.replicas[0].store.delayResponses(0)
		w.drain(time.Minute)
		w.checkAll()
		w.equal("problems", s.Health(), []string{})
	})
}

func TestHealthReportsStalledLanes(t *testing.T) {
	inBubble(t, plan{}, func(w *world) {
		s := w.replicas[0].s
		s.endpoints.mu.Lock()
		e := s.endpoints.limits.endpoint(endpointName{"alice", "https://idle.example.com:443"})
		e.waiting = []*lane{{endpoint: e}}
		s.endpoints.mu.Unlock()
		w.equal("problems", s.Health(), []string{"webhooks: webhooks wait for 1 endpoints without requests in progress"})
		s.endpoints.mu.Lock()
		e.waiting = nil
		s.endpoints.mu.Unlock()
	})
}
