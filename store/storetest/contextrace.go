package storetest

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var contextRaceTests = []test{
	{"one of many concurrent changes of a context succeeds", raceSaveContext},
	{"one of many concurrent creations of a context succeeds", raceCreateContext},
	{"a context is created once, by a task or by SaveContext", raceImplicitContext},
	{"concurrent changes do not form a cycle of parents", raceParents},
	{"an archived context has no unfinished task", raceArchive},
	{"concurrent deletions delete a context", raceDeleteContext},
	{"a task created during a deletion is not lost", raceDeleteCreate},
	{"queued tasks are not deleted", raceDeleteBusy},
}

// raceRounds is the number of repetitions of races between few goroutines.
const raceRounds = 15

func raceSaveContext(f *fixture) {
	f.saveContext(newContext("c1", 0))
	for version := range int64(3) {
		won := suite.Winners(f, raceGoroutines/2, store.ErrConflict, func(i int) error {
			c := fullContext(owner, "c1", i)
			c.Name = fmt.Sprint("name ", version, " ", i)
			change := contextWithKey(store.ContextChange{Context: c, Version: version + 1}, c.Name, i)
			return suite.Err(f.trySaveContext(change))
		})
		got := f.context(owner, "c1")
		if won != 1 || got.Version != version+2 {
			f.Errorf("%d of %d changed the context, now at version %d, want 1 and %d", won, raceGoroutines/2, got.Version, version+2)
		}
		for i := range raceGoroutines / 2 {
			k := fmt.Sprint("name ", version, " ", i)
			if k == got.Name {
				f.equal("Idempotency().Seq", f.record(owner, k).Seq, got.Version)
			} else {
				f.wantNoRecord(owner, k)
			}
		}
	}
}

func raceCreateContext(f *fixture) {
	won := suite.Winners(f, raceGoroutines/2, store.ErrExists, func(i int) error {
		c := newContext("c1", i)
		c.Context.Name = fmt.Sprint("name ", i)
		return suite.Err(f.trySaveContext(c))
	})
	if got := f.context(owner, "c1"); won != 1 || fmt.Sprint("name ", got.CreatedAt.Sub(start).Milliseconds()) != got.Name {
		f.Errorf("%d of %d created the context %+v, want 1 whole", won, raceGoroutines/2, got)
	}
}

func raceImplicitContext(f *fixture) {
	for round := range raceRounds {
		id := fmt.Sprint("c", round)
		var saved atomic.Bool
		suite.Concurrently(3, func(i int) {
			if i > 0 {
				if r := f.tryCommit(newTask(key(fmt.Sprint(id, "-", i)), id, at(7))); r.Err != nil {
					f.Errorf("Commit() = %v, want nil", r.Err)
				}
				return
			}
			_, err := f.trySaveContext(newContext(id, 7))
			saved.Store(err == nil)
			suite.Do(err).MayFail(f, store.ErrExists, "SaveContext()")
		})
		tasks := []string{id + "-1", id + "-2"}
		want := implicitContext(owner, id, 7, tasks...)
		if saved.Load() {
			want = fullContext(owner, id, 7)
			want.Version, want.TaskCount, want.TaskIDs = 1, 2, tasks
		}
		f.equal("Context()", f.context(owner, id), want)
	}
}

func raceParents(f *fixture) {
	for round := range raceRounds {
		var changes []store.ContextChange
		names := sequence(fmt.Sprint("round ", round, " "), 3)
		for _, id := range names {
			f.saveContext(newContext(id, 0))
		}
		for i, id := range names { // each context gets the next one as its parent
			changes = append(changes, withParent(f.context(owner, id), names[(i+1)%len(names)]))
		}
		won := suite.Winners(f, len(changes), store.ErrParentCycle, func(i int) error {
			return suite.Err(f.trySaveContext(changes[i]))
		})
		if won != 2 {
			f.Errorf("%d of 3 contexts are within the next, want 2", won)
		}
	}
}

