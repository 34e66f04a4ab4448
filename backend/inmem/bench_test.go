package inmem

import (
	"fmt"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// BenchmarkContexts measures a page of 20 from the middle of a list.
func BenchmarkContexts(b *testing.B) {
	for _, n := range []int{100, 1_000, 100_000} {
		s := many(b, n)
		for name, q := range map[string]store.ContextQuery{
			"all": {}, "status": {Statuses: []a2a.ContextStatus{a2a.ContextArchived}}, "role": {Role: "analyst"}, "tag": {Tags: []string{"rare"}},
		} {
			for _, sort := range []store.ContextSort{store.ContextsByUpdated, store.ContextsByCreated, store.ContextsByName} {
				q.Owner, q.Sort, q.Limit = "o", sort, 20
				q.Cursor = &store.ContextCursor{Time: at(min(n, 997) / 2), Name: "name 5"}
				b.Run(fmt.Sprintf("contexts=%d/%s/%s", n, name, sort), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						if _, err := s.Contexts(b.Context(), q); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}

// BenchmarkClaimLanes measures an event of one task, its claim and its
// acknowledgement beside many lanes that wait.
func BenchmarkClaimLanes(b *testing.B) {
	for _, n := range []int{0, 1_000, 100_000} {
		b.Run(fmt.Sprintf("waiting=%d", n), func(b *testing.B) {
			s, k := New(), store.Key{Owner: "busy", ID: "t"}
			for i := range n {
				waits := store.Key{Owner: fmt.Sprint("owner ", i%100), ID: fmt.Sprint("t", i)}
				commitHooked(b, s, waits, i)
				if _, err := s.SavePush(b.Context(), store.PushConfig{Task: waits, ID: "p"}, store.PushCursor{}, at(1<<30+i)); err != nil {
					b.Fatal(err)
				}
			}
			commitHooked(b, s, k, 0)
			b.ReportAllocs()
			for i := int64(1); b.Loop(); i++ {
				claimed, err := s.ClaimLanes(b.Context(), store.LaneClaim{
					Worker: "w", Now: at(n), Until: at(n + 1000), Limit: 1, Events: 16,
				})
				if err != nil || len(claimed) != 1 {
					b.Fatalf("ClaimLanes() = %d lanes, %v, want 1", len(claimed), err)
				}
				l := &claimed[0]
				lost, err := s.AckLanes(b.Context(), store.LaneAck{
					Lease: store.LaneLease{Task: k, ID: "p", Worker: "w", Fence: l.Fence}, Cursor: store.PushCursor{Seq: i},
					State: store.LaneActive, Delivered: 1,
				})
				if err != nil || len(lost) > 0 {
					b.Fatalf("AckLanes() = %v, %v, want it held", lost, err)
				}
				change := store.Change{Key: k, Version: i, Events: []store.Event{{State: a2a.StateWorking, Time: at(0)}}}
				if r, err := s.Commit(b.Context(), change); err != nil || r[0].Err != nil {
					b.Fatal(r, err)
				}
			}
		})
	}
}

// commitHooked makes a task with a webhook, which is due.
func commitHooked(b *testing.B, s *Store, k store.Key, ms int) {
	b.Helper()
	r, err := s.Commit(b.Context(), store.Change{
		Key: k, Create: &store.Create{ContextID: "c"}, Run: &store.Run{Phase: store.PhaseIdle},
		Events: []store.Event{{State: a2a.StateWorking, Time: at(ms)}}, Push: []store.NewPush{{ID: "p"}},
	})
	if err != nil || r[0].Err != nil {
		b.Fatal(r, err)
	}
}
