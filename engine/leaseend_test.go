package engine_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store"
)

// slowRenewal is a replica's view of a store that delays answers. Renewals after the first one fail.
type slowRenewal struct {
	sharedStore
	commit, renewal time.Duration // delays of the first commit and of the first renewal

	mu    sync.Mutex
	until time.Time // the end of the lease in the store
}

func (s *slowRenewal) Commit(ctx context.Context, changes ...store.Change) ([]store.Result, error) {
	results, err := s.sharedStore.Commit(ctx, changes...)
	s.mu.Lock()
	first := s.until.IsZero()
	if first {
		s.until = changes[0].Queue.Lease.Until
	}
	s.mu.Unlock()
	if first {
		time.Sleep(s.commit)
	}
	return results, err
}

func (s *slowRenewal) Renew(ctx context.Context, until time.Time, leases []store.HeldLease) ([]store.Key, error) {
	s.mu.Lock()
	delay := s.renewal
	s.mu.Unlock()
	if delay == 0 {
		return nil, a2a.Errorf(a2a.CodeUnavailable, "no connection")
	}
	lost, err := s.sharedStore.Renew(ctx, until, leases)
	s.mu.Lock()
	s.until = until
	s.mu.Unlock()
	time.Sleep(delay)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewal = 0
	return lost, err
}

// A handler stops before its lease ends in the store, although the answers of the store are late.
func TestHandlerStopsBeforeItsLeaseEndsInTheStore(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*slowRenewal{
		"lease of the first commit":     {},
		"lease renewed for all runs":    {renewal: lease / 4},
		"late answer to a commit":       {commit: lease / 2},
		"lease renewed before the turn": {commit: lease + time.Second, renewal: lease / 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s.sharedStore = sharedStore{inmem.New()}
				stopped := make(chan time.Time, 100)
				e := start(t, engine.Config{Store: s, Handler: func(ctx context.Context, _ *engine.Turn) error {
					<-ctx.Done()
					if errors.Is(context.Cause(ctx), engine.ErrLeaseLost) {
						stopped <- time.Now()
					}
					return ctx.Err()
				}})
				synctest.Wait() // the first claim has ended: the commit of the message starts the run
				send(t, e, message("a"))
				at := receive(t, stopped)
				s.mu.Lock()
				defer s.mu.Unlock()
				if left := s.until.Sub(at); left <= 0 || left > lease/10 {
					t.Errorf("the handler stopped %s before the end of its lease, want a little before", left)
				}
			})
		})
	}
}
