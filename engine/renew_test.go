package engine_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store"
)

// stubborn is a store that cannot extend the lease of one task: somebody has locked it.
type stubborn struct {
	replicas
	locked string
	asked  chan struct{} // has a token after each time
}

func (s *stubborn) Renew(ctx context.Context, until time.Time, leases []store.HeldLease) ([]store.Key, error) {
	i := slices.IndexFunc(leases, func(l store.HeldLease) bool { return l.Key.ID == s.locked })
	if i < 0 {
		return s.replicas.Renew(ctx, until, leases)
	}
	key := leases[i].Key
	lost, err := s.replicas.Renew(ctx, until, slices.Delete(leases, i, i+1))
	if err == nil {
		err = &store.RenewError{Keys: []store.Key{key}}
	}
	select {
	case s.asked <- struct{}{}:
	default:
	}
	return lost, err
}

// One lease that cannot be extended neither ends other runs nor keeps new ones from
// beginning.
func TestALeaseThatCannotBeExtendedIsNoMatterOfOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &stubborn{replicas: replicas{inmem.New()}, locked: newID(), asked: make(chan struct{}, 1)}
		goOn := map[string]chan struct{}{"locked": make(chan struct{}), "other": make(chan struct{}), "queued": make(chan struct{})}
		close(goOn["queued"])
		e := start(t, engine.Config{
			Store: s, Lease: time.Second, Poll: 20 * time.Millisecond, Concurrency: 2,
			Handler: func(ctx context.Context, turn *engine.Turn) error {
				select {
				case <-goOn[turn.Messages()[0].Text()]:
					return nil
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			},
		})
		ids := make(map[string]string)
		for _, name := range []string{"locked", "other", "queued"} {
			p := text(name)
			p.Message.TaskID, p.Message.ContextID = newID(), newID()
			if name == "locked" {
				p.Message.TaskID = s.locked
			}
			ids[name] = p.Message.TaskID
			send(t, e, p)
		}
		for range 6 { // until the first lease is over
			<-s.asked
		}
		close(goOn["other"])
		wantState(t, settled(t, e, ids["other"]), a2a.StateCompleted)
		wantState(t, settled(t, e, ids["queued"]), a2a.StateCompleted)
		close(goOn["locked"])
		wantState(t, settled(t, e, ids["locked"]), a2a.StateCompleted)
	})
}
