package engine

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// watchPause is how long a watch that broke off is left alone.
const watchPause = time.Second

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

// notice acts on what other processes have committed.
func (e *Engine) notice(ctx context.Context, n store.Notice) {
	if n.Work || n.Lost {
		e.kick()
	}
	if n.Lost {
		e.checkAll(ctx)
		return
	}
	for _, l := range e.hub.of(n.Tasks) {
		e.startCatchUp(ctx, l)
	}
}
