package engine

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// probation is how long the last attempt of a suspect runs before the next
// suspect may begin.
const probation = 2 * time.Second

// A task that is about to begin its last attempt because each attempt before was
// cut short may be what takes the process down, or may only have run beside it. So
// that the innocent are not failed with the guilty, such suspects begin one by
// one, and those that wait for their turn are not charged with an attempt. At most
// half of the places for runs are taken by those who wait; the others come back
// later.

// park gives suspects among the tasks just claimed their attempt back, before any
// of the tasks runs.
func (e *Engine) park(ctx context.Context, tasks []*store.Task) map[store.Key]bool {
	var parked []*store.Task
	var changes []store.Change
	for _, t := range tasks {
		if !e.isSuspect(ctx, t) {
			continue
		}
		queue := t.Run
		queue.Attempt--
		parked = append(parked, t)
		changes = append(changes, store.Change{
			Key: t.Key, Run: &queue,
			Lease: &store.HeldLease{Key: t.Key, Worker: t.Run.Lease.Worker, Fence: t.Run.Lease.Fence},
		})
	}
	if len(changes) == 0 {
		return nil
	}
	results, err := e.cfg.Store.Commit(ctx, changes...)
	if err != nil {
		e.log.Warn("hold suspect tasks back", "error", err)
		return nil
	}
	held := make(map[store.Key]bool, len(parked))
	for i, t := range parked {
		if results[i].Err == nil {
			t.Run.Attempt--
			held[t.Key] = true
		}
	}
	return held
}

// isSuspect reports whether t was claimed for its last attempt after one that was
// cut short.
func (e *Engine) isSuspect(ctx context.Context, t *store.Task) bool {
	return t.Run.Attempt == e.cfg.MaxAttempts && e.interrupted(ctx, t.Key, t.Seq, t.Run.Attempt)
}

// interrupted reports whether the attempt before one that was claimed was cut short: it did
// not ask for another. claimed is the version that the claim left behind.
func (e *Engine) interrupted(ctx context.Context, key store.Key, claimed int64, attempt int) bool {
	if attempt == 1 || claimed < 2 {
		return false
	}
	before, err := e.cfg.Store.Events(ctx, key, claimed-2, 1)
	return err == nil && len(before) == 1 && before[0].State != a2a.StateSubmitted
}

// admit waits until a suspect may begin, and charges it with the attempt. It
// reports whether the run may go on; done must be called when the turn is over.
// If it may not, its task has been handed back.
func (r *run) admit() (done func(), ok bool) {
	if !r.suspect {
		return func() {}, true
	}
	r.suspect = false
	waiting := r.e.waiting.Add(1)
	defer r.e.waiting.Add(-1)
	if waiting > max(1, int64(r.e.cfg.Concurrency)/2) {
		r.handBackParked(min(time.Duration(waiting)*probation, r.e.cfg.RetryDelayMax))
		return nil, false
	}
	select {
	case r.e.suspects <- struct{}{}:
	case <-r.ctx.Done():
		r.handBackParked(0)
		return nil, false
	}
	leave := time.AfterFunc(probation, func() { <-r.e.suspects })
	done = func() {
		if leave.Stop() {
			<-r.e.suspects
		}
	}
	r.mu.Lock()
	queue := r.queue
	r.mu.Unlock()
	queue.Attempt++
	r.e.log.Warn("running the last attempt of a task whose attempts were all cut short", "task", r.l.key.ID, "attempt", queue.Attempt)
	if err := r.persistAll(nil, &queue, 0); err != nil {
		done()
		r.handBackParked(0)
		return nil, false
	}
	return done, true
}

// handBackParked returns a suspect that never began to the queue, to be claimed
// after a while. Its attempt has been given back already.
func (r *run) handBackParked(after time.Duration) {
	r.mu.Lock()
	queue := r.queue
	r.mu.Unlock()
	queue.Phase, queue.Lease.Worker, queue.DueAt = store.PhaseQueued, "", time.Time{}
	if after > 0 {
		queue.DueAt = store.Time(r.e.now().Add(after))
	}
	if r.persistAll(nil, &queue, 0) == nil {
		r.e.noteQueued(r.l.key.Owner)
		time.AfterFunc(after, r.e.kick)
	}
}
