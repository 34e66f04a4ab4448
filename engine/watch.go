package engine

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/internal/runtime"
	"github.com/holdfast-dev/holdfast/store"
)

// watchRetryDelay is the pause after a failed watch.
const watchRetryDelay = time.Second

// watcher detects changes by other processes to the queue and to tasks that are live here.
type watcher struct {
	*settings
	hub        *hub
	queue      *taskQueue
	dispatcher *dispatcher
}

// watch receives notifications about changes by other processes to tasks that are live here.
// poll detects the same changes, only later.
func (w *watcher) watch(from store.Watcher) func(ctx context.Context, beat func()) {
	return func(ctx context.Context, beat func()) {
		for ctx.Err() == nil {
			w.watchOnce(ctx, from, beat)
			_ = runtime.Sleep(ctx, watchRetryDelay)
		}
	}
}

// watchOnce receives notifications until the store ends the watch.
func (w *watcher) watchOnce(ctx context.Context, from store.Watcher, beat func()) {
	watched := make(chan error, 1)
	go func() {
		watched <- runtime.Guard(func() {
			if err := from.Watch(ctx, func(n store.Notification) { w.onNotification(ctx, n) }); err != nil && ctx.Err() == nil {
				w.log.Warn("waiting for notifications failed", "error", err)
			}
		})
	}()
	tick := time.NewTicker(w.cfg.Turns.Poll)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			beat()
		case err := <-watched:
			if err != nil {
				w.log.Error("handling a notification panicked", "error", err)
			}
			return
		}
	}
}

// onNotification handles a notification about commits of other processes.
func (w *watcher) onNotification(ctx context.Context, n store.Notification) {
	if n.Work || n.Lost {
		w.dispatcher.notifyWork()
	}
	if n.Lost {
		w.hub.checkAll(ctx)
		return
	}
	for _, l := range w.hub.lookup(n.Tasks) {
		w.hub.startCatchUp(ctx, l)
	}
}

// poll detects changes by other processes to the queue and to live tasks. Notifications, if the
// store sends any, only reduce the delay.
func (w *watcher) poll(ctx context.Context, beat func()) {
	tick := time.NewTicker(w.cfg.Turns.Poll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		beat()
		w.queue.refresh(ctx)
		w.hub.checkAll(ctx)
	}
}
