package inmem

import (
	"fmt"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// BenchmarkContexts measures reading a page of 20 contexts from the middle of a list.
func BenchmarkContexts(b *testing.B) {
	for _, n := range []int{100, 1_000, 100_000} {
		s := storeWithContexts(b, n)
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

// BenchmarkClaimLanes measures committing, claiming and acknowledging one event
// while n other lanes are waiting.
func BenchmarkClaimLanes(b *testing.B) {
	for _, n := range []int{0, 1_000, 100_000} {
		b.Run(fmt.Sprintf("waiting=%d", n), func(b *testing.B) {
			s, k := New(), store.Key{Owner: "busy", ID: "t"}
			for i := range n {
				key := store.Key{Owner: fmt.Sprint("owner ", i%100), ID: fmt.Sprint("t", i)}
				createTaskWithWebhook(b, s, key, i)
				if _, err := s.SaveWebhook(b.Context(), store.Webhook{Task: key, ID: "p"}, store.WebhookCursor{}, at(1<<30+i)); err != nil {
					b.Fatal(err)
				}
			}
			createTaskWithWebhook(b, s, k, 0)
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
					Lease: store.LaneLease{Task: k, ID: "p", Worker: "w", Fence: l.Fence}, Cursor: store.WebhookCursor{Seq: i},
					State: store.LaneActive, Delivered: 1,
				})
				if err != nil || len(lost) > 0 {
					b.Fatalf("AckLanes() = %v, %v, want the lease still held", lost, err)
				}
				change := store.Change{Key: k, Version: i, Events: []store.Event{{State: a2a.StateWorking, Time: at(0)}}}
				if r, err := s.Commit(b.Context(), change); err != nil || r[0].Err != nil {
					b.Fatal(r, err)
				}
			}
		})
	}
}

// createTaskWithWebhook creates a task with a webhook and a due lane.
func createTaskWithWebhook(b *testing.B, s *Store, k store.Key, ms int) {
	b.Helper()
	r, err := s.Commit(b.Context(), store.Change{
		Key: k, Create: &store.Create{ContextID: "c"}, Queue: &store.QueueEntry{Phase: store.PhaseIdle},
		Events: []store.Event{{State: a2a.StateWorking, Time: at(ms)}}, Webhooks: []store.NewWebhook{{ID: "p"}},
	})
	if err != nil || r[0].Err != nil {
		b.Fatal(r, err)
	}
}
