package engine_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store"
)

// lockedTaskStore is a store that cannot extend the lease of one task, because its row is
// locked.
type lockedTaskStore struct {
	sharedStore
	locked  string
	renewed chan struct{} // receives a token after each renewal
}

func (s *lockedTaskStore) Renew(ctx context.Context, until time.Time, leases []store.HeldLease) ([]store.Key, error) {
	i := slices.IndexFunc(leases, func(l store.HeldLease) bool { return l.Key.ID == s.locked })
	if i < 0 {
		return s.sharedStore.Renew(ctx, until, leases)
	}
	key := leases[i].Key
	lost, err := s.sharedStore.Renew(ctx, until, slices.Delete(leases, i, i+1))
	if err == nil {
		err = &store.RenewError{Keys: []store.Key{key}}
	}
	select {
	case s.renewed <- struct{}{}:
	default:
	}
	return lost, err
}

// A handler stops at the end of a lease that cannot be extended. Such a lease neither ends other runs nor prevents new ones.
func TestLockedLeaseDoesNotAffectOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &lockedTaskStore{sharedStore: sharedStore{inmem.New()}, locked: newID(), renewed: make(chan struct{}, 1)}
		proceed := map[string]chan struct{}{"locked": make(chan struct{}), "other": make(chan struct{}), "queued": make(chan struct{})}
		close(proceed["queued"])
		causes := make(chan error, 100)
		e := start(t, engine.Config{
			Store: s, Turns: engine.Turns{Lease: time.Second, Poll: 20 * time.Millisecond, Concurrency: 2},
			Handler: func(ctx context.Context, turn *engine.Turn) error {
				select {
				case <-proceed[turn.Messages()[0].Text()]:
					return nil
				case <-ctx.Done():
					if turn.TaskID() == s.locked {
						causes <- context.Cause(ctx)
					}
					return context.Cause(ctx)
				}
			},
		})
		ids := make(map[string]string)
		for _, name := range []string{"locked", "other", "queued"} {
			p := message(name)
			p.Message.TaskID, p.Message.ContextID = newID(), newID()
			if name == "locked" {
				p.Message.TaskID = s.locked
			}
			ids[name] = p.Message.TaskID
			send(t, e, p)
		}
		for range 6 { // until the first lease has expired
			<-s.renewed
		}
		if cause := receive(t, causes); !errors.Is(cause, engine.ErrLeaseLost) {
			t.Errorf("cause of the stop of a handler without an extended lease = %v, want %v", cause, engine.ErrLeaseLost)
		}
		close(proceed["other"])
		wantState(t, waitFinal(t, e, ids["other"]), a2a.StateCompleted)
		wantState(t, waitFinal(t, e, ids["queued"]), a2a.StateCompleted)
		close(proceed["locked"])
		wantState(t, waitFinal(t, e, ids["locked"]), a2a.StateCompleted)
	})
}
