package postgres

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// waiting is the change that creates a task with a webhook and queues it.
func waiting(id, context string) store.Change {
	k := store.Key{Owner: "o", ID: id}
	c := store.Change{
		Key: k, Create: &store.Create{ContextID: context},
		Events: []store.Event{{Time: began, State: a2a.StateSubmitted, Received: message("m1", "user", "hello")}},
		Run:    &store.Run{Phase: store.PhaseQueued, Turn: 1},
	}
	c.Push = []store.NewPush{{ID: "p", Endpoint: "http://receiver.example:80", Data: []byte("{}")}}
	return c
}

// Somebody who holds on to a row of a webhook holds up its task alone.
func TestAClaimPassesOverTasksWithALockedWebhook(t *testing.T) {
	t.Parallel()
	for _, contexts := range []int{1, 4} {
		t.Run(fmt.Sprint(contexts, " contexts"), func(t *testing.T) {
			t.Parallel()
			s := open(storetest.Wrap(t), fresh(storetest.Wrap(t), Config{}))
			for i := range 4 {
				must(t, commitOne(s, waiting(fmt.Sprint("t", i), fmt.Sprint("c", i%contexts))))
			}
			tx, err := s.pool.Begin(bg)
			must(t, err)
			defer func() { _ = tx.Rollback(bg) }()
			_, err = tx.Exec(bg, s.q(`SELECT 1 FROM {s}.push_lanes WHERE task_id = 't0' FOR UPDATE`))
			must(t, err)
			claim := func(limit int, oldest bool) (got []string) {
				t.Helper()
				tasks, err := s.Claim(bg, store.ClaimParams{
					Worker: "w", Now: began, Until: began.Add(time.Hour), Limit: limit, OldestFirst: oldest,
					Event: store.Event{Time: began, State: a2a.StateWorking},
				})
				must(t, err)
				for _, task := range tasks {
					got = append(got, task.Key.ID)
				}
				return got
			}
			if got := claim(1, true); !slices.Equal(got, []string{"t1"}) {
				t.Errorf("Claim() of the oldest = %v, want t1", got)
			}
			if got := claim(10, false); !slices.Equal(got, []string{"t2", "t3"}) {
				t.Errorf("Claim() = %v, want t2 and t3", got)
			}
			must(t, tx.Rollback(bg))
			if got := claim(10, false); !slices.Equal(got, []string{"t0"}) {
				t.Errorf("Claim() after the row was let go = %v, want t0", got)
			}
		})
	}
}
