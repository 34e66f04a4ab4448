package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// commit writes what is pending and the given events under the run's lease.
func (r *run) commit(events []store.Event, queue *store.Run, steps []store.Step, seen int64) error {
	r.l.commit.Lock()
	defer r.l.commit.Unlock()
	if err := r.usable(); err != nil {
		return err
	}
	r.mu.Lock()
	pending := r.pending
	events = slices.Concat(pending, events)
	r.mu.Unlock()
	if len(events) == 0 && queue == nil && len(steps) == 0 {
		return nil
	}
	base, _ := r.l.snapshot()
	c := store.Change{Lease: &r.lease, Seen: seen, Events: events, Run: queue, Steps: steps}
	_, err := r.e.write(r.ctx, r.l, base, c)
	switch {
	case err == nil:
		r.committed(len(pending), queue)
	case errors.Is(err, store.ErrUnread):
		_, rerr := r.e.reload(context.WithoutCancel(r.ctx), r.l)
		return errors.Join(err, rerr)
	case errors.Is(err, store.ErrLeaseLost), errors.Is(err, store.ErrNotFound):
		return r.die(ErrLeaseLost)
	default:
		r.mu.Lock()
		r.unsure = true
		// Keep the stamps, by which the events are recognised if they did get through.
		copy(r.pending, events[:len(pending)])
		r.mu.Unlock()
	}
	return err
}

func (r *run) committed(flushed int, queue *store.Run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unsure = false
	r.pending = slices.Delete(r.pending, 0, min(flushed, len(r.pending))) // a run that died has dropped them
	if queue != nil {
		r.queue = *queue
	}
}

// usable reports why the run may not commit. After a failed commit it finds out
// what the store has. The caller holds l.commit.
func (r *run) usable() error {
	r.mu.Lock()
	dead, unsure := r.dead, r.unsure
	r.mu.Unlock()
	if dead != nil || !unsure {
		return dead
	}
	ctx := context.WithoutCancel(r.ctx)
	base, _ := r.l.snapshot()
	t, err := r.e.reload(ctx, r.l)
	if errors.Is(err, store.ErrNotFound) {
		return r.die(ErrLeaseLost)
	}
	if err != nil {
		return err
	}
	if t.Run.Lease.Fence != r.lease.Fence {
		return r.die(ErrLeaseLost)
	}
	if t.Run.Phase != store.PhaseLeased {
		// Our own last commit ended the run; only its answer was lost.
		return r.die(ErrEnded)
	}
	r.mu.Lock()
	pending := r.pending
	r.mu.Unlock()
	done, err := r.e.applied(ctx, r.l.key, base.Seq, pending)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unsure = false
	if done {
		r.pending = slices.Delete(r.pending, 0, len(pending))
	}
	return nil
}

// alive reports whether the run may still commit, as far as it knows.
func (r *run) alive() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dead == nil && !r.unsure
}

// die makes the run refuse all further commits and stops its handler.
func (r *run) die(cause error) error {
	r.mu.Lock()
	if r.dead == nil {
		r.dead = cause
	}
	cause = r.dead
	r.pending = nil
	r.mu.Unlock()
	r.cancel(cause)
	return cause
}

// enqueue adds an event to be committed soon, with others. It blocks on a
// commit when the store has not kept up.
func (r *run) enqueue(event store.Event) error {
	r.mu.Lock()
	if r.dead != nil {
		defer r.mu.Unlock()
		return r.dead
	}
	r.pending = append(r.pending, event)
	full := len(r.pending) >= maxPending
	if !full && r.timer == nil {
		r.timer = time.AfterFunc(r.e.cfg.FlushInterval, r.flushSoon)
	}
	r.mu.Unlock()
	if full {
		return r.commit(nil, nil, nil, 0)
	}
	return nil
}

// insist repeats a commit until the store answers: what has been done must not
// be forgotten because a disk is full for a while. It gives up when ctx is done,
// and soon when the error is not one that passes.
func (r *run) insist(ctx context.Context, commit func() error) error {
	for pause := settlePause; ; pause = min(2*pause, settleMax) {
		err := commit()
		switch {
		case err == nil, errors.Is(err, store.ErrUnread):
			return err
		case errors.Is(err, ErrLeaseLost), errors.Is(err, ErrCanceled), errors.Is(err, ErrEnded):
			return err
		}
		if !a2a.CodeOf(err).Retryable() && pause >= 8*settlePause {
			return err
		}
		r.e.log.Error("commit, trying again", "task", r.l.key.ID, "in", pause, "error", err)
		if r.e.sleep(ctx, pause); ctx.Err() != nil {
			return err
		}
	}
}

// flushSoon is the timer's commit. When it fails it is tried again later; by
// then the handler may have met the error itself.
func (r *run) flushSoon() {
	r.mu.Lock()
	r.timer = nil
	r.mu.Unlock()
	err := r.commit(nil, nil, nil, 0)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil && r.dead == nil && r.timer == nil {
		r.e.log.Warn("commit progress, trying again", "task", r.l.key.ID, "error", err)
		r.timer = time.AfterFunc(settlePause+r.e.cfg.FlushInterval, r.flushSoon)
	}
}

// recorded returns the results of the steps that this turn has completed. They
// are read from the store when an earlier run may have left some.
func (r *run) recorded(ctx context.Context) (map[string][]byte, error) {
	r.stepsOnce.Lock()
	defer r.stepsOnce.Unlock()
	r.mu.Lock()
	steps, turn := r.steps, r.queue.Turn
	r.mu.Unlock()
	if steps != nil {
		return steps, nil
	}
	steps = make(map[string][]byte)
	if r.lease.Fence > 1 {
		stored, err := r.e.cfg.Store.Steps(ctx, r.l.key, turn)
		if err != nil {
			return nil, fmt.Errorf("read steps: %w", err)
		}
		for _, s := range stored {
			steps[s.Name] = s.Result
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.steps = steps
	return steps, nil
}

// step returns the recorded result of a step, or runs it and records what it
// returned together with all that was told before.
func (r *run) step(ctx context.Context, name string, fn func(context.Context) ([]byte, error)) ([]byte, error) {
	steps, err := r.recorded(ctx)
	if err != nil {
		return nil, err
	}
	if result, ok := steps[name]; ok {
		return slices.Clone(result), nil
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	result, err := fn(ctx)
	if err != nil {
		return nil, err
	}
	turn := r.queue.Turn
	if limit := r.e.cfg.Limits.StepBytes; len(result) > limit {
		return nil, a2a.Errorf(a2a.CodeTooLarge, "step %s: result has %d bytes, at most %d are kept", a2a.Quote(name), len(result), limit)
	}
	err = r.insist(ctx, func() error {
		return r.commit(nil, nil, []store.Step{{Turn: turn, Name: name, Result: result}}, 0)
	})
	if err != nil {
		return nil, fmt.Errorf("step %s: %w", a2a.Quote(name), err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	steps = maps.Clone(r.steps)
	steps[name] = slices.Clone(result)
	r.steps = steps
	return result, nil
}
