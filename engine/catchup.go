package engine

import (
	"context"
	"errors"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// catchUpReaders is the maximum number of concurrent reads of tasks that other processes
// changed.
const catchUpReaders = 8

// checkAll reads the versions of all live tasks in one query and catches up with those that
// have changed.
func (h *hub) checkAll(ctx context.Context) {
	lives := h.all()
	before := make(map[store.Key]knownVersion, len(lives))
	keys := make([]store.Key, 0, len(lives))
	for _, l := range lives {
		if at := l.version(); at.Seq > 0 { // 0: the task was not read yet
			before[l.key] = at
			keys = append(keys, l.key)
		}
	}
	var versions map[store.Key]store.TaskVersion
	var err error
	if len(keys) > 0 {
		versions, err = h.cfg.Store.Versions(ctx, keys)
	}
	if err != nil && ctx.Err() == nil {
		h.log.Debug("reading versions of tasks failed", "error", err)
	}
	for _, l := range lives {
		known, ok := before[l.key]
		if err == nil && ok && l.isBehind(known, versions) {
			h.startCatchUp(ctx, l)
		} else {
			h.release(l)
		}
	}
}

// isBehind reports whether the version read from the store differs from known, the version that
// this process knew before the read. A task that this process has
// changed since then is not behind, because each commit detects events of other processes.
func (l *live) isBehind(known knownVersion, versions map[store.Key]store.TaskVersion) bool {
	if l.isStale() {
		return true
	}
	if l.version().changes != known.changes {
		return false
	}
	v, exists := versions[l.key]
	return !exists || v.Seq != known.Seq || v.Queue.Lease.Fence != known.Queue.Lease.Fence || !v.CreatedAt.Equal(known.CreatedAt)
}

// startCatchUp catches up with a task in the background and then releases it. At most one
// goroutine per task waits for l.commit, because a slow commit may hold it.
func (h *hub) startCatchUp(ctx context.Context, l *live) {
	if !l.catchingUp.CompareAndSwap(false, true) {
		h.release(l)
		return
	}
	h.loops.Go(func() {
		defer h.release(l)
		l.commit.Lock()
		defer l.unlock()
		l.catchingUp.Store(false) // the read may miss changes that are announced from now on
		select {
		case h.readSlots <- struct{}{}:
			defer func() { <-h.readSlots }()
			h.catchUp(ctx, l)
		case <-ctx.Done():
		}
	})
}

// catchUp reads a task that another process may have changed, and aborts its run here if the
// run has lost its lease. The caller holds l.commit.
func (h *hub) catchUp(ctx context.Context, l *live) {
	at, err := h.advance(ctx, l)
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, store.ErrNotFound) {
			h.log.Debug("reading a changed task failed", "task", l.key.ID, "error", err)
		}
		return
	}
	l.mu.Lock()
	r := l.run
	l.mu.Unlock()
	if r == nil || at.Queue.Lease.Fence == r.lease.Fence && at.Queue.Phase == store.PhaseLeased {
		return
	}
	cause := ErrLeaseLost
	if at.state == a2a.StateCanceled {
		cause = ErrCanceled
	}
	_ = r.out.abort(cause)
}

// advance adds the missing events from the store to the known task. It reads the whole task if
// that is not possible. The caller holds l.commit.
func (h *hub) advance(ctx context.Context, l *live) (knownVersion, error) {
	known := l.version()
	if known.Seq == 0 || l.isStale() {
		return h.reread(ctx, l)
	}
	versions, err := h.cfg.Store.Versions(ctx, []store.Key{l.key})
	if err != nil {
		return known, err
	}
	v, exists := versions[l.key]
	if !exists || !v.CreatedAt.Equal(known.CreatedAt) || v.Seq < known.Seq {
		return h.reread(ctx, l)
	}
	for newest := v.Seq; ; {
		events, err := h.missingEvents(ctx, l, newest)
		if err != nil {
			return h.reread(ctx, l)
		}
		if t, _ := l.snapshot(); t != nil {
			l.publish(l.extend(t, events, v.Queue), events)
		} else {
			v.Seq = l.version().Seq + int64(len(events))
			l.publishVersion(v, events)
		}
		if at := l.version(); at.Seq >= newest {
			return at, nil
		}
	}
}

// missingEvents reads the events after the known version, up to newest. It stops after about
// recentBytes, the size that is kept in memory for readers. The caller holds l.commit.
func (h *hub) missingEvents(ctx context.Context, l *live, newest int64) (events []store.Event, err error) {
	seq, size := l.version().Seq, 0
	for seq < newest && size < recentBytes {
		page, err := h.cfg.Store.Events(ctx, l.key, seq, int(min(newest-seq, eventPage)))
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			return nil, store.ErrNotFound
		}
		for i := range page {
			size += page[i].Size()
		}
		events, seq = append(events, page...), page[len(page)-1].Seq
	}
	return events, nil
}

func (h *hub) reread(ctx context.Context, l *live) (knownVersion, error) {
	_, err := h.holdAndReload(ctx, l)
	return l.version(), err
}
