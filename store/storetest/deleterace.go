package storetest

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

func deleteRaceTests() []test {
	return []test{
		{"of many that delete a task one does", raceDeleteTask},
		{"a deletion takes all that is added to the task at the same time, or none is added", raceDeleteAdded},
		{"a task is deleted or its events are delivered, never half of both", raceDeleteDelivered},
		{"tasks expire once, whoever removes them", raceExpire},
	}
}

func raceDeleteTask(f *fixture) {
	for round := range rounds {
		k := key(fmt.Sprint("t", round))
		f.finished(k, "c1", round)
		var won atomic.Int64
		together(4, func(i int) {
			switch _, err := f.s.DeleteTask(f.ctx, k, i%2 == 0); {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, store.ErrNotFound):
				f.Errorf("DeleteTask() = %v, want nil or ErrNotFound", err)
			}
		})
		f.equal("deletions", won.Load(), int64(1))
		f.goneTask(k)
	}
	f.equal("TaskCount", f.context(owner, "c1").TaskCount, 0)
}

// raceDeleteAdded adds whatever can be added to a task that is over while it is deleted, and
// ends its run meanwhile: what cannot be is rejected.
func raceDeleteAdded(f *fixture) {
	for round := range rounds {
		k := key(fmt.Sprint("t", round))
		f.commit(newTask(k, "c1", at(round)))
		got := f.claim(claimAt(worker, at(round), 1))[0]
		end := under(k, worker, got.Run.Lease.Fence, status(at(round), a2a.StateCompleted))
		end.Run = idle()
		end.Push = newHooks("q")
		var deleted atomic.Bool
		together(4, func(i int) {
			var err error
			switch i {
			case 0:
				f.commit(end)
			case 1:
				err = f.s.AddFeedback(f.ctx, store.Feedback{Key: k, ID: "f", Rating: 4, CreatedAt: at(round)})
			case 2:
				_, err = f.s.SavePush(f.ctx, hook(k, "p"), place(0), at(round))
			default:
				for range 1000 {
					if _, err = f.s.DeleteTask(f.ctx, k, true); !errors.Is(err, store.ErrBusy) {
						break
					}
				}
				deleted.Store(err == nil)
				if errors.Is(err, store.ErrBusy) {
					return // the run has not ended all this time
				}
			}
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				f.Errorf("call %d = %v, want nil or ErrNotFound", i, err)
			}
		})
		if !deleted.Load() {
			f.deleteTask(k, true)
		}
		f.goneTask(k)
	}
	f.equal("TaskCount", f.context(owner, "c1").TaskCount, 0)
	f.equal("FeedbackSummary()", f.summary(owner), store.FeedbackSummary{})
	f.equal("PushBacklog()", f.pushBacklog(), store.PushBacklog{})
	f.equal("Backlog()", f.backlog(), store.Backlog{})
}

func raceDeleteDelivered(f *fixture) {
	for round := range rounds {
		k := key(fmt.Sprint("t", round))
		c := idleTask(k, "c1", round, a2a.StateCompleted)
		c.Push = newHooks("p")
		f.commit(c)
		l := f.claimLane(worker, 100_000*(round+1))
		var deleted, replayed atomic.Bool
		together(3, func(i int) {
			switch i {
			case 0:
				_, err := f.s.AckLanes(f.ctx, noted(l, len(l.Events), 1))
				if err != nil {
					f.Errorf("AckLanes() = %v, want nil", err)
				}
			case 1:
				_, err := f.s.ReplayPush(f.ctx, k, "p", place(0), at(2))
				replayed.Store(err == nil)
				if err != nil && !errors.Is(err, store.ErrNotFound) {
					f.Errorf("ReplayPush() = %v, want nil or ErrNotFound", err)
				}
			default:
				_, err := f.s.DeleteTask(f.ctx, k, false)
				deleted.Store(err == nil)
				if err != nil && !errors.Is(err, store.ErrUndelivered) {
					f.Errorf("DeleteTask() = %v, want nil or ErrUndelivered", err)
				}
			}
		})
		if replayed.Load() && deleted.Load() {
			f.Errorf("task %s was deleted with the events that were to be delivered again", k.ID)
		}
		if !deleted.Load() {
			f.deleteTask(k, true)
		}
		f.absent(k)
		f.noLane(k, "p")
		f.notDue(1 << 30)
	}
	f.equal("PushBacklog()", f.pushBacklog(), store.PushBacklog{})
}

func raceExpire(f *fixture) {
	const n = 40
	for i := range n {
		f.finished(key(fmt.Sprint("t", i)), fmt.Sprint("c", i%5), i)
	}
	for i := range n { // and those that stay
		f.commit(idleTask(key(fmt.Sprint("u", i)), fmt.Sprint("c", i%5), i, a2a.StateWorking))
	}
	var removed atomic.Int64
	together(4, func(i int) {
		for range 200 {
			p := store.TaskExpiry{State: a2a.StateCompleted, Before: at(1 << 30), Limit: 1 + 3*i}
			for {
				if i == 3 {
					if _, err := f.s.DeleteTask(f.ctx, key(fmt.Sprint("t", n-1-int(removed.Load())/2)), false); err == nil {
						removed.Add(1)
					}
				}
				count, next, err := f.s.ExpireTasks(f.ctx, p)
				if err != nil {
					f.Errorf("ExpireTasks() = %v, want nil", err)
					return
				}
				removed.Add(int64(count))
				if p.After = next; next == nil {
					break
				}
			}
			if removed.Load() >= n {
				return
			}
		}
	})
	f.equal("removed", removed.Load(), int64(n))
	for i := range n {
		f.goneTask(key(fmt.Sprint("t", i)))
	}
	for i := range 5 {
		f.equal("TaskCount", f.context(owner, fmt.Sprint("c", i)).TaskCount, n/5)
	}
	f.equal("PushBacklog()", f.pushBacklog(), store.PushBacklog{})
}
