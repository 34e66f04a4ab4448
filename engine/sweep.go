package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/internal/runtime"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/contract"
)

// contractTimeout limits a call to a store of [Contracts], which may be another system.
const contractTimeout = 10 * time.Second

// sweep is the sweep of one kind of data in a store of [Contracts], or of removed tasks. Each sweep has its own loop,
// so that a store which fails or does not answer delays no other kind.
type sweep struct {
	*settings
	runs *runs
	contract.Sweep
	// wake starts a pass before the next tick. It may be nil.
	wake runtime.Signal
	done atomic.Int64 // items
}

// run removes data at the start and at each tick.
func (s *sweep) run(ctx context.Context, beat func()) {
	interval := 4 * max(s.cfg.Turns.Lease, s.cfg.Turns.Poll)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var logged time.Duration // when a failure was logged
	for first := true; ctx.Err() == nil; first = false {
		if err := s.pass(ctx, beat); err != nil && ctx.Err() == nil && (first || logged == 0 || s.elapsed()-logged >= interval) {
			logged = s.elapsed()
			s.log.Warn("sweep failed, retrying", "kind", s.Kind, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		case <-s.wake:
		}
	}
}

// pass removes batches until none is left or one fails.
func (s *sweep) pass(ctx context.Context, beat func()) (err error) {
	started, total := s.elapsed(), 0
	for more := true; more && err == nil && ctx.Err() == nil; {
		beat()
		batchStarted, n := s.elapsed(), 0
		call, cancel := context.WithTimeout(ctx, contractTimeout)
		n, more, err = s.Batch(call, store.Time(s.cfg.clock()))
		cancel()
		total += n
		s.done.Add(int64(n))
		if more {
			s.runs.yieldStore(ctx, s.elapsed()-batchStarted)
		}
	}
	if total > 0 {
		s.log.Info("sweep done", "kind", s.Kind, "count", total, "duration", s.elapsed()-started)
	}
	return err
}

// newSweeps returns the sweeps of removed tasks and of the stores of contracts.
func newSweeps(s *settings, runs *runs, removed *removals) []*sweep {
	sweeps := []*sweep{{settings: s, runs: runs, wake: removed.wake, Sweep: contract.Sweep{Kind: "removed tasks", Batch: removed.batches()}}}
	for _, kept := range s.cfg.Contracts.Stores {
		if sweeper, ok := kept.(contract.Sweeper); ok {
			for _, one := range sweeper.Sweeps() {
				sweeps = append(sweeps, &sweep{settings: s, runs: runs, Sweep: one})
			}
		}
	}
	return sweeps
}

// batches returns the batch of a sweep that completes removals. A pass ends early if a whole batch
// fails, because a store is probably down. The next pass continues after that batch, so removals
// that always fail do not keep others from being tried.
func (r *removals) batches() func(ctx context.Context, now time.Time) (int, bool, error) {
	var after store.Removal
	var failed error
	return func(ctx context.Context, _ time.Time) (int, bool, error) {
		n, next, err := r.completeBatch(ctx, after)
		if err != nil {
			failed = err
		}
		after = store.Removal{}
		if next != nil {
			after = *next
		}
		if next != nil && n > 0 {
			return n, true, nil
		}
		err, failed = failed, nil
		return n, false, err
	}
}
