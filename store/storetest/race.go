package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var raceTests = []test{
	{"one of many concurrent creations of a task succeeds", raceCreate},
	{"one of many concurrent changes with one idempotency key succeeds", raceIdempotencyKey},
	{"no update is lost", raceUpdates},
	{"every task is claimed once", raceClaims},
	{"one of concurrent cancel and complete succeeds", raceCancel},
	{"a read never returns a partial change", raceReaders},
	{"a list has no duplicates during changes", raceList},
}

// raceGoroutines is the number of goroutines in a race.
const raceGoroutines = 64

// tryCommit commits one change. It can be called from any goroutine.
func (f *fixture) tryCommit(c store.Change) store.Result {
	results, err := f.s.Commit(f.ctx, c)
	if err != nil || len(results) != 1 {
		f.Errorf("Commit() = %v, %v, want one result", results, err)
		return store.Result{Err: errors.New("no result")}
	}
	return results[0]
}

func raceCreate(f *fixture) {
	won := suite.Winners(f, raceGoroutines, store.ErrExists, func(i int) error {
		c := newTask(key("t1"), fmt.Sprint("c", i), at(i))
		c.Events = append(c.Events, agentMessage(at(i), a2a.StateWorking, fmt.Sprint("m", i)))
		return f.tryCommit(c).Err
	})
	if won != 1 {
		f.Errorf("%d of %d created the task, want 1", won, raceGoroutines)
	}
	t := f.task(key("t1"))
	if want := "c" + t.Status.Message.ID[1:]; t.ContextID != want || t.Seq != 2 {
		f.Errorf("Task() = context %s, version %d, want %s, 2", t.ContextID, t.Seq, want)
	}
	for i := range raceGoroutines {
		if id := fmt.Sprint("c", i); id != t.ContextID {
			f.wantNoContext(owner, id)
		}
	}
}

func raceIdempotencyKey(f *fixture) {
	var won atomic.Value
	suite.Concurrently(raceGoroutines, func(i int) {
		id := fmt.Sprint("t", i)
		switch r := f.tryCommit(withKey(newTask(key(id), "c1", at(i)), "key", at(i))); {
		case r.Err == nil:
			if old := won.Swap(id); old != nil {
				f.Errorf("tasks %v and %s both used the key", old, id)
			}
		case !errors.Is(r.Err, store.ErrDuplicate) || r.Record == nil:
			f.Errorf("Commit() = %v with record %v, want ErrDuplicate with one", r.Err, r.Record)
		}
	})
	page := f.list(store.Query{Owner: owner, Limit: 10})
	f.equal("Tasks()", ids(page.Tasks), []string{f.record(owner, "key").TaskID})
}

func raceUpdates(f *fixture) {
	f.create(key("t1"), at(0))
	each := max(2, f.h.Tasks/300) // every update conflicts with the updates of all others
	suite.Concurrently(raceGoroutines, func(i int) {
		for n := range each {
			for {
				t, err := f.s.Task(f.ctx, key("t1"), store.TaskOptions{History: ptr(0)})
				if err != nil {
					f.Errorf("Task() = %v", err)
					return
				}
				r := f.tryCommit(changeAt(key("t1"), t.Seq, agentMessage(at(i), a2a.StateWorking, fmt.Sprint(i, "-", n))))
				if r.Err == nil {
					break
				}
				if !errors.Is(r.Err, store.ErrConflict) {
					f.Errorf("Commit() = %v, want ErrConflict", r.Err)
					return
				}
			}
		}
	})
	log := f.events(key("t1"))
	seen := make(map[string]bool)
	for i, e := range log {
		if e.Seq != int64(i+1) {
			f.Fatalf("Events()[%d].Seq = %d, want %d", i, e.Seq, i+1)
		}
		if e.Message != nil {
			seen[e.Message.ID] = true
		}
	}
	if want := raceGoroutines * each; len(seen) != want || len(log) != want+1 {
		f.Errorf("Events() = %d updates in %d events, want %d in %d", len(seen), len(log), want, want+1)
	}
}

func raceClaims(f *fixture) {
	n := f.h.Tasks
	var changes []store.Change
	for i := range n {
		changes = append(changes, newTask(store.Key{Owner: fmt.Sprint("o", i%7), ID: fmt.Sprint("t", i)}, "c1", at(i)))
	}
	for len(changes) > 0 {
		k := min(100, len(changes))
		f.commit(changes[:k]...)
		changes = changes[k:]
	}
	var mu sync.Mutex
	claimed := make(map[store.Key]int)
	suite.Concurrently(8, func(i int) {
		last := ""
		for {
			p := claimAt(fmt.Sprint("worker-", i), at(n), 5)
			p.AfterOwner = last
			tasks, err := f.s.Claim(f.ctx, p)
			if err != nil {
				f.Errorf("Claim() = %v", err)
				return
			}
			if len(tasks) == 0 {
				return
			}
			mu.Lock()
			for _, t := range tasks {
				claimed[t.Key]++
				if t.Queue.Lease.Worker != p.Worker || t.Queue.Lease.Fence != 1 {
					f.Errorf("Claim() by %s = a task leased to %+v", p.Worker, t.Queue.Lease)
				}
			}
			mu.Unlock()
			last = tasks[len(tasks)-1].Key.Owner
		}
	})
	for k, times := range claimed {
		if times != 1 {
			f.Errorf("task %s was claimed %d times", taskName(k), times)
		}
	}
	if len(claimed) != n {
		f.Errorf("%d tasks were claimed, want %d", len(claimed), n)
	}
	f.equal("Backlog()", f.backlog(), store.Backlog{Leased: n})
}

