package engine

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/internal/runtime"
	"github.com/holdfast-dev/holdfast/store"
)

// watchRetryDelay is the pause after a failed watch.
const watchRetryDelay = time.Second

// watch receives notifications about changes by other processes to tasks that are live here.
// Polling has the same effect, only later.
func (e *Engine) watch(w store.Watcher) func(ctx context.Context, beat func()) {
	return func(ctx context.Context, beat func()) {
		for ctx.Err() == nil {
			e.watchOnce(ctx, w, beat)
			runtime.Sleep(ctx, watchRetryDelay)
		}
	}
}

// watchOnce receives notifications until the store ends the watch.
func (e *Engine) watchOnce(ctx context.Context, w store.Watcher, beat func()) {
	watched := make(chan error, 1)
	go func() {
		watched <- runtime.Guard(func() {
			if err := w.Watch(ctx, func(n store.Notification) { e.onNotification(ctx, n) }); err != nil && ctx.Err() == nil {
				e.log.Warn("watch for notifications failed", "error", err)
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
				e.log.Error("watch panicked", "error", err)
			}
			return
		}
	}
}

// onNotification handles a notification about commits of other processes.
func (e *Engine) onNotification(ctx context.Context, n store.Notification) {
	if n.Work || n.Lost {
		e.notifyWork()
	}
	if n.Lost {
		e.checkAll(ctx)
		return
	}
	for _, l := range e.hub.lookup(n.Tasks) {
		e.startCatchUp(ctx, l)
	}
}
