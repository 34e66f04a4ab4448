package storetest

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// complete makes a completed task with an artifact.
func (f *fixture) complete(k store.Key, ms int) {
	f.Helper()
	f.create(k, at(ms))
	end := next(k, 1, chunk(at(ms), "a", "text of "+k.ID, false), said(at(ms), a2a.StateCompleted, "m2"))
	end.Run = idle()
	f.commit(end)
}

// listKnown lists tasks, of which the caller knows some: twice, because a store may cache.
func listKnown(f *fixture) {
	const tasks, size = 6, 100
	for i := range tasks {
		if i == 2 {
			f.create(key("t2"), at(i)) // is not over
			continue
		}
		f.complete(key(fmt.Sprint("t", i)), i)
	}
	for _, options := range []store.TaskOptions{{}, {OmitArtifacts: true}} {
		for range 2 {
			asked := make(map[string]*store.Task)
			q := store.Query{Owner: owner, Limit: tasks, Options: options, Known: func(outline *store.Task) (int, bool) {
				asked[outline.Key.ID] = outline
				return size, outline.Key.ID != "t1" && outline.Key.ID != "t4"
			}}
			page := f.list(q)
			f.equal("the tasks of the page", ids(page.Tasks), []string{"t5", "t4", "t3", "t2", "t1", "t0"})
			f.equal("the number of tasks that Known was asked about", len(asked), tasks)
			for _, t := range page.Tasks {
				whole := f.taskWith(t.Key, options)
				if o := asked[t.Key.ID]; o == nil || !o.Outline || !o.Version().Same(whole.Version()) || o.Status.State != whole.Status.State {
					f.Errorf("Known was asked about %+v, want the outline of %+v", o, whole)
				}
				if t.Key.ID == "t1" || t.Key.ID == "t4" {
					f.equal("a task that is not known", t, whole)
					continue
				}
				if !t.Outline || t.History != nil || t.Artifacts != nil || t.Status.Message != nil || t.Status.State != whole.Status.State {
					f.Errorf("listed task %s = %+v, want its outline", t.Key.ID, t)
				}
			}
			q.Bytes = 2*size - 1
			if page := f.list(q); len(page.Tasks) < 2 || len(page.Tasks) > 3 || page.Next == nil || page.Next.ID != page.Tasks[len(page.Tasks)-1].Key.ID {
				f.Errorf("a page of %d bytes has the tasks %v, next %v, want those known to count %d", q.Bytes, ids(page.Tasks), page.Next, size)
			}
		}
	}
}

// listKnownChanges lists tasks that are changed and deleted after they were listed.
func listKnownChanges(f *fixture) {
	for i := range 3 {
		f.complete(key(fmt.Sprint("t", i)), i)
	}
	has := func(found map[store.Key]store.TaskVersion, k store.Key) bool {
		_, ok := found[k]
		return ok
	}
	versions := func() map[store.Key]store.TaskVersion {
		keys := []store.Key{key("t0"), key("t1"), key("t2")}
		found, err := f.s.Versions(f.ctx, keys)
		if err != nil {
			f.Fatalf("Versions() = %v", err)
		}
		for _, k := range keys {
			one, err := f.s.Versions(f.ctx, []store.Key{k})
			if v, ok := one[k]; err != nil || ok != has(found, k) || !v.Same(found[k]) {
				f.Errorf("Versions(%s) = %v, %v, want %v as with others", k.ID, one, err, found[k])
			}
		}
		return found
	}
	check := func(want ...string) {
		f.Helper()
		found := versions()
		var listed []string
		f.list(store.Query{Owner: owner, Limit: 9, States: []a2a.TaskState{a2a.StateCompleted}, Known: func(outline *store.Task) (int, bool) {
			listed = append(listed, outline.Key.ID)
			if v := found[outline.Key]; !v.Same(outline.Version()) {
				f.Errorf("Known was asked about version %+v of %s, want %+v", outline.Version(), outline.Key.ID, v)
			}
			return 0, true
		}})
		f.equal("the tasks that Known was asked about", listed, want)
	}
	check("t2", "t1", "t0")
	before := versions()
	f.deleteTask(key("t1"), true)
	check("t2", "t0")
	f.complete(key("t1"), 3)
	check("t1", "t2", "t0")
	after := versions()
	if after[key("t1")].Same(before[key("t1")]) || !after[key("t0")].Same(before[key("t0")]) {
		f.Errorf("versions = %+v after a task was made again, were %+v: want another version of that one only", after, before)
	}
}