func raceArchive(f *fixture) {
	for round := range raceRounds {
		id := fmt.Sprint("c", round)
		archive := withStatus(f.saveContext(newContext(id, 0)), a2a.ContextArchived)
		archive.RequireFinished = true
		var made atomic.Int64
		var archived atomic.Bool
		suite.Concurrently(4, func(i int) {
			if i == 0 {
				_, err := f.trySaveContext(archive)
				archived.Store(err == nil)
				suite.Do(err).MayFail(f, store.ErrBusy, "SaveContext()")
				return
			}
			switch r := f.tryCommit(newTask(key(fmt.Sprint(id, "-", i)), id, at(i))); {
			case r.Err == nil:
				made.Add(1)
			case !errors.Is(r.Err, store.ErrContextClosed):
				f.Errorf("Commit() = %v, want ErrContextClosed", r.Err)
			}
		})
		if got := f.context(owner, id); archived.Load() != (got.Status == a2a.ContextArchived) ||
			archived.Load() && made.Load() > 0 || !archived.Load() && made.Load() != 3 || int64(got.TaskCount) != made.Load() {
			f.Errorf("archived: %t, tasks created: %d, Context() = %+v", archived.Load(), made.Load(), got)
		}
	}
}

func raceDeleteContext(f *fixture) {
	keys := f.createFullContext(owner, "c1", 20)
	unrelated := f.createFullContext(owner, "c2", 2)
	suite.Concurrently(8, func(i int) {
		for range len(keys) + 2 {
			more, err := f.s.DeleteContext(f.ctx, owner, "c1", 1+i%3)
			suite.Do(err).MayFail(f, store.ErrNotFound, "DeleteContext()")
			if err != nil || !more {
				return
			}
		}
		f.Errorf("DeleteContext() is not complete for %d tasks", len(keys))
	})
	f.wantContextGone(owner, "c1", keys)
	f.equal("PendingDeletions()", f.pendingDeletions(9), []string{})
	for _, k := range unrelated {
		f.task(k)
	}
}

// raceDeleteCreate creates tasks while a pending deletion continues. Each task must be
// rejected, or belong to a new context with the same id.
func raceDeleteCreate(f *fixture) {
	keys := f.createFullContext(owner, "c1", 20)
	f.deleteContextBatch("c1", 1)
	var done atomic.Bool
	made := make([][]store.Key, 4)
	suite.Concurrently(5, func(i int) {
		if i == 4 {
			defer done.Store(true)
			for more := true; more; {
				more = suite.Call(f.s.DeleteContext(f.ctx, owner, "c1", 1)).Check(f, "DeleteContext()")
			}
			return
		}
		for n := 0; !done.Load(); n++ {
			k := key(fmt.Sprint("new-", i, "-", n%50))
			switch r := f.tryCommit(newTask(k, "c1", at(n))); {
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
		f.wantNoTask(k)
	}
	page := f.list(store.Query{Owner: owner, ContextID: "c1", Limit: 1, Total: true})
	suite.Equal(f, page.Total, total, "total of Tasks()")
	if got := f.context(owner, "c1"); got.Version != 1 || got.Role != store.DefaultContextRole || got.TaskCount != total {
		f.Errorf("Context() = %+v, want a new one with %d tasks", got, total)
	}
	f.equal("PendingDeletions()", f.pendingDeletions(9), []string{})
}

func raceDeleteBusy(f *fixture) {
	for round := range raceRounds {
		id := fmt.Sprint("c", round)
		old := f.createFullContext(owner, id, 1)
		k := key("new in " + id)
		var created, deleted atomic.Bool
		suite.Concurrently(2, func(i int) {
			if i == 0 {
				r := f.tryCommit(newTask(k, id, at(9)))
				created.Store(r.Err == nil)
				suite.Do(r.Err).MayFail(f, store.ErrContextClosed, "Commit()")
				return
			}
			_, err := f.s.DeleteContext(f.ctx, owner, id, 9)
			deleted.Store(err == nil)
			suite.Do(err).MayFail(f, store.ErrBusy, "DeleteContext()")
		})
		if created.Load() {
			f.task(k)
			if got := f.context(owner, id); deleted.Load() != (got.TaskCount == 1) || deleted.Load() != (got.Name == "") {
				f.Errorf("Context() = %+v, old tasks deleted: %t, want the new task only after a deletion", got, deleted.Load())
			}
		} else if !deleted.Load() {
			f.Errorf("Commit() and DeleteContext() both failed, want one to succeed")
		}
		if deleted.Load() {
			f.wantNoTask(old[0])
		}
	}
}