func raceCancel(f *fixture) {
	n := max(20, f.h.Tasks/10)
	for i := range n {
		c := newTask(key(fmt.Sprint("t", i)), "c1", at(0))
		c.Queue = leased(worker, at(100))
		f.commit(c)
	}
	var canceled, completed atomic.Int64
	suite.Concurrently(8, func(g int) {
		for i := range n {
			k := key(fmt.Sprint("t", i))
			var r store.Result
			if g%2 == 0 {
				c := changeAt(k, 1, statusEvent(at(1), a2a.StateCanceled))
				c.Queue = idle()
				if r = f.tryCommit(c); r.Err == nil {
					canceled.Add(1)
				}
			} else {
				c := changeUnder(k, worker, 1, chunkEvent(at(1), "a", "text", false), statusEvent(at(1), a2a.StateCompleted))
				c.Queue = idle()
				if r = f.tryCommit(c); r.Err == nil {
					completed.Add(1)
				}
			}
			if r.Err != nil && !errors.Is(r.Err, store.ErrConflict) && !errors.Is(r.Err, store.ErrLeaseLost) {
				f.Errorf("Commit() = %v, want ErrConflict or ErrLeaseLost", r.Err)
			}
		}
	})
	if got := canceled.Load() + completed.Load(); got != int64(n) {
		f.Errorf("%d canceled and %d completed, want %d together", canceled.Load(), completed.Load(), n)
	}
	for i := range n {
		t := f.task(key(fmt.Sprint("t", i)))
		want := int64(2)
		if t.Status.State == a2a.StateCompleted {
			want = 3
		}
		if t.Seq != want || len(t.Artifacts) != int(want-2) {
			f.Errorf("Task() %s at version %d with %d artifacts, want version %d", t.Status.State, t.Seq, len(t.Artifacts), want)
		}
	}
}

// incompleteChange checks a task. Every change adds a message and an artifact chunk to the
// task, and its turn counts the changes. If they do not match, incompleteChange describes
// the difference.
func incompleteChange(t *store.Task) string {
	n := (t.Seq - 1) / 2
	switch {
	case (t.Seq-1)%2 != 0:
		return fmt.Sprintf("version %d", t.Seq)
	case int64(len(t.History)) != n+1:
		return fmt.Sprintf("%d messages at version %d", len(t.History), t.Seq)
	case n > 0 && (len(t.Artifacts) != 1 || int64(len(t.Artifacts[0].Text())) != n):
		return fmt.Sprintf("artifacts %v at version %d", t.Artifacts, t.Seq)
	case int64(t.Queue.Turn) != n+1:
		return fmt.Sprintf("turn %d at version %d", t.Queue.Turn, t.Seq)
	}
	return ""
}

func raceReaders(f *fixture) {
	n := max(20, f.h.Tasks/5)
	k := key("t1")
	f.create(k, at(0))
	var done atomic.Bool
	suite.Concurrently(5, func(i int) {
		switch i {
		case 0:
			defer done.Store(true)
			for n := range n {
				c := changeAt(k, int64(2*n+1), agentMessage(at(n), a2a.StateWorking, fmt.Sprint("m", n)), chunkEvent(at(n), "a", "x", true))
				c.Queue = &store.QueueEntry{Phase: store.PhaseQueued, Turn: n + 2}
				if r := f.tryCommit(c); r.Err != nil {
					f.Errorf("Commit() = %v", r.Err)
					return
				}
			}
		case 1, 2:
			for last := int64(0); !done.Load(); {
				t, err := f.s.Task(f.ctx, k, store.TaskOptions{})
				if err != nil {
					f.Errorf("Task() = %v", err)
					return
				}
				suite.Equal(f, incompleteChange(t), "", "Task()")
				if t.Seq < last {
					f.Errorf("Task().Seq = %d after %d", t.Seq, last)
				}
				last = t.Seq
			}
		case 3:
			for !done.Load() {
				page, err := f.s.Tasks(f.ctx, store.Query{Owner: owner, Limit: 2})
				if err != nil || len(page.Tasks) != 1 {
					f.Errorf("Tasks() = %v, %v, want the task", page, err)
					return
				}
				suite.Equal(f, incompleteChange(page.Tasks[0]), "", "Tasks()")
			}
		case 4:
			for !done.Load() {
				log, err := f.s.Events(f.ctx, k, 0, 10*n)
				if err != nil {
					f.Errorf("Events() = %v", err)
					return
				}
				if len(log)%2 != 1 || log[len(log)-1].Seq != int64(len(log)) {
					f.Errorf("Events() = %d events, last sequence %d, want an odd number without gaps", len(log), log[len(log)-1].Seq)
				}
			}
		}
	})
}

func raceList(f *fixture) {
	n := max(20, f.h.Tasks/10)
	for i := range n {
		f.create(key(fmt.Sprint("t", i)), at(i))
	}
	var done atomic.Bool
	suite.Concurrently(3, func(i int) {
		if i == 0 {
			defer done.Store(true)
			for i := range n {
				f.tryCommit(changeAt(key(fmt.Sprint("t", i*7%n)), 1, statusEvent(at(i*13%n), a2a.StateWorking)))
			}
			return
		}
		for !done.Load() {
			q := store.Query{Owner: owner, Limit: 2 * n, Total: true}
			page, err := f.s.Tasks(f.ctx, q)
			if err != nil {
				f.Errorf("Tasks() = %v", err)
				return
			}
			for i := 1; i < len(page.Tasks); i++ {
				if a, b := q.CursorOf(page.Tasks[i-1]), q.CursorOf(page.Tasks[i]); listOrder(q, a, b) >= 0 {
					f.Errorf("Tasks() lists %v before %v", a, b)
				}
			}
			suite.Equal(f, len(page.Tasks), n, "Tasks() during changes")
			suite.Equal(f, page.Total, n, "total of Tasks() during changes")
		}
	})
}
