package storetest

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

func contextRaceTests() []test {
	return []test{
		{"of many that change a context one wins", raceSave},
		{"of many that create a context one wins", raceSaveNew},
		{"a context is made once, by a task or on its own", raceBegin},
		{"contexts never become each other's parents", raceParents},
		{"an archived context has no unfinished task", raceArchive},
		{"a context that many delete is gone", raceDelete},
		{"no task that was created is lost to a deletion", raceDeleteCreate},
		{"work that was begun is not deleted", raceDeleteBusy},
	}
}

// rounds is how many times the races of few run.
const rounds = 15

func raceSave(f *fixture) {
	f.saved(newContext("c1", 0))
	for version := range int64(3) {
		var won atomic.Int64
		together(racers/2, func(i int) {
			c := described(owner, "c1", i)
			c.Name = fmt.Sprint("name ", version, " ", i)
			change := idempotentContext(store.ContextChange{Context: c, Version: version + 1}, c.Name, i)
			switch _, err := f.save(change); {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, store.ErrConflict):
				f.Errorf("SaveContext() = %v, want ErrConflict", err)
			}
		})
		got := f.context(owner, "c1")
		if won.Load() != 1 || got.Version != version+2 {
			f.Errorf("%d of %d changed the context, now at version %d, want 1 and %d", won.Load(), racers/2, got.Version, version+2)
		}
		for i := range racers / 2 {
			k := fmt.Sprint("name ", version, " ", i)
			if k == got.Name {
				f.equal("Seq of the record", f.record(owner, k).Seq, got.Version)
			} else {
				f.noRecord(owner, k)
			}
		}
	}
}

func raceSaveNew(f *fixture) {
	var won atomic.Int64
	together(racers/2, func(i int) {
		c := newContext("c1", i)
		c.Context.Name = fmt.Sprint("name ", i)
		switch _, err := f.save(c); {
		case err == nil:
			won.Add(1)
		case !errors.Is(err, store.ErrExists):
			f.Errorf("SaveContext() = %v, want ErrExists", err)
		}
	})
	if got := f.context(owner, "c1"); won.Load() != 1 || fmt.Sprint("name ", got.CreatedAt.Sub(start).Milliseconds()) != got.Name {
		f.Errorf("%d of %d created the context %+v, want 1 whole", won.Load(), racers/2, got)
	}
}

func raceBegin(f *fixture) {
	for round := range rounds {
		id := fmt.Sprint("c", round)
		var saved atomic.Bool
		together(3, func(i int) {
			if i > 0 {
				if r := f.try(newTask(key(fmt.Sprint(id, "-", i)), id, at(7))); r.Err != nil {
					f.Errorf("Commit() = %v, want it applied", r.Err)
				}
				return
			}
			_, err := f.save(newContext(id, 7))
			saved.Store(err == nil)
			if err != nil && !errors.Is(err, store.ErrExists) {
				f.Errorf("SaveContext() = %v, want ErrExists", err)
			}
		})
		tasks := []string{id + "-1", id + "-2"}
		want := born(owner, id, 7, tasks...)
		if saved.Load() {
			want = described(owner, id, 7)
			want.Version, want.TaskCount, want.TaskIDs = 1, 2, tasks
		}
		f.equal("Context()", f.context(owner, id), want)
	}
}

func raceParents(f *fixture) {
	for round := range rounds {
		var changes []store.ContextChange
		names := sequence(fmt.Sprint("round ", round, " "), 3)
		for _, id := range names {
			f.saved(newContext(id, 0))
		}
		for i, id := range names { // each in the next, round and round
			changes = append(changes, within(f.context(owner, id), names[(i+1)%len(names)]))
		}
		var won atomic.Int64
		together(len(changes), func(i int) {
			switch _, err := f.save(changes[i]); {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, store.ErrParentCycle):
				f.Errorf("SaveContext() = %v, want ErrParentCycle", err)
			}
		})
		if won.Load() != 2 {
			f.Errorf("%d of 3 contexts are within the next, want 2", won.Load())
		}
	}
}

