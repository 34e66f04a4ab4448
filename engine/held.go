package engine

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// hold makes sure that the run has its lease before it begins what another run may
// have begun if it has not: the answer that gave the lease may have been long in
// coming, or the process suspended since. It costs nothing while the lease cannot be
// over. While the store does not answer it waits.
func (r *run) hold(ctx context.Context) error {
	for pause := settlePause; r.leaseLeft() <= 0; pause = min(2*pause, settleMax) {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		lost, err := r.renew(ctx)
		if len(lost) > 0 {
			return r.die(ErrLeaseLost)
		}
		if err != nil {
			r.e.log.Warn("renew the lease of a run before it goes on, trying again", "task", r.l.key.ID, "in", pause, "error", err)
			r.e.sleep(ctx, pause)
		}
	}
	return nil
}

func (r *run) renew(ctx context.Context) (lost []store.Key, err error) {
	begun, until := r.e.elapsed(), store.Time(r.e.now().Add(r.e.cfg.Lease))
	ctx, cancel := context.WithTimeoutCause(ctx, r.e.cfg.Lease, a2a.Errorf(a2a.CodeUnavailable, "lease renewal took too long"))
	defer cancel()
	lost, err = r.e.cfg.Store.Renew(ctx, until, []store.HeldLease{r.lease})
	if err == nil && len(lost) == 0 {
		r.holdUntil(begun + r.e.cfg.Lease)
	}
	return lost, err
}

// holdUntil notes until when the lease lasts, on the monotonic clock of this process: one
// lease after the call began that claimed or renewed it.
func (r *run) holdUntil(until time.Duration) {
	for old := r.until.Load(); old < int64(until) && !r.until.CompareAndSwap(old, int64(until)); {
		old = r.until.Load()
	}
}

// leaseLeft returns for how long the lease may be relied on: a little less than it lasts,
// since a handler takes time to stop and the clocks of other workers differ.
func (r *run) leaseLeft() time.Duration {
	return time.Duration(r.until.Load()) - r.e.elapsed() - r.e.cfg.Lease/20
}
