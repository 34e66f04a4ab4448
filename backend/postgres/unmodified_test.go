//go:build services

package postgres

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// The rows of contexts that have one task and were never changed are in few indexes.
func TestUnmodifiedContextsAreInFewIndexes(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{}))
	want := func(others, changed int) {
		t.Helper()
		if n := countRows(t, s, `{s}.task_rows WHERE NOT first`); n != others {
			t.Errorf("%d tasks are in the indexes by context, want %d", n, others)
		}
		if n := countRows(t, s, `{s}.context_rows WHERE NOT unmodified`); n != changed {
			t.Errorf("%d contexts are modified, want %d", n, changed)
		}
	}
	for n := range 3 {
		must(t, runTask(s, n))
	}
	want(0, 0)
	second := submitted(3)
	second.Create.ContextID = submitted(0).Create.ContextID
	must(t, commitOne(s, second))
	want(1, 1)
	_, err := s.DeleteTask(bg, taskKey(0), true)
	must(t, err)
	again := submitted(0) // no longer the first task of its context
	must(t, commitOne(s, again))
	want(2, 1)
	page, err := s.Tasks(bg, store.Query{Owner: taskKey(0).Owner, ContextID: again.Create.ContextID, Limit: 5, Total: true})
	if err != nil || len(page.Tasks) != 2 || page.Total != 2 {
		t.Errorf("Tasks() of the context = %d of %d, %v, want 2 of 2", len(page.Tasks), page.Total, err)
	}
}

// Pages of all sizes contain the same list, whichever indexes its contexts are in.
func TestListsMergeChangedContexts(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{}))
	const contexts = 24
	owner := taskKey(0).Owner
	all := make(map[string]store.Context)
	for n := range contexts {
		c := submitted(n)
		at := testStart.Add(time.Duration(n/3) * time.Second) // some share a time
		for i := range c.Events {
			c.Events[i].Time = at
		}
		must(t, commitOne(s, c))
		if n%4 == 1 { // another task, later
			c = submitted(contexts + n)
			c.Create.ContextID = "c" + taskID(n)
			for i := range c.Events {
				c.Events[i].Time = at.Add(2 * time.Second)
			}
			must(t, commitOne(s, c))
		}
		if n%6 == 2 {
			found, err := s.Context(bg, owner, "c"+taskID(n), 0)
			must(t, err)
			found.Name = fmt.Sprintf("name %d", n%5)
			if n%12 == 2 {
				found.Status = a2a.ContextArchived
			}
			saveContext(t, s, store.ContextChange{Context: found, Version: found.Version})
		}
		found, err := s.Context(bg, owner, "c"+taskID(n), 0)
		must(t, err)
		all[found.Key.ID] = found
	}
	compare := map[store.ContextSort]func(a, b store.Context) int{
		store.ContextsByUpdated: func(a, b store.Context) int { return a.UpdatedAt.Compare(b.UpdatedAt) },
		store.ContextsByCreated: func(a, b store.Context) int { return a.CreatedAt.Compare(b.CreatedAt) },
		store.ContextsByName: func(a, b store.Context) int {
			return cmp.Or(cmp.Compare(a.Name, b.Name), a.CreatedAt.Compare(b.CreatedAt))
		},
	}
	for sort, order := range compare {
		for _, statuses := range [][]a2a.ContextStatus{nil, {a2a.ContextActive}, {a2a.ContextArchived}, {a2a.ContextArchived, a2a.ContextActive}} {
			for _, ascending := range []bool{false, true} {
				var want []string
				for id := range all {
					if len(statuses) == 0 || slices.Contains(statuses, all[id].Status) {
						want = append(want, id)
					}
				}
				slices.SortFunc(want, func(a, b string) int { return cmp.Or(order(all[a], all[b]), cmp.Compare(a, b)) })
				if !ascending {
					slices.Reverse(want)
				}
				for _, limit := range []int{1, 5, 100} {
					var got []string
					q := store.ContextQuery{Owner: owner, Sort: sort, Ascending: ascending, Statuses: statuses, Limit: limit}
					for {
						page, err := s.Contexts(bg, q)
						must(t, err)
						for i := range page.Contexts {
							got = append(got, page.Contexts[i].Key.ID)
						}
						if q.Cursor = page.Next; q.Cursor == nil {
							break
						}
					}
					if d := gocmp.Diff(want, got); d != "" {
						t.Errorf("sort %v, ascending %t, %v, limit %d (-want +got):\n%s", sort, ascending, statuses, limit, d)
					}
				}
			}
		}
	}
}
