package engine

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/runtime"
	"github.com/holdfast-dev/holdfast/store"
)

// ensureLease waits until the run certainly holds its lease. The run calls it before work that
// another run could have started. The lease may have expired if the answer to its claim was delayed or
// the process was suspended. ensureLease returns at once if the lease is valid; otherwise it
// renews the lease, and retries until the store answers.
func (r *run) ensureLease(ctx context.Context) error {
	for pause := minCommitRetry; r.leaseLeft() <= 0; pause = min(2*pause, maxCommitRetry) {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		lost, err := r.renew(ctx)
		if len(lost) > 0 {
			return r.abort(ErrLeaseLost)
		}
		if err != nil {
			r.e.log.Warn("lease renewal of a run failed, retrying", "task", r.l.key.ID, "in", pause, "error", err)
			_ = runtime.Sleep(ctx, pause)
		}
	}
	return nil
}

func (r *run) renew(ctx context.Context) (lost []store.Key, err error) {
	started, until := r.e.elapsed(), store.Time(r.e.now().Add(r.e.cfg.Turns.Lease))
	ctx, cancel := context.WithTimeoutCause(ctx, r.e.cfg.Turns.Lease, a2a.Errorf(a2a.CodeUnavailable, "lease renewal took too long"))
	defer cancel()
	lost, err = r.e.cfg.Store.Renew(ctx, until, []store.HeldLease{r.lease})
	if err == nil && len(lost) == 0 {
		r.extendLease(started + r.e.cfg.Turns.Lease)
	}
	return lost, err
}

// extendLease records the end of the lease on the monotonic clock of this process: one lease
// period after the start of the call that claimed or renewed it. It never moves the end back.
func (r *run) extendLease(until time.Duration) {
	for old := r.leaseUntil.Load(); old < int64(until) && !r.leaseUntil.CompareAndSwap(old, int64(until)); {
		old = r.leaseUntil.Load()
	}
}

// leaseLeft returns how long the lease is certainly valid. That is a little less than its
// remaining time, because a handler takes time to stop and the clocks of other workers differ.
func (r *run) leaseLeft() time.Duration {
	return time.Duration(r.leaseUntil.Load()) - r.e.elapsed() - r.e.cfg.Turns.Lease/20
}
