package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/runtime"
	"github.com/holdfast-dev/holdfast/store"
)

// runLease is the lease of a run, and what this process knows about its end.
type runLease struct {
	*settings
	store.HeldLease
	until atomic.Int64 // known end, as settings.elapsed
}

// ensureLease waits until the run certainly holds its lease. The run calls it before work that
// another run could have started. The lease may have expired if the answer to its claim was delayed or
// the process was suspended. ensureLease returns at once if the lease is valid; otherwise it
// renews the lease, and retries until the store answers.
func (r *run) ensureLease(ctx context.Context) error {
	for pause := minCommitRetry; r.lease.left() <= 0; pause = min(2*pause, maxCommitRetry) {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		lost, err := r.lease.renew(ctx)
		if lost {
			return r.out.abort(ErrLeaseLost)
		}
		if err != nil {
			r.e.log.Warn("lease renewal of a run failed, retrying", "task", r.l.key.ID, "in", pause, "error", err)
			_ = runtime.Sleep(ctx, pause)
		}
	}
	return nil
}

// renew extends the lease by a call of the store. It reports whether the lease is lost.
func (l *runLease) renew(ctx context.Context) (lost bool, err error) {
	started, until := l.elapsed(), store.Time(l.now().Add(l.cfg.Turns.Lease))
	ctx, cancel := context.WithTimeoutCause(ctx, l.cfg.Turns.Lease, a2a.Errorf(a2a.CodeUnavailable, "lease renewal took too long"))
	defer cancel()
	keys, err := l.cfg.Store.Renew(ctx, until, []store.HeldLease{l.HeldLease})
	if err == nil && len(keys) == 0 {
		l.extend(started + l.cfg.Turns.Lease)
	}
	return len(keys) > 0, err
}

// extend records the end of the lease on the monotonic clock of this process: one lease
// period after the start of the call that claimed or renewed it. It never moves the end back.
func (l *runLease) extend(until time.Duration) {
	for old := l.until.Load(); old < int64(until) && !l.until.CompareAndSwap(old, int64(until)); {
		old = l.until.Load()
	}
}

// left returns how long the lease is certainly valid. That is a little less than its
// remaining time, because a handler takes time to stop and the clocks of other workers differ.
func (l *runLease) left() time.Duration {
	return time.Duration(l.until.Load()) - l.elapsed() - l.cfg.Turns.Lease/20
}
