package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

const (
	// watchReaders is how many tasks that others have changed are read at once.
	watchReaders = 8
	// watchPause is how long a watch that broke off is left alone.
	watchPause = time.Second
)

// watch hears what other processes do to the tasks that somebody here waits for.
// All it does is done by polling too, only later.
func (e *Engine) watch(w store.Watcher) func(ctx context.Context, beat func()) {
	return func(ctx context.Context, beat func()) {
		watched := make(chan error, 1)
		go func() {
			watched <- guard(func() {
				if err := w.Watch(ctx, func(n store.Notice) { e.notice(ctx, n) }); err != nil && ctx.Err() == nil {
					e.log.Warn("notices of other processes broke off", "error", err)
				}
			})
		}()
		tick := time.NewTicker(e.cfg.Poll)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				beat()
			case err := <-watched:
				if err != nil {
					e.log.Error("watch", "error", err)
				}
				e.sleep(ctx, watchPause)
				return
			}
		}
	}
}

func (e *Engine) notice(ctx context.Context, n store.Notice) {
	if n.Work || n.Lost {
		e.kick()
	}
	lives := e.hub.of(n.Tasks)
	if n.Lost {
		lives = append(lives, e.hub.all()...)
	}
	var wg sync.WaitGroup
	room := make(chan struct{}, watchReaders)
	for _, l := range lives {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			defer e.hub.release(l)
			e.catchUp(ctx, l)
		})
	}
	wg.Wait()
}

// catchUp reads a task that another process may have changed, and ends its run
// here if that has lost its lease.
func (e *Engine) catchUp(ctx context.Context, l *live) {
	l.commit.Lock()
	defer l.commit.Unlock()
	t, err := e.reload(ctx, l)
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, store.ErrNotFound) {
			e.log.Debug("read task that was changed", "task", l.key.ID, "error", err)
		}
		return
	}
	l.mu.Lock()
	r := l.run
	l.mu.Unlock()
	if r == nil || t.Run.Lease.Fence == r.lease.Fence && t.Run.Phase == store.PhaseLeased {
		return
	}
	cause := ErrLeaseLost
	if t.Status.State == a2a.StateCanceled {
		cause = ErrCanceled
	}
	_ = r.die(cause)
}
