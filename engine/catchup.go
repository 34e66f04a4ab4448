package engine

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// catchUpReaders is how many tasks that other processes have changed are read at once.
const catchUpReaders = 8

// poll finds what other processes have done to the queue, to the tasks that run here and
// to those that somebody here waits for. Notices, if the store sends any, only make it sooner.
func (e *Engine) poll(ctx context.Context, beat func()) {
	tick := time.NewTicker(e.cfg.Poll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		beat()
		e.countQueued(ctx)
		e.checkAll(ctx)
	}
}

// checkAll reads the versions of all live tasks in one query, however many wait for
// them, and catches up with those that have changed.
func (e *Engine) checkAll(ctx context.Context) {
	lives := e.hub.all()
	before := make(map[store.Key]standing, len(lives))
	keys := make([]store.Key, 0, len(lives))
	for _, l := range lives {
		if at := l.stands(); at.Seq > 0 { // else who holds it reads it first
			before[l.key] = at
			keys = append(keys, l.key)
		}
	}
	var versions map[store.Key]store.TaskVersion
	var err error
	if len(keys) > 0 {
		versions, err = e.cfg.Store.Versions(ctx, keys)
	}
	if err != nil && ctx.Err() == nil {
		e.log.Debug("read the versions of tasks", "error", err)
	}
	for _, l := range lives {
		known, ok := before[l.key]
		if err == nil && ok && l.isBehind(known, versions) {
			e.startCatchUp(ctx, l)
		} else {
			e.hub.release(l)
		}
	}
}

// isBehind reports whether the store has another version of the task than known, which
// was what was known here when the versions were read. A task that has changed here
// since is not behind: each commit finds out by itself what others have added.
func (l *live) isBehind(known standing, versions map[store.Key]store.TaskVersion) bool {
	if l.inDoubt() {
		return true
	}
	if l.stands().changes != known.changes {
		return false
	}
	v, exists := versions[l.key]
	return !exists || v.Seq != known.Seq || v.Run.Lease.Fence != known.Run.Lease.Fence || !v.CreatedAt.Equal(known.CreatedAt)
}

// startCatchUp catches up with a task in the background and then releases it. A commit
// of the task may take long, and is waited for by one goroutine at most.
func (e *Engine) startCatchUp(ctx context.Context, l *live) {
	if !l.catchingUp.CompareAndSwap(false, true) {
		e.hub.release(l)
		return
	}
	e.loops.Go(func() {
		defer e.hub.release(l)
		l.commit.Lock()
		defer l.unlock()
		l.catchingUp.Store(false) // what changes from here on may not be read any more
		select {
		case e.readers <- struct{}{}:
			defer func() { <-e.readers }()
			e.catchUp(ctx, l)
		case <-ctx.Done():
		}
	})
}

// catchUp reads a task that another process may have changed, and ends its run
// here if that has lost its lease. The caller holds l.commit.
func (e *Engine) catchUp(ctx context.Context, l *live) {
	at, err := e.advance(ctx, l)
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, store.ErrNotFound) {
			e.log.Debug("read task that was changed", "task", l.key.ID, "error", err)
		}
		return
	}
	l.mu.Lock()
	r := l.run
	l.mu.Unlock()
	if r == nil || at.Run.Lease.Fence == r.lease.Fence && at.Run.Phase == store.PhaseLeased {
		return
	}
	cause := ErrLeaseLost
	if at.state == a2a.StateCanceled {
		cause = ErrCanceled
	}
	_ = r.die(cause)
}

// advance adds to the task as it is known here the events that the store has beyond
// it. It reads the whole task when that is not enough. The caller holds l.commit.
func (e *Engine) advance(ctx context.Context, l *live) (standing, error) {
	known := l.stands()
	if known.Seq == 0 || l.inDoubt() {
		return e.reread(ctx, l)
	}
	versions, err := e.cfg.Store.Versions(ctx, []store.Key{l.key})
	if err != nil {
		return known, err
	}
	v, exists := versions[l.key]
	if !exists || !v.CreatedAt.Equal(known.CreatedAt) || v.Seq < known.Seq {
		return e.reread(ctx, l)
	}
	for newest := v.Seq; ; {
		events, err := e.missing(ctx, l, newest)
		if err != nil {
			return e.reread(ctx, l)
		}
		if t, _ := l.snapshot(); t != nil {
			l.publish(l.extend(t, events, v.Run), events)
		} else {
			v.Seq = l.stands().Seq + int64(len(events))
			l.follow(v, events)
		}
		if at := l.stands(); at.Seq >= newest {
			return at, nil
		}
	}
}

// missing reads the events that the task as it is known here lacks, up to a sequence or as
// many as are kept for those who follow: so that they need not read them again. The caller
// holds l.commit.
func (e *Engine) missing(ctx context.Context, l *live, newest int64) (events []store.Event, err error) {
	seq, size := l.stands().Seq, 0
	for seq < newest && size < recentBytes {
		page, err := e.cfg.Store.Events(ctx, l.key, seq, int(min(newest-seq, eventPage)))
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

func (e *Engine) reread(ctx context.Context, l *live) (standing, error) {
	_, err := e.admitAndReload(ctx, l)
	return l.stands(), err
}
