package engine

import (
	"context"
	"math"

	"github.com/holdfast-dev/holdfast/store"
)

// answerRepeat answers a repeated request like the first one. The parameter first is the record
// of the first request. The first commit may not be durable yet, although its record can be
// read. Therefore, unless the store is exclusive, answerRepeat first calls Ping, which writes:
// a database confirms a write only after all earlier commits are durable.
func (e *Engine) answerRepeat(ctx context.Context, id *idempotency, first *store.IdempotencyRecord, opts SendOptions) (*Sent, error) {
	if err := id.check(first); err != nil {
		return nil, err
	}
	if !e.exclusive() {
		if err := e.cfg.Store.Ping(context.WithoutCancel(ctx)); err != nil { // Ping has its own timeout
			return nil, err
		}
	}
	if opts.OnStored != nil {
		opts.OnStored()
	}
	r := &repeat{e: e, key: store.Key{Owner: first.Owner, ID: first.TaskID}, seq: first.Seq, opts: opts}
	sent, err := r.answer(ctx)
	return sent, taskError(first.TaskID, err)
}

// repeat is a repeated request that changed nothing. The first one left the task at seq.
type repeat struct {
	e    *Engine
	key  store.Key
	seq  int64
	opts SendOptions
}

// answer returns the task as the first request left it or, with Wait, at its next final state.
// It waits only for events that are not yet in the log.
func (r *repeat) answer(ctx context.Context) (*Sent, error) {
	l := r.e.hub.acquire(r.key)
	defer r.e.hub.release(l)
	for {
		out, err := r.read(context.WithoutCancel(ctx)) // ctx limits the wait, not the read
		if err != nil {
			return nil, err
		}
		if !r.opts.Wait || ctx.Err() != nil || out.Task.Seq >= r.seq && out.Task.Status.State.Final() {
			return out, nil
		}
		last := max(r.seq, out.Task.Seq)
		out = nil // do not hold content while waiting
		if err := r.hold(ctx, 0); err != nil {
			return nil, err
		}
		if _, err := r.e.hub.wait(ctx, l, last); err != nil {
			return nil, err
		}
	}
}

// read applies the task's log up to r.seq or, with Wait, to the next final state or the end
// of the log.
func (r *repeat) read(ctx context.Context) (*Sent, error) {
	outline, err := r.e.cfg.Store.Task(ctx, r.key, store.TaskOptions{Outline: true})
	if err != nil {
		return nil, err
	}
	if err := r.hold(ctx, outline.Bytes); err != nil {
		return nil, err
	}
	t := &store.Task{Key: r.key, ContextID: outline.ContextID}
	out := &Sent{Task: t}
	err = store.WalkLog(ctx, r.e.cfg.Store, nil, r.key, 0, math.MaxInt64, func(page []store.Event) bool {
		for i := range page {
			t.Apply(page[i])
			if page[i].Received != nil && t.Seq <= r.seq {
				out.First = t.Clone()
			}
			if t.Seq >= r.seq && (!r.opts.Wait || t.Status.State.Final()) {
				return false
			}
		}
		return true
	})
	return out, err
}

// hold calls the caller's ReserveMemory for the memory of the answer.
func (r *repeat) hold(ctx context.Context, bytes int64) error {
	if r.opts.ReserveMemory == nil {
		return nil
	}
	return r.opts.ReserveMemory(ctx, bytes)
}
