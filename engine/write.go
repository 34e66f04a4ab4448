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

// write commits one change of l's task on top of base, the known task, and publishes the
// result. It returns the task after the change, or the reason why the store rejected it. A
// started commit is completed even if ctx is canceled. The caller holds l.commit.
func (h *hub) write(ctx context.Context, l *live, base *store.Task, c store.Change) (*store.Task, error) {
	c.Key = l.key
	pinned, err := h.pinFiles(ctx, &c)
	if err != nil {
		h.unpinFiles(ctx, c.Key, pinned)
		return nil, err
	}
	after := h.fold(l, base, &c)
	c.Snapshot = after
	workingCopy := l.workingCopy
	l.workingCopy = nil // until the commit has succeeded
	ctx = context.WithoutCancel(ctx)
	l.setCommitting(true)
	defer l.setCommitting(false)
	results, err := h.cfg.Store.Commit(ctx, c)
	if err != nil {
		l.markStale()
		if c.Lease == nil && c.Queue != nil && c.Queue.Phase == store.PhaseLeased {
			h.leases.orphan.Store(true)
		}
		return nil, fmt.Errorf("task %s: commit: %w", l.key.ID, err)
	}
	res := results[0]
	if res.Err != nil {
		h.unpinFiles(ctx, c.Key, pinned)
		if errors.Is(res.Err, store.ErrDuplicate) {
			return nil, &duplicateError{record: res.Record}
		}
		if errors.Is(res.Err, store.ErrNotFound) && !refusedEffect(res.Err) {
			l.markDeleted()
		}
		return nil, res.Err
	}
	if res.Seq != after.Seq {
		// Another process has added events in the meantime.
		return h.reload(ctx, l)
	}
	l.workingCopy = workingCopy
	if res.LogSize != after.LogSize {
		after = after.Clone() // the store may have kept a reference to it
		after.LogSize = res.LogSize
	}
	h.sizes.add(store.ContextKey{Owner: l.key.Owner, ID: after.ContextID}, after.Bytes-base.Bytes)
	l.publish(after, c.Events)
	return after, nil
}

// fold assigns sequence numbers and non-decreasing timestamps to c's events and its idempotency
// record. It returns a copy of base with the events applied.
func (h *hub) fold(l *live, base *store.Task, c *store.Change) *store.Task {
	now := store.Time(h.cfg.clock())
	for _, last := range []time.Time{base.Status.Timestamp, l.version().lastEventAt} {
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
	queue := base.Queue
	if c.Queue != nil {
		queue = *c.Queue
	}
	return l.extend(base, c.Events, queue)
}

// duplicateError means that the idempotency record of the change already exists.
type duplicateError struct{ record *store.IdempotencyRecord }

func (d *duplicateError) Error() string { return store.ErrDuplicate.Error() }

// applied reports whether the log after base already contains events. If so, the failed commit
// was applied and only its answer was lost.
func (h *hub) applied(ctx context.Context, key store.Key, base int64, events []store.Event) (bool, error) {
	if len(events) == 0 {
		return false, nil
	}
	logged, err := h.cfg.Store.Events(ctx, key, base, len(events)+recentEvents)
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
