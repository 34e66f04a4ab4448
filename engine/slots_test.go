package engine_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/await"
)

// blockingTurns is a handler with turns that wait until the test finishes them.
type blockingTurns struct {
	mu      sync.Mutex
	running map[string]int // by owner
	started map[string]int // by owner, in total
	end     map[string]chan struct{}
}

func newBlockingTurns() *blockingTurns {
	return &blockingTurns{running: make(map[string]int), started: make(map[string]int), end: make(map[string]chan struct{})}
}

func (l *blockingTurns) count(owner string, by int) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running[owner] += by
	l.started[owner] += max(by, 0)
	if l.end[owner] == nil {
		l.end[owner] = make(chan struct{})
	}
	return l.end[owner]
}

func (l *blockingTurns) handle(ctx context.Context, turn *engine.Turn) error {
	end := l.count(turn.Owner(), 1)
	defer l.count(turn.Owner(), -1)
	select {
	case <-end:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// finishOne ends one turn of an owner.
func (l *blockingTurns) finishOne(owner string) { l.count(owner, 0) <- struct{}{} }

// want waits until each owner has the given numbers of running and of started turns: "a 1/2".
func (l *blockingTurns) want(t *testing.T, want ...string) {
	t.Helper()
	current := func() string {
		l.mu.Lock()
		defer l.mu.Unlock()
		var all []string
		for owner, n := range l.started {
			all = append(all, fmt.Sprintf("%s %d/%d", owner, l.running[owner], n))
		}
		slices.Sort(all)
		return fmt.Sprint(all)
	}
	await.Success(t, func() error {
		if got := current(); got != fmt.Sprint(want) {
			return fmt.Errorf("running/started turns by owner = %s, want %v", got, want)
		}
		return nil
	})
}

func sendAs(t *testing.T, e *engine.Engine, owner string, n int) {
	t.Helper()
	for range n {
		if _, err := e.Send(t.Context(), a2a.Principal{ID: owner}, message("a"), engine.SendOptions{}); err != nil {
			t.Fatalf("Send() of %s = %v", owner, err)
		}
	}
}

func TestOneOwnerCannotUseAllSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := newBlockingTurns()
		// The dispatcher claims only when it is woken.
		cfg := engine.Config{Handler: turns.handle, MultiOwner: true, Turns: engine.Turns{Concurrency: 16, Lease: time.Hour, Poll: time.Hour}}
		e := start(t, cfg)
		sendAs(t, e, "alice", 30)
		turns.want(t, "alice 12/12")
		await.True(t, "an owner is at its limit", func() bool { return e.Health(t.Context()).OwnersAtLimit == 1 })
		sendAs(t, e, "bob", 3)
		turns.want(t, "alice 12/12", "bob 1/1")
		sendAs(t, e, "carol", 1)
		turns.want(t, "alice 12/12", "bob 1/1", "carol 1/1")
		// bob may use the reserved slot again because none of his turns runs.
		turns.finishOne("bob")
		turns.want(t, "alice 12/12", "bob 1/2", "carol 1/1")
		turns.finishOne("carol")
		turns.want(t, "alice 12/12", "bob 1/2", "carol 0/1")
		// All free slots are reserved.
		turns.finishOne("alice")
		turns.want(t, "alice 11/12", "bob 1/2", "carol 0/1")
		// One free slot is not reserved, so alice may use it.
		turns.finishOne("bob")
		turns.want(t, "alice 12/13", "bob 1/3", "carol 0/1")
		turns.finishOne("bob")
		for started := 14; started <= 30; started++ {
			turns.finishOne("alice")
			turns.want(t, fmt.Sprintf("alice 12/%d", started), "bob 0/3", "carol 0/1")
		}
	})
}

func TestOneOwnerMayUseAllUnreservedSlots(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]engine.Config{"one owner": {}, "several, none reserved": {MultiOwner: true, Turns: engine.Turns{Reserved: -1}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				turns := newBlockingTurns()
				cfg.Handler, cfg.Turns.Concurrency = turns.handle, 16
				e := start(t, cfg)
				sendAs(t, e, "alice", 30)
				turns.want(t, "alice 16/16")
				if h := e.Health(t.Context()); h.Reserved != 0 || h.OwnersAtLimit != 0 {
					t.Errorf("Health() = %+v, want none reserved", h)
				}
			})
		})
	}
}

// Claims of tasks queued before the start, or by another replica, also respect the reserved
// slots.
func TestClaimLeavesReservedSlotsToOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns, shared := newBlockingTurns(), inmem.New()
		sender := start(t, engine.Config{Store: &idleReplica{sharedStore: sharedStore{shared}}, Handler: turns.handle, Turns: engine.Turns{Concurrency: 1}})
		synctest.Wait() // until its first claim has returned the only slot
		sendAs(t, sender, "nobody", 1)
		turns.want(t, "nobody 1/1")
		sendAs(t, sender, "alice", 200)
		e := start(t, engine.Config{Store: sharedStore{shared}, Handler: turns.handle, Turns: engine.Turns{Concurrency: 100, Reserved: 40, Poll: 10 * time.Millisecond}})
		turns.want(t, "alice 60/60", "nobody 1/1")
		sendAs(t, sender, "bob", 20)
		sendAs(t, sender, "carol", 2)
		await.True(t, "the tasks of bob and carol run", func() bool {
			turns.mu.Lock()
			defer turns.mu.Unlock()
			return turns.running["carol"] == 2 && turns.running["bob"] >= 5
		})
		if h := e.Health(t.Context()); h.OwnersAtLimit != 2 || h.Reserved != 40 {
			t.Errorf("Health() = %+v, want 40 turns reserved and alice and bob held back", h)
		}
		turns.mu.Lock()
		defer turns.mu.Unlock()
		if n := turns.running["bob"]; turns.running["alice"] != 60 || n >= 10 {
			t.Errorf("turns run by owner: %v, want 60 of alice and 5 to 9 of bob", turns.running)
		}
	})
}

// The dispatcher claims only when it is woken: a task without a wake-up never ends.
func TestReservedSlotsStarveNoTask(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const owners, each = 5, 200
		var done sync.WaitGroup
		done.Add(owners * each)
		e := start(t, engine.Config{
			Handler: func(context.Context, *engine.Turn) error {
				time.Sleep(time.Millisecond)
				done.Done()
				return nil
			},
			Turns: engine.Turns{Concurrency: 12, Reserved: 8, Lease: time.Hour, Poll: time.Hour},
		})
		for i := range owners {
			go func() {
				for n := range each {
					if _, err := e.Send(t.Context(), a2a.Principal{ID: fmt.Sprint("owner", i)}, message("a"), engine.SendOptions{}); err != nil {
						t.Errorf("Send() = %v", err)
					}
					if n%(10*(i+1)) == 0 {
						time.Sleep(time.Duration(i) * 3 * time.Millisecond)
					}
				}
			}()
		}
		ended := make(chan struct{})
		go func() { done.Wait(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(await.Limit):
			t.Fatalf("tasks wait although slots are free: %+v", e.Health(t.Context()))
		}
	})
}
