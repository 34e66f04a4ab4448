package push

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

// choosy cannot store the acknowledgements of one task.
type choosy struct {
	store.Store
	task  string
	cured atomic.Bool
	calls atomic.Int64 // that it has refused
}

func (c *choosy) AckLanes(ctx context.Context, acks ...store.LaneAck) ([]store.LaneLease, error) {
	for i := range acks {
		if acks[i].Lease.Task.ID == c.task && !c.cured.Load() {
			c.calls.Add(1)
			return nil, errors.New("value out of range")
		}
	}
	return c.Store.AckLanes(ctx, acks...)
}

func TestAnAckThatCannotBeStoredHoldsUpNoOthers(t *testing.T) {
	kept := &choosy{task: "bad"}
	inBubble(t, plan{endpoints: 4, config: func(c *Config) {
		kept.Store = c.Store
		c.Store = kept
	}}, func(w *world) {
		var ids []laneID
		for i := range 64 {
			id := fmt.Sprint("t", i)
			if i == 13 {
				id = kept.task
			}
			ids = append(ids, w.story("alice", id, i%16, 0))
		}
		time.Sleep(3 * time.Second)
		for _, id := range ids {
			if lane := w.laneOf(id); lane.Pending() != (id.task.ID == kept.task) {
				w.t.Errorf("3 s later task %s is pending: %t", id.task.ID, lane.Pending())
			}
		}
		time.Sleep(time.Minute)
		refused := kept.calls.Load()
		started := time.Now()
		late := w.story("bob", "late", 20, 0)
		for lane := w.laneOf(late); lane.Pending(); lane = w.laneOf(late) {
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(started); took > 100*time.Millisecond {
			w.t.Errorf("another lane took %s, want no pause", took)
		}
		time.Sleep(time.Minute)
		if n := kept.calls.Load() - refused; n > 40 {
			w.t.Errorf("the ack was tried %d times in a minute, want one in 2 s", n)
		}
		if problems := w.replicas[0].s.Health(); len(problems) != 1 || !strings.Contains(problems[0], "1 webhooks cannot be stored") {
			w.t.Errorf("problems = %q, want the one that cannot be stored", problems)
		}
		kept.cured.Store(true)
		w.drain(time.Minute)
		w.equal("requests of the lane", len(w.postsOf(ids[13])), 1)
		w.equal("problems in the end", len(w.replicas[0].s.Health()), 0)
	})
}
