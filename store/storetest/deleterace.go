package storetest

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var deleteRaceTests = []test{
	{"one of many concurrent deletions of a task succeeds", raceDeleteTask},
	{"objects added during a deletion are deleted too, or rejected", raceDeleteWhileAdding},
	{"a task is deleted or its events are delivered, not both in part", raceDeleteWhileDelivering},
	{"concurrent removals count each task once", raceExpireTasks},
}

func raceDeleteTask(f *fixture) {
	for round := range raceRounds {
		k := key(fmt.Sprint("t", round))
		f.createFullTask(k, "c1", round)
		won := suite.Winners(f, 4, store.ErrNotFound, func(i int) error {
			return suite.Err(f.s.DeleteTask(f.ctx, k, i%2 == 0))
		})
		f.equal("successful deletions", won, int64(1))
		f.wantTaskGone(k)
	}
	f.equal("Context().TaskCount", f.context(owner, "c1").TaskCount, 0)
}

// raceDeleteWhileAdding deletes a task while other goroutines complete it and add feedback and
// webhooks. Each addition must be deleted too, or rejected.
func raceDeleteWhileAdding(f *fixture) {
	for round := range raceRounds {
		k := key(fmt.Sprint("t", round))
		f.commit(newTask(k, "c1", at(round)))
		got := f.claim(claimAt(worker, at(round), 1))[0]
		end := changeUnder(k, worker, got.Queue.Lease.Fence, statusEvent(at(round), a2a.StateCompleted))
		end.Queue = idle()
		end.Webhooks = testWebhooks("q")
		var deleted atomic.Bool
		suite.Concurrently(4, func(i int) {
			var err error
			switch i {
			case 0:
				f.commit(end)
			case 1:
				err = f.s.AddFeedback(f.ctx, store.Feedback{Key: k, ID: "f", Rating: 4, CreatedAt: at(round)})
			case 2:
				_, err = f.s.SaveWebhook(f.ctx, testWebhook(k, "p"), cursorAt(0), at(round))
			default:
				for range 1000 {
					if _, err = f.s.DeleteTask(f.ctx, k, true); !errors.Is(err, store.ErrBusy) {
						break
					}
				}
				deleted.Store(err == nil)
				if errors.Is(err, store.ErrBusy) {
					return // the task was not completed during all attempts
				}
			}
			suite.Do(err).MayFail(f, store.ErrNotFound, "call %d", i)
		})
		if !deleted.Load() {
			f.deleteTask(k, true)
		}
		f.wantTaskGone(k)
	}
	f.equal("Context().TaskCount", f.context(owner, "c1").TaskCount, 0)
	f.equal("FeedbackSummary()", f.summary(owner), store.FeedbackSummary{})
	f.equal("WebhookBacklog()", f.webhookBacklog(), store.WebhookBacklog{})
	f.equal("Backlog()", f.backlog(), store.Backlog{})
}

func raceDeleteWhileDelivering(f *fixture) {
	for round := range raceRounds {
		k := key(fmt.Sprint("t", round))
		c := idleTask(k, "c1", round, a2a.StateCompleted)
		c.Webhooks = testWebhooks("p")
		f.commit(c)
		l := f.claimLane(worker, 100_000*(round+1))
		var deleted, replayed atomic.Bool
		suite.Concurrently(3, func(i int) {
			switch i {
			case 0:
				suite.Call(f.s.AckLanes(f.ctx, ackDeadLetters(l, len(l.Events), 1))).Check(f, "AckLanes()")
			case 1:
				_, err := f.s.ReplayWebhook(f.ctx, k, "p", cursorAt(0), at(2))
				replayed.Store(err == nil)
				suite.Do(err).MayFail(f, store.ErrNotFound, "ReplayWebhook()")
			default:
				_, err := f.s.DeleteTask(f.ctx, k, false)
				deleted.Store(err == nil)
				suite.Do(err).MayFail(f, store.ErrUndelivered, "DeleteTask()")
			}
		})
		if replayed.Load() && deleted.Load() {
			f.Errorf("task %s was deleted with replayed events that were not delivered", k.ID)
		}
		if !deleted.Load() {
			f.deleteTask(k, true)
		}
		f.wantNoTask(k)
		f.wantNoLane(k, "p")
		f.wantNoDueLane(1 << 30)
	}
	f.equal("WebhookBacklog()", f.webhookBacklog(), store.WebhookBacklog{})
}

func raceExpireTasks(f *fixture) {
	const n = 40
	for i := range n {
		f.createFullTask(key(fmt.Sprint("t", i)), fmt.Sprint("c", i%5), i)
	}
	for i := range n { // tasks that do not expire
		f.commit(idleTask(key(fmt.Sprint("u", i)), fmt.Sprint("c", i%5), i, a2a.StateWorking))
	}
	var removed atomic.Int64
	suite.Concurrently(4, func(i int) {
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
	f.equal("removed tasks", removed.Load(), int64(n))
	for i := range n {
		f.wantTaskGone(key(fmt.Sprint("t", i)))
	}
	for i := range 5 {
		f.equal("Context().TaskCount", f.context(owner, fmt.Sprint("c", i)).TaskCount, n/5)
	}
	f.equal("WebhookBacklog()", f.webhookBacklog(), store.WebhookBacklog{})
}