func raceArchive(f *fixture) {
	for round := range rounds {
		id := fmt.Sprint("c", round)
		archive := as(f.saved(newContext(id, 0)), a2a.ContextArchived)
		archive.TasksOver = true
		var made atomic.Int64
		var archived atomic.Bool
		together(4, func(i int) {
			if i == 0 {
				_, err := f.save(archive)
				archived.Store(err == nil)
				if err != nil && !errors.Is(err, store.ErrBusy) {
					f.Errorf("SaveContext() = %v, want ErrBusy", err)
				}
				return
			}
			switch r := f.try(newTask(key(fmt.Sprint(id, "-", i)), id, at(i))); {
			case r.Err == nil:
				made.Add(1)
			case !errors.Is(r.Err, store.ErrContextClosed):
				f.Errorf("Commit() = %v, want ErrContextClosed", r.Err)
			}
		})
		if got := f.context(owner, id); archived.Load() != (got.Status == a2a.ContextArchived) ||
			archived.Load() && made.Load() > 0 || !archived.Load() && made.Load() != 3 || int64(got.TaskCount) != made.Load() {
			f.Errorf("archived: %t with %d tasks created, and the context is %+v", archived.Load(), made.Load(), got)
		}
	}
}

func raceDelete(f *fixture) {
	keys := f.rich(owner, "c1", 20)
	beside := f.rich(owner, "c2", 2)
	together(8, func(i int) {
		for range len(keys) + 2 {
			more, err := f.s.DeleteContext(f.ctx, owner, "c1", 1+i%3)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				f.Errorf("DeleteContext() = %v, want nil or ErrNotFound", err)
			}
			if err != nil || !more {
				return
			}
		}
		f.Errorf("DeleteContext() does not end with %d tasks", len(keys))
	})
	f.gone(owner, "c1", keys)
	f.equal("PendingDeletions()", f.pendingDeletions(9), []string{})
	for _, k := range beside {
		f.task(k)
	}
}

// raceDeleteCreate creates tasks while a deletion that was begun goes on: each is
// refused or belongs to a context that began after it.
func raceDeleteCreate(f *fixture) {
	keys := f.rich(owner, "c1", 20)
	f.batch("c1", 1)
	var done atomic.Bool
	made := make([][]store.Key, 4)
	together(5, func(i int) {
		if i == 4 {
			defer done.Store(true)
			for more, err := true, error(nil); more; {
				if more, err = f.s.DeleteContext(f.ctx, owner, "c1", 1); err != nil {
					f.Errorf("DeleteContext() = %v, want it to go on", err)
				}
			}
			return
		}
		for n := 0; !done.Load(); n++ {
			k := key(fmt.Sprint("new-", i, "-", n%50))
			switch r := f.try(newTask(k, "c1", at(n))); {
			case r.Err == nil:
				made[i] = append(made[i], k)
			case !errors.Is(r.Err, store.ErrContextClosed) && !errors.Is(r.Err, store.ErrExists):
				f.Errorf("Commit() = %v, want ErrContextClosed", r.Err)
			}
		}
	})
	f.commit(newTask(key("last"), "c1", at(0)))
	total := 1
	for _, keys := range made {
		total += len(keys)
		for _, k := range keys {
			f.task(k)
		}
	}
	for _, k := range keys {
		f.absent(k)
	}
	page := f.list(store.Query{Owner: owner, ContextID: "c1", Limit: 1, Total: true})
	if page.Total != total {
		f.Errorf("Tasks() = total %d, want the %d that were created", page.Total, total)
	}
	if got := f.context(owner, "c1"); got.Version != 1 || got.Role != store.DefaultContextRole || got.TaskCount != total {
		f.Errorf("Context() = %+v, want one that began afresh, with %d tasks", got, total)
	}
	f.equal("PendingDeletions()", f.pendingDeletions(9), []string{})
}

func raceDeleteBusy(f *fixture) {
	for round := range rounds {
		id := fmt.Sprint("c", round)
		old := f.rich(owner, id, 1)
		k := key("new in " + id)
		var created, deleted atomic.Bool
		together(2, func(i int) {
			if i == 0 {
				r := f.try(newTask(k, id, at(9)))
				created.Store(r.Err == nil)
				if r.Err != nil && !errors.Is(r.Err, store.ErrContextClosed) {
					f.Errorf("Commit() = %v, want ErrContextClosed", r.Err)
				}
				return
			}
			_, err := f.s.DeleteContext(f.ctx, owner, id, 9)
			deleted.Store(err == nil)
			if err != nil && !errors.Is(err, store.ErrBusy) {
				f.Errorf("DeleteContext() = %v, want ErrBusy", err)
			}
		})
		if created.Load() {
			f.task(k)
			if got := f.context(owner, id); deleted.Load() != (got.TaskCount == 1) || deleted.Load() != (got.Name == "") {
				f.Errorf("Context() = %+v with its old tasks deleted: %t", got, deleted.Load())
			}
		} else if !deleted.Load() {
			f.Errorf("neither the task was created nor the context deleted")
		}
		if deleted.Load() {
			f.absent(old[0])
		}
	}
}
