package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// write commits one change of l's task on top of base, the task as it is known
// here, and publishes what came of it. It returns the task after the change, or
// the reason for which it was refused. A commit that has begun is seen to its
// end, whatever becomes of the request that asked for it. The caller holds
// l.commit.
func (e *Engine) write(ctx context.Context, l *live, base *store.Task, c store.Change) (*store.Task, error) {
	c.Key = l.key
	after := e.fold(l, base, &c)
	c.Snapshot = after
	chain := l.chain
	l.chain = nil // until it is known that the change was made
	ctx = context.WithoutCancel(ctx)
	l.setWriting(true)
	defer l.setWriting(false)
	results, err := e.cfg.Store.Commit(ctx, c)
	if err != nil {
		l.doubt()
		if c.Lease == nil && c.Run != nil && c.Run.Phase == store.PhaseLeased {
			e.strayed.Store(true)
		}
		return nil, fmt.Errorf("task %s: commit: %w", l.key.ID, err)
	}
	res := results[0]
	if res.Err != nil {
		if errors.Is(res.Err, store.ErrDuplicate) {
			return nil, &duplicate{record: res.Record}
		}
		if errors.Is(res.Err, store.ErrNotFound) {
			l.vanish()
		}
		return nil, res.Err
	}
	if res.Seq != after.Seq {
		// Another process added to the log in between.
		return e.reload(ctx, l)
	}
	l.chain = chain
	if res.LogSize != after.LogSize {
		after = after.Clone() // the store may have kept the other
		after.LogSize = res.LogSize
	}
	e.contexts.add(store.ContextKey{Owner: l.key.Owner, ID: after.ContextID}, after.Bytes-base.Bytes)
	l.publish(after, c.Events)
	return after, nil
}

// fold stamps the events of c, none earlier than those before it, and its idempotency
// record, and returns base with the events applied.
func (e *Engine) fold(l *live, base *store.Task, c *store.Change) *store.Task {
	now := store.Time(e.cfg.clock())
	for _, last := range []time.Time{base.Status.Timestamp, l.stands().last} {
		if now.Before(last) {
			now = last
		}
	}
	for i := range c.Events {
		c.Events[i].Time = now
		c.Events[i].Seq = base.Seq + int64(i) + 1
	}
	if c.Idempotency != nil {
		c.Idempotency.CreatedAt = now
	}
	run := base.Run
	if c.Run != nil {
		run = *c.Run
	}
	return l.extend(base, c.Events, run)
}

// duplicate reports that an idempotency key is taken.
type duplicate struct{ record *store.IdempotencyRecord }

func (d *duplicate) Error() string { return store.ErrDuplicate.Error() }

// applied reports whether events stand in the log after base already: the commit
// that failed had gone through and only its answer was lost.
func (e *Engine) applied(ctx context.Context, key store.Key, base int64, events []store.Event) (bool, error) {
	if len(events) == 0 {
		return false, nil
	}
	logged, err := e.cfg.Store.Events(ctx, key, base, len(events)+recentEvents)
	if err != nil {
		return false, err
	}
	want, err := wire.Marshal(events)
	if err != nil {
		return false, err
	}
	for i := 0; i+len(events) <= len(logged); i++ {
		got, err := wire.Marshal(logged[i : i+len(events)])
		if err != nil {
			return false, err
		}
		if bytes.Equal(got, want) {
			return true, nil
		}
	}
	return false, nil
}
