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
	for pause := settlePause; r.e.now().UnixNano() >= r.until.Load(); pause = min(2*pause, settleMax) {
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
	until := store.Time(r.e.now().Add(r.e.cfg.Lease))
	ctx, cancel := context.WithTimeoutCause(ctx, r.e.cfg.Lease, a2a.Errorf(a2a.CodeUnavailable, "lease renewal took too long"))
	defer cancel()
	lost, err = r.e.cfg.Store.Renew(ctx, until, []store.HeldLease{r.lease})
	if err == nil && len(lost) == 0 {
		r.holdUntil(until)
	}
	return lost, err
}

// holdUntil notes to when the lease lasts.
func (r *run) holdUntil(until time.Time) {
	for old := r.until.Load(); old < until.UnixNano() && !r.until.CompareAndSwap(old, until.UnixNano()); {
		old = r.until.Load()
	}
}
