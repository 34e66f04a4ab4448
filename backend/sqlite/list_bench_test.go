package sqlite

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/encoding"
)

// BenchmarkLists reads pages of 20 from lists of 100 to 100,000 entries. The cost
// should not grow with the list.
func BenchmarkLists(b *testing.B) {
	for _, size := range []int{100, 10_000, 100_000} {
		s := open(b, Config{Dir: b.TempDir()})
		made := 0
		insertTasks(b, s, &made, size)
		insertDescribed(b, s, size)
		insertUndescribed(b, s, size)
		run := func(name string, f func() error) {
			b.Run(fmt.Sprintf("size=%d/%s", size, name), func(b *testing.B) {
				for b.Loop() {
					if err := f(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		for _, list := range contextLists(size) {
			run("contexts/"+list.name, func() error { return fullPage(s, list.q, size) })
		}
		for _, list := range taskLists(size) {
			list.q.Owner, list.q.Limit, list.q.Options = taskKey(0).Owner, 20, store.TaskOptions{OmitArtifacts: true, History: new(int)}
			run("tasks/"+list.name, func() error {
				page, err := s.Tasks(bg, list.q)
				if err == nil && len(page.Tasks) != 20 {
					err = fmt.Errorf("page has %d tasks, want 20", len(page.Tasks))
				}
				return err
			})
		}
		must(b, s.Close())
	}
}

const describedOwner, usedOwner = "described", "used"

type contextBench struct {
	name string
	q    store.ContextQuery
}

func contextLists(size int) (all []contextBench) {
	add := func(name string, q store.ContextQuery) { all = append(all, contextBench{name, q}) }
	middle := testTime.Add(time.Duration(size/2) * time.Millisecond)
	for _, sort := range []store.ContextSort{store.ContextsByUpdated, store.ContextsByCreated, store.ContextsByName} {
		add("described/"+string(sort), store.ContextQuery{Owner: describedOwner, Sort: sort})
		add("new/"+string(sort), store.ContextQuery{Owner: taskKey(0).Owner, Sort: sort})
		add("used/"+string(sort), store.ContextQuery{Owner: usedOwner, Sort: sort, Ascending: true})
		add("used, deep/"+string(sort), store.ContextQuery{Owner: usedOwner, Sort: sort, Cursor: &store.ContextCursor{Time: middle, ID: "c"}})
		add("one tag/"+string(sort), store.ContextQuery{Owner: describedOwner, Sort: sort, Tags: []string{"common"}})
		add("rare tag/"+string(sort), store.ContextQuery{Owner: describedOwner, Sort: sort, Tags: []string{"rare"}})
		add("paused/"+string(sort), store.ContextQuery{Owner: describedOwner, Sort: sort, Statuses: []a2a.ContextStatus{a2a.ContextPaused}})
		cursor := &store.ContextCursor{Time: middle, Name: fmt.Sprintf("name %07d", size/2), ID: "c"}
		add("deep/"+string(sort), store.ContextQuery{Owner: describedOwner, Sort: sort, Cursor: cursor})
	}
	add("two tags/updatedAt", store.ContextQuery{Owner: describedOwner, Sort: store.ContextsByUpdated, Tags: []string{"common", "rare"}})
	add("role/updatedAt", store.ContextQuery{Owner: describedOwner, Sort: store.ContextsByUpdated, Role: "analyst"})
	for _, ascending := range []bool{false, true} {
		add(fmt.Sprintf("bounded/ascending=%t", ascending), store.ContextQuery{
			Owner: describedOwner, Sort: store.ContextsByCreated, Ascending: ascending,
			CreatedAfter: middle, CreatedBefore: middle.Add(30 * time.Millisecond),
		})
	}
	return all
}

type taskBench struct {
	name string
	q    store.Query
}

func taskLists(size int) []taskBench {
	ms := time.Duration(size/12) * time.Millisecond
	return []taskBench{
		{"by status", store.Query{}},
		{"by creation", store.Query{ByCreated: true}},
		{"by creation, ascending", store.Query{ByCreated: true, Ascending: true}},
		{"by creation, of a state", store.Query{ByCreated: true, States: []a2a.TaskState{a2a.StateCompleted}}},
		{"by creation, deep", store.Query{ByCreated: true, Cursor: &store.Cursor{Time: testTime.Add(ms), ID: "f"}}},
		{"by status, created before", store.Query{CreatedBefore: testTime.Add(2*ms - time.Millisecond)}},
	}
}

func fullPage(s *Store, q store.ContextQuery, size int) error {
	q.Limit, q.MaxTaskIDs = 20, 5
	page, err := s.Contexts(bg, q)
	if want := min(20, page.Total); err == nil && (len(page.Contexts) < want || page.Total > size) {
		err = fmt.Errorf("page has %d contexts of %d", len(page.Contexts), page.Total)
	}
	return err
}

// insertDescribed saves contexts with a description. All have the tag common, twenty
// have the tag rare, every fifth is paused, and every second has the role analyst.
func insertDescribed(b *testing.B, s *Store, size int) {
	b.Helper()
	for base := 0; base < size; base += 1000 {
		must(b, s.write(bg, &request{weight: 1, apply: func(w *writer) error {
			for i := base; i < min(base+1000, size); i++ {
				if err := describedContext(i, size).apply(w); err != nil {
					return err
				}
			}
			return nil
		}}))
	}
}

// insertUndescribed inserts contexts without a description. Half of them had a second
// message; their ids sort before the others.
func insertUndescribed(b *testing.B, s *Store, size int) {
	b.Helper()
	must(b, s.write(bg, &request{weight: 1, apply: func(w *writer) error {
		for i, bucket := range []string{bucketUsed, bucketNew} {
			err := w.script(fmt.Sprintf(`WITH RECURSIVE n(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < %d)
				INSERT INTO context_rows (owner, id, created_at, updated_at, bucket)
				SELECT '%s', printf('%d%%07d', n), %[4]d + 2 * n, %[4]d + 2 * n + %[5]d, '%[6]s' FROM n`,
				size/2-1, usedOwner, i, testTime.UnixMilli(), 1-i, bucket))
			if err != nil {
				return err
			}
			w.addCount(usedOwner, labelAll, bucket, int64(size/2))
		}
		return nil
	}}))
}

func describedContext(i, size int) *contextSave {
	at := testTime.Add(time.Duration(i) * time.Millisecond)
	c := store.Context{
		Key:  store.ContextKey{Owner: describedOwner, ID: fmt.Sprintf("c%07d", i*7919%size)},
		Name: fmt.Sprintf("name %07d", i), Role: store.DefaultContextRole, Status: a2a.ContextActive,
		Tags: []string{"common"}, CreatedAt: at, UpdatedAt: at, Metadata: map[string]any{"k": "v"},
	}
	if i%(size/20) == 0 {
		c.Tags = append(c.Tags, "rare")
	}
	if i%5 == 0 {
		c.Status = a2a.ContextPaused
	}
	if i%2 == 0 {
		c.Role = "analyst"
	}
	record, err := encoding.Context(&c)
	if err != nil {
		panic(err)
	}
	return &contextSave{ContextChange: &store.ContextChange{Create: true, Context: c}, record: string(record)}
}
