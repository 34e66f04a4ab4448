package inmem

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func at(n int) time.Time { return noon.Add(time.Duration(n) * time.Second) }

func commit(t *testing.T, s *Store, c store.Change) error {
	t.Helper()
	results, err := s.Commit(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return results[0].Err
}

func submitted(id, contextID string, n int) store.Change {
	return store.Change{
		Key: store.Key{Owner: "o", ID: id}, Create: &store.Create{ContextID: contextID},
		Events:      []store.Event{{Time: at(n), State: a2a.StateCompleted, Received: &a2a.Message{ID: "m", Role: a2a.RoleUser}}},
		Queue:       &store.QueueEntry{Phase: store.PhaseIdle, Turn: 1},
		Idempotency: &store.IdempotencyRecord{Owner: "o", Key: "key of " + id, TaskID: id, CreatedAt: at(n)},
	}
}

func save(t testing.TB, s *Store, c store.ContextChange) {
	t.Helper()
	if _, err := s.SaveContext(t.Context(), c); err != nil {
		t.Fatalf("SaveContext(%s) = %v, want nil", c.Context.Key.ID, err)
	}
}

// storeWithContexts returns a store with n contexts. Every third is archived, every
// fifth has the role analyst and every seventh has tags.
func storeWithContexts(t testing.TB, n int) *Store {
	t.Helper()
	s := New()
	for i := range n {
		c := store.Context{
			Key: store.ContextKey{Owner: "o", ID: fmt.Sprintf("c%06d", i)}, Name: fmt.Sprintf("name %d", i*7919%1000),
			Role: "assistant", Status: a2a.ContextActive, CreatedAt: at(i), UpdatedAt: at(i * 31 % 997),
		}
		if i%3 == 0 {
			c.Status = a2a.ContextArchived
		}
		if i%5 == 0 {
			c.Role = "analyst"
		}
		if i%7 == 0 {
			c.Tags = []string{"rare", "x"}
		}
		save(t, s, store.ContextChange{Context: c, Create: true})
	}
	return s
}

func TestSingleFilterWalksOnlyMatches(t *testing.T) {
	t.Parallel()
	s := storeWithContexts(t, 1000)
	for name, test := range map[string]struct {
		query store.ContextQuery
		want  int
	}{
		"none":         {store.ContextQuery{}, 1000},
		"a status":     {store.ContextQuery{Statuses: []a2a.ContextStatus{a2a.ContextArchived}}, 334},
		"two statuses": {store.ContextQuery{Statuses: []a2a.ContextStatus{a2a.ContextArchived, a2a.ContextActive, a2a.ContextArchived}}, 1000},
		"a role":       {store.ContextQuery{Role: "analyst"}, 200},
		"a tag":        {store.ContextQuery{Tags: []string{"rare"}}, 143},
		"no such tag":  {store.ContextQuery{Tags: []string{"none"}}, 0},
	} {
		l := s.owners["o"].contextSets.plan(test.query)
		if l.match != nil || l.matchCreated(test.query) != nil {
			t.Errorf("%s: plan has a filter, want none", name)
		}
		if got, _ := l.createdWalk(test.query).count(0); got != test.want || contextCount(l.sets) != test.want {
			t.Errorf("%s: count() = %d of %d, want %d", name, got, contextCount(l.sets), test.want)
		}
	}
}

func TestSeveralFiltersWalkSmallestSet(t *testing.T) {
	t.Parallel()
	s := storeWithContexts(t, 1000)
	q := store.ContextQuery{
		Owner: "o", Role: "analyst", Tags: []string{"rare", "x"}, Statuses: []a2a.ContextStatus{a2a.ContextActive},
		Sort: store.ContextsByName, Ascending: true, Limit: 1000,
	}
	if got := contextCount(s.owners["o"].contextSets.plan(q).sets); got != 143 {
		t.Errorf("plan reads %d contexts, want the 143 of the rarest filter", got)
	}
	page, err := s.Contexts(t.Context(), q)
	if err != nil || page.Total != len(page.Contexts) || page.Total != 19 {
		t.Errorf("Contexts() = %d of %d, %v, want 19", len(page.Contexts), page.Total, err)
	}
}

func TestPartitionSplitsOnSecondValue(t *testing.T) {
	t.Parallel()
	s := New()
	for i := range 600 {
		if err := commit(t, s, submitted(fmt.Sprint(i), fmt.Sprint("c", i), i)); err != nil {
			t.Fatal(err)
		}
	}
	l := &s.owners["o"].contextSets
	if l.statuses.sets != nil || l.roles.sets != nil {
		t.Errorf("partitions with one value are split, want one set")
	}
	c := store.Context{Key: store.ContextKey{Owner: "o", ID: "c7"}, Status: a2a.ContextPaused, Role: store.DefaultContextRole, UpdatedAt: at(999)}
	save(t, s, store.ContextChange{Context: c, Version: 1})
	if err := commit(t, s, submitted("later", "c599", 1000)); err != nil {
		t.Fatal(err)
	}
	for status, want := range map[a2a.ContextStatus]int{a2a.ContextActive: 599, a2a.ContextPaused: 1, a2a.ContextArchived: 0} {
		q := store.ContextQuery{Owner: "o", Statuses: []a2a.ContextStatus{status}, Sort: store.ContextsByUpdated, Limit: 1000}
		if page, err := s.Contexts(t.Context(), q); err != nil || page.Total != want || len(page.Contexts) != want {
			t.Errorf("%s: Contexts() = %d of %d, %v, want %d", status, len(page.Contexts), page.Total, err, want)
		}
	}
	c.Status = a2a.ContextActive
	save(t, s, store.ContextChange{Context: c, Version: 2})
	if l.statuses.sets[a2a.ContextPaused] != nil || l.roles.sets != nil {
		t.Errorf("the set of a status without contexts was not removed")
	}
}

func TestDeleteContextRemovesAllItsData(t *testing.T) {
	t.Parallel()
	s := New()
	deleting := store.Context{Key: store.ContextKey{Owner: "o", ID: "c"}, Role: "r", Status: a2a.ContextActive, Tags: []string{"a", "b"}}
	save(t, s, store.ContextChange{Context: deleting, Create: true, Idempotency: &store.IdempotencyRecord{Owner: "o", Key: "key", TaskID: "c"}})
	for i := range 600 {
		c := submitted(fmt.Sprint(i), "c", i)
		if err := commit(t, s, c); err != nil {
			t.Fatal(err)
		}
		f := store.Feedback{Key: c.Key, ID: "f", Rating: i % 6, CreatedAt: at(i)}
		if err := s.AddFeedback(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	if more, err := s.DeleteContext(t.Context(), "o", "c", 100); !more || err != nil {
		t.Fatalf("DeleteContext() = %t, %v, want more", more, err)
	}
	again := store.Change{Key: store.Key{Owner: "o", ID: "3"}, Version: 1, Queue: &store.QueueEntry{Phase: store.PhaseQueued, Turn: 2}}
	if err := commit(t, s, again); err != nil { // no message of a client: accepted, and removed with the context
		t.Fatal(err)
	}
	message := submitted("3", "c", 700)
	message.Create, message.Version, message.Idempotency = nil, 1, nil
	if err := commit(t, s, message); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Commit() of a message to a context pending deletion = %v, want ErrNotFound", err)
	}
	calls := 1
	for more := true; more; calls++ {
		var err error
		if more, err = s.DeleteContext(t.Context(), "o", "c", 100); err != nil {
			t.Fatal(err)
		}
	}
	if calls != 6 {
		t.Errorf("DeleteContext() needed %d calls for 600 tasks, want 6", calls)
	}
	if len(s.owners) != 0 || s.records.len != 0 || s.deleting.len != 0 || s.summary != (store.FeedbackSummary{}) {
		t.Errorf("store still has %d owners, %d records, %d pending deletions, feedback %v; want none", len(s.owners), s.records.len, s.deleting.len, s.summary)
	}
	if q := &s.queue; q.pending.len+q.owners.len+q.queued+q.leased != 0 {
		t.Errorf("queue still has %d pending, %d owners, %d queued, %d leased; want none", q.pending.len, q.owners.len, q.queued, q.leased)
	}
}

func TestDeleteContextKeepsOtherData(t *testing.T) {
	t.Parallel()
	s := storeWithContexts(t, 20)
	for i, c := range []store.Change{submitted("c000001", "c000001", 1), submitted("other", "c000002", 2)} {
		if err := commit(t, s, c); err != nil {
			t.Fatal(i, err)
		}
	}
	record := &store.IdempotencyRecord{Owner: "o", Key: "of the context", TaskID: "other"}
	save(t, s, store.ContextChange{
		Context: store.Context{Key: store.ContextKey{Owner: "o", ID: "other"}, Status: a2a.ContextActive, Role: "r"},
		Create:  true, Idempotency: record,
	})
	if more, err := s.DeleteContext(t.Context(), "o", "c000002", 9); more || err != nil {
		t.Fatalf("DeleteContext() = %t, %v, want no more", more, err)
	}
	if n, err := s.ExpireIdempotency(t.Context(), at(1), 9); n != 1 || err != nil {
		t.Errorf("ExpireIdempotency() = %d, %v, want 1: the record of a context with the same id as the deleted task", n, err)
	}
	if _, err := s.Idempotency(t.Context(), "o", "key of c000001"); err != nil {
		t.Errorf("Idempotency() = %v, want the record of a task that was not deleted", err)
	}
	c, err := s.Context(t.Context(), "o", "c000001", 9)
	if diff := cmp.Diff([]string{"c000001"}, c.TaskIDs); err != nil || diff != "" {
		t.Errorf("Context() = %v, task ids (-want +got)\n%s", err, diff)
	}
}
