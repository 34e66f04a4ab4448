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
