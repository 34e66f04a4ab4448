package store_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/store"
)

// The example creates a task that is leased to a worker, completes it under the lease and
// reads it. The store rejects a change under another lease.
func Example() {
	ctx := context.Background()
	s := inmem.New()
	key := store.Key{Owner: "alice", ID: "t1"}
	now := store.Time(time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC))
	message := &a2a.Message{ID: "m1", Role: a2a.RoleUser, Parts: []a2a.Part{a2a.TextPart{Text: "hello"}}}

	commit := func(c store.Change) store.Result {
		results, err := s.Commit(ctx, c)
		if err != nil {
			log.Fatal(err)
		}
		return results[0]
	}
	lease := store.Lease{Worker: "w1", Fence: 1, Until: now.Add(time.Minute)}
	created := commit(store.Change{
		Key: key, Create: &store.Create{ContextID: "c1"},
		Events: []store.Event{{Time: now, State: a2a.StateSubmitted, Received: message}, {Time: now, State: a2a.StateWorking}},
		Queue:  &store.QueueEntry{Phase: store.PhaseLeased, Lease: lease, Turn: 1, Attempt: 1},
	})
	completed := commit(store.Change{
		Key: key, Lease: &store.HeldLease{Key: key, Worker: "w1", Fence: 1}, Seen: 1,
		Events: []store.Event{{Time: now, State: a2a.StateCompleted}},
		Queue:  &store.QueueEntry{Phase: store.PhaseIdle, Turn: 1, Attempt: 1, SeenSeq: 1},
	})
	late := commit(store.Change{
		Key: key, Lease: &store.HeldLease{Key: key, Worker: "w0", Fence: 0},
		Events: []store.Event{{Time: now, State: a2a.StateFailed}},
	})
	task, err := s.Task(ctx, key, store.TaskOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(created.Seq, completed.Seq, late.Err)
	fmt.Println(task.Status.State, len(task.History))
	// Output:
	// 2 3 lease lost
	// completed 1
}
