package storetest

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

// createCompletedTask creates a completed task with an artifact.
func (f *fixture) createCompletedTask(k store.Key, ms int) {
	f.Helper()
	f.create(k, at(ms))
	end := changeAt(k, 1, chunkEvent(at(ms), "a", "text of "+k.ID, false), agentMessage(at(ms), a2a.StateCompleted, "m2"))
	end.Queue = idle()
	f.commit(end)
}

// listCached lists tasks; the caller has some of them in its cache. It lists twice, because the
// store may have a cache too.
func listCached(f *fixture) {
	const tasks, size = 6, 100
	for i := range tasks {
		if i == 2 {
			f.create(key("t2"), at(i)) // unfinished
			continue
		}
		f.createCompletedTask(key(fmt.Sprint("t", i)), i)
	}
	for _, options := range []store.TaskOptions{{}, {OmitArtifacts: true}} {
		for range 2 {
			asked := make(map[string]*store.Task)
			q := store.Query{Owner: owner, Limit: tasks, Options: options, Cached: func(outline *store.Task) (int, bool) {
				asked[outline.Key.ID] = outline
				return size, outline.Key.ID != "t1" && outline.Key.ID != "t4"
			}}
			page := f.list(q)
			f.equal("Tasks()", ids(page.Tasks), []string{"t5", "t4", "t3", "t2", "t1", "t0"})
			f.equal("number of tasks passed to Cached", len(asked), tasks)
			for _, t := range page.Tasks {
				whole := f.taskWith(t.Key, options)
				if o := asked[t.Key.ID]; o == nil || !o.Outline || !o.Version().Same(whole.Version()) || o.Status.State != whole.Status.State {
					f.Errorf("Cached was called with %+v, want the outline of %+v", o, whole)
				}
				if t.Key.ID == "t1" || t.Key.ID == "t4" {
					f.equal("Tasks() of a task that is not cached", t, whole)
					continue
				}
				if !t.Outline || t.History != nil || t.Artifacts != nil || t.Status.Message != nil || t.Status.State != whole.Status.State {
					f.Errorf("Tasks() of task %s = %+v, want its outline", t.Key.ID, t)
				}
			}
			q.MaxBytes = 2*size - 1
			if page := f.list(q); len(page.Tasks) < 2 || len(page.Tasks) > 3 || page.Next == nil || page.Next.ID != page.Tasks[len(page.Tasks)-1].Key.ID {
				f.Errorf("Tasks() with MaxBytes %d = %v, next %v, want cached tasks to count %d bytes", q.MaxBytes, ids(page.Tasks), page.Next, size)
			}
		}
	}
}

// listCachedVersions lists tasks, then changes and deletes some of them, and lists them again.
func listCachedVersions(f *fixture) {
	for i := range 3 {
		f.createCompletedTask(key(fmt.Sprint("t", i)), i)
	}
	has := func(found map[store.Key]store.TaskVersion, k store.Key) bool {
		_, ok := found[k]
		return ok
	}
	versions := func() map[store.Key]store.TaskVersion {
		keys := []store.Key{key("t0"), key("t1"), key("t2")}
		found := suite.Call(f.s.Versions(f.ctx, keys)).Must(f, "Versions()")
		for _, k := range keys {
			one, err := f.s.Versions(f.ctx, []store.Key{k})
			if v, ok := one[k]; err != nil || ok != has(found, k) || !v.Same(found[k]) {
				f.Errorf("Versions(%s) = %v, %v, want %v as in a call with several keys", k.ID, one, err, found[k])
			}
		}
		return found
	}
	check := func(want ...string) {
		f.Helper()
		found := versions()
		var listed []string
		f.list(store.Query{Owner: owner, Limit: 9, States: []a2a.TaskState{a2a.StateCompleted}, Cached: func(outline *store.Task) (int, bool) {
			listed = append(listed, outline.Key.ID)
			if v := found[outline.Key]; !v.Same(outline.Version()) {
				f.Errorf("Cached was called with version %+v of %s, want %+v", outline.Version(), outline.Key.ID, v)
			}
			return 0, true
		}})
		f.equal("tasks passed to Cached", listed, want)
	}
	check("t2", "t1", "t0")
	before := versions()
	f.deleteTask(key("t1"), true)
	check("t2", "t0")
	f.createCompletedTask(key("t1"), 3)
	check("t1", "t2", "t0")
	after := versions()
	if after[key("t1")].Same(before[key("t1")]) || !after[key("t0")].Same(before[key("t0")]) {
		f.Errorf("Versions() after t1 was recreated = %+v, before %+v, want only t1 to differ", after, before)
	}
}
