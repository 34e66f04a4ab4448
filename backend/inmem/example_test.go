package inmem_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/store"
)

func ExampleNew() {
	ctx, now := context.Background(), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := inmem.New()
	defer func() { _ = s.Close() }()

	key := store.Key{Owner: "alice", ID: "task-1"}
	question := &a2a.Message{ID: "m1", Role: a2a.RoleUser, Parts: []a2a.Part{a2a.TextPart{Text: "Why?"}}}
	submit := store.Change{
		Key:    key,
		Create: &store.Create{ContextID: "talk"},
		Events: []store.Event{{Time: now, State: a2a.StateSubmitted, Received: question}},
		Queue:  &store.QueueEntry{Phase: store.PhaseQueued, Turn: 1},
	}
	for range 2 {
		results, err := s.Commit(ctx, submit)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("version", results[0].Seq, "already exists:", errors.Is(results[0].Err, store.ErrExists))
	}

	claimed, err := s.Claim(ctx, store.ClaimParams{
		Worker: "w1", Now: now, Until: now.Add(time.Minute), Limit: 1,
		Event: store.Event{Time: now, State: a2a.StateWorking},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(claimed[0].Key.ID, claimed[0].Status.State, "under fence", claimed[0].Queue.Lease.Fence)
	// Output:
	// version 1 already exists: false
	// version 0 already exists: true
	// task-1 working under fence 1
}
