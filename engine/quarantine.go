package engine

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// quarantineInterval is how long the last attempt of a quarantined task must run before the
// next quarantined task may start. If the attempt ends earlier, the next one may start then.
const quarantineInterval = 2 * time.Second

// If all attempts of a task were interrupted, it may be a poison task, or it may only have run
// at the same time as one. Therefore tasks that are about to start their last attempt are
// quarantined: they start one at a time. A quarantined task that waits is not charged an
// attempt. Waiting tasks use at most half of the slots; the others are requeued with a delay.

// quarantine finds claimed tasks that may be poison tasks, before any of the tasks runs. It
// subtracts the attempt that the claim counted, and returns the keys of the quarantined tasks.
func (d *dispatcher) quarantine(ctx context.Context, tasks []*store.Task) map[store.Key]bool {
	var candidates []*store.Task
	var changes []store.Change
	for _, t := range tasks {
		if !d.mayBePoison(ctx, t) {
			continue
		}
		queue := t.Queue
		queue.Attempt--
		candidates = append(candidates, t)
		changes = append(changes, store.Change{
			Key: t.Key, Queue: &queue,
			Lease: &store.HeldLease{Key: t.Key, Worker: t.Queue.Lease.Worker, Fence: t.Queue.Lease.Fence},
		})
	}
	if len(changes) == 0 {
		return nil
	}
	results, err := d.cfg.Store.Commit(ctx, changes...)
	if err != nil {
		d.log.Warn("quarantining tasks failed", "error", err)
		return nil
	}
	quarantined := make(map[store.Key]bool, len(candidates))
	for i, t := range candidates {
		if results[i].Err == nil {
			t.Queue.Attempt--
			quarantined[t.Key] = true
		}
	}
	return quarantined
}

// mayBePoison reports whether t was claimed for its last attempt after an interrupted one.
func (d *dispatcher) mayBePoison(ctx context.Context, t *store.Task) bool {
	return t.Queue.Attempt == d.cfg.Turns.MaxAttempts && d.interrupted(ctx, t.Key, t.Seq, t.Queue.Attempt)
}

// interrupted reports whether the attempt before a claimed one was interrupted: it neither
// finished nor requested a retry. claimed is the task's version after the claim.
func (d *dispatcher) interrupted(ctx context.Context, key store.Key, claimed int64, attempt int) bool {
	if attempt == 1 || claimed < 2 {
		return false
	}
	before, err := d.cfg.Store.Events(ctx, key, claimed-2, 1)
	return err == nil && len(before) == 1 && before[0].State != a2a.StateSubmitted
}

// waitInQuarantine waits until a quarantined task may start and counts its attempt. It reports
// whether the run may continue; then the caller must call done at the end of the turn.
// Otherwise the task has been requeued. The attempt is not charged then, because quarantine has
// subtracted it.
func (r *run) waitInQuarantine() (done func(), ok bool) {
	if !r.quarantined {
		return func() {}, true
	}
	r.quarantined = false
	waiting := r.e.dispatcher.quarantined.Add(1)
	defer r.e.dispatcher.quarantined.Add(-1)
	if waiting > max(1, int64(r.e.cfg.Turns.Concurrency)/2) {
		r.requeueAs(r.out.entry(), r.e.now().Add(min(time.Duration(waiting)*quarantineInterval, r.e.cfg.Turns.RetryDelayMax)))
		return nil, false
	}
	select {
	case r.e.dispatcher.quarantineSlot <- struct{}{}:
	case <-r.ctx.Done():
		r.requeueAs(r.out.entry(), time.Time{})
		return nil, false
	}
	leave := time.AfterFunc(quarantineInterval, func() { <-r.e.dispatcher.quarantineSlot })
	done = func() {
		if leave.Stop() {
			<-r.e.dispatcher.quarantineSlot
		}
	}
	queue := r.out.entry()
	queue.Attempt++
	r.e.log.Warn("running the last attempt of a quarantined task", "task", r.l.key.ID, "attempt", queue.Attempt)
	if err := r.persist(&queue, 0); err != nil {
		done()
		r.requeueAs(r.out.entry(), time.Time{})
		return nil, false
	}
	return done, true
}
