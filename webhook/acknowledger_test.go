package webhook

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// rejectingStore rejects acks of one task until fixed is set.
type rejectingStore struct {
	Store
	task     string
	fixed    atomic.Bool
	rejected atomic.Int64 // number of rejected calls
}

func (c *rejectingStore) AckLanes(ctx context.Context, acks ...store.LaneAck) ([]store.LaneLease, error) {
	for i := range acks {
		if acks[i].Lease.Task.ID == c.task && !c.fixed.Load() {
			c.rejected.Add(1)
			return nil, errors.New("value out of range")
		}
	}
	return c.Store.AckLanes(ctx, acks...)
}

func TestFailingAckDoesNotDelayOthers(t *testing.T) {
	rejecting := &rejectingStore{task: "bad"}
	inBubble(t, plan{endpoints: 4, config: func(c *Config) {
		rejecting.Store = c.Store
		c.Store = rejecting
	}}, func(w *world) {
		var ids []laneID
		for i := range 64 {
			id := fmt.Sprint("t", i)
			if i == 13 {
				id = rejecting.task
			}
			ids = append(ids, w.newTask("alice", id, i%16, 0))
		}
		time.Sleep(3 * time.Second)
		for _, id := range ids {
			if lane := w.laneOf(id); lane.Pending() != (id.task.ID == rejecting.task) {
				w.t.Errorf("task %s after 3 s: pending = %t, want only the rejected one pending", id.task.ID, lane.Pending())
			}
		}
		time.Sleep(time.Minute)
		before := rejecting.rejected.Load()
		started := time.Now()
		late := w.newTask("bob", "late", 20, 0)
		for lane := w.laneOf(late); lane.Pending(); lane = w.laneOf(late) {
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(started); took > 100*time.Millisecond {
			w.t.Errorf("another lane took %s, want no delay", took)
		}
		time.Sleep(time.Minute)
		if n := rejecting.rejected.Load() - before; n > 40 {
			w.t.Errorf("the ack was tried %d times in a minute, want once in 2 s", n)
		}
		if problems := w.replicas[0].s.Health(); len(problems) != 1 || !strings.Contains(problems[0], "cannot store the delivery results of 1 webhooks") {
			w.t.Errorf("Health() = %q, want the rejected lane", problems)
		}
		rejecting.fixed.Store(true)
		w.drain(time.Minute)
		w.equal("requests of the lane", len(w.postsOf(ids[13])), 1)
		w.equal("problems in the end", len(w.replicas[0].s.Health()), 0)
	})
}
