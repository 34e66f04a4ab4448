package store_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

func contextChange() store.ContextChange {
	return store.ContextChange{
		Context: store.Context{Key: store.ContextKey{Owner: "o", ID: "c"}, Role: "r", Status: a2a.ContextActive, Tags: []string{"", "a", "b"}},
		Create:  true,
	}
}

func TestContextChangeCheck(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*store.ContextChange)
		want   string
	}{
		"create":             {func(*store.ContextChange) {}, ""},
		"update":             {func(c *store.ContextChange) { c.Create, c.Version = false, 7 }, ""},
		"no tags":            {func(c *store.ContextChange) { c.Context.Tags = nil }, ""},
		"no owner":           {func(c *store.ContextChange) { c.Context.Key.Owner = "" }, "change has no owner or no context id"},
		"no id":              {func(c *store.ContextChange) { c.Context.Key.ID = "" }, "change has no owner or no context id"},
		"both guards":        {func(c *store.ContextChange) { c.Version = 1 }, "change of context c must set exactly one of Create and Version"},
		"no guard":           {func(c *store.ContextChange) { c.Create = false }, "change of context c must set exactly one of Create and Version"},
		"a negative version": {func(c *store.ContextChange) { c.Create, c.Version = false, -1 }, "change of context c must set exactly one of Create and Version"},
		"no status":          {func(c *store.ContextChange) { c.Context.Status = "" }, "change of context c has no status or no role"},
		"no role":            {func(c *store.ContextChange) { c.Context.Role = "" }, "change of context c has no status or no role"},
		"unsorted tags":      {func(c *store.ContextChange) { c.Context.Tags = []string{"b", "a"} }, "change of context c has unsorted or duplicate tags"},
		"duplicate tags":     {func(c *store.ContextChange) { c.Context.Tags = []string{"a", "a"} }, "change of context c has unsorted or duplicate tags"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := contextChange()
			test.change(&c)
			before := c.Context.Copy()
			got := ""
			if err := c.Check(); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("Check() = %q, want %q", got, test.want)
			}
			if d := cmp.Diff(before, c.Context); d != "" {
				t.Errorf("Check() changed the context (-before +after)\n%s", d)
			}
		})
	}
}

func TestCursorsFollowTheSortOrder(t *testing.T) {
	t.Parallel()
	created, updated := time.UnixMilli(1), time.UnixMilli(2)
	c := store.Context{Key: store.ContextKey{Owner: "o", ID: "c"}, Name: "n", CreatedAt: created, UpdatedAt: updated}
	for sort, want := range map[store.ContextSort]*store.ContextCursor{
		store.ContextsByUpdated: {Time: updated, ID: "c"},
		store.ContextsByCreated: {Time: created, ID: "c"},
		store.ContextsByName:    {Name: "n", Time: created, ID: "c"},
	} {
		if d := cmp.Diff(want, sort.Cursor(&c)); d != "" {
			t.Errorf("%s.Cursor() (-want +got)\n%s", sort, d)
		}
	}
	task := store.Task{Key: store.Key{Owner: "o", ID: "t"}, CreatedAt: created, Status: a2a.TaskStatus{Timestamp: updated}}
	for byCreated, want := range map[bool]time.Time{true: created, false: updated} {
		q := store.Query{ByCreated: byCreated}
		if d := cmp.Diff(&store.Cursor{Time: want, ID: "t"}, q.CursorOf(&task)); d != "" {
			t.Errorf("CursorOf() with ByCreated %t (-want +got)\n%s", byCreated, d)
		}
	}
}

func TestFitEndsThePageAtTheByteLimit(t *testing.T) {
	t.Parallel()
	tasks := func() []*store.Task {
		all := make([]*store.Task, 4)
		for i := range all {
			all[i] = &store.Task{Key: store.Key{Owner: "o", ID: string(rune('a' + i))}, CreatedAt: time.UnixMilli(int64(i))}
			all[i].Artifacts = []a2a.Artifact{{ID: "a", Parts: []a2a.Part{text("0123456789")}}}
		}
		return all
	}
	end := &store.Cursor{ID: "end"}
	for _, test := range []struct {
		bytes, want int
		next        *store.Cursor
	}{
		{0, 4, end},
		{-1, 4, end},
		{1, 1, &store.Cursor{ID: "a", Time: time.UnixMilli(0)}},
		{10, 2, &store.Cursor{ID: "b", Time: time.UnixMilli(1)}},
		{29, 3, &store.Cursor{ID: "c", Time: time.UnixMilli(2)}},
		{30, 4, end},
		{99, 4, end},
	} {
		page := store.Page{Tasks: tasks(), Next: end}
		page.Fit(store.Query{MaxBytes: test.bytes, ByCreated: true})
		if len(page.Tasks) != test.want {
			t.Errorf("Fit() with Bytes %d = %d tasks, want %d", test.bytes, len(page.Tasks), test.want)
		}
		if d := cmp.Diff(test.next, page.Next); d != "" {
			t.Errorf("Fit() with Bytes %d: Next (-want +got)\n%s", test.bytes, d)
		}
	}
}

func TestCopiesShareNothing(t *testing.T) {
	t.Parallel()
	values := func() map[string]any { return map[string]any{"a": map[string]any{"b": []any{"c"}}} }
	modify := func(m map[string]any) { m["a"].(map[string]any)["b"].([]any)[0] = "modified" }
	newContext := func() store.Context {
		return store.Context{Tags: []string{"t"}, ReferenceIDs: []string{"r"}, TaskIDs: []string{"i"}, Metadata: values(), Extensions: values()}
	}
	c := newContext()
	copied := c.Copy()
	copied.Tags[0], copied.ReferenceIDs[0], copied.TaskIDs[0] = "modified", "modified", "modified"
	modify(copied.Metadata)
	modify(copied.Extensions)
	if d := cmp.Diff(newContext(), c); d != "" {
		t.Errorf("Context after a change of its copy (-want +got)\n%s", d)
	}
	f := store.Feedback{ID: "f", Metadata: values()}
	modify(f.Copy().Metadata)
	if d := cmp.Diff(store.Feedback{ID: "f", Metadata: values()}, f); d != "" {
		t.Errorf("Feedback after a change of its copy (-want +got)\n%s", d)
	}
}

func TestFeedbackSummary(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		ratings [6]int
		count   int
		average float64
	}{
		{[6]int{}, 0, 0},
		{[6]int{0: 3}, 3, 0},
		{[6]int{5: 1}, 1, 5},
		{[6]int{0: 7, 1: 1, 4: 2}, 10, 3},
		{[6]int{1: 1, 2: 1}, 2, 1.5},
	} {
		s := store.FeedbackSummary{Ratings: test.ratings}
		if s.Count() != test.count || s.Average() != test.average {
			t.Errorf("%v: Count() = %d, Average() = %v, want %d, %v", test.ratings, s.Count(), s.Average(), test.count, test.average)
		}
	}
}
