package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/runtime"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/contract"
)

// Engine runs tasks. Create it with [New], then call Start and Stop once. Its methods are the
// operations of callers. Its fields are the parts that implement them, each with its own state.
type Engine struct {
	*settings
	hub        *hub
	queue      *taskQueue
	leases     *leases
	runs       *runs
	dispatcher *dispatcher
	deletions  *deletions
	janitor    *janitor
	watcher    *watcher
	abandoned  atomic.Int64 // abandoned handlers that still run

	lifecycle runtime.Lifecycle
	loops     runtime.Loops
	stop      context.CancelFunc
	ctx       context.Context // context of the loops
	// commitCtx is done when runs must stop retrying their last commit.
	commitCtx   context.Context
	stopCommits context.CancelFunc
}

// New returns an engine, or an error that lists all problems of cfg.
func New(cfg Config) (*Engine, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &settings{cfg: cfg, log: cfg.Logger, now: monotonic(cfg.clock), createdAt: time.Now(), files: newFiles(&cfg)}
	e := &Engine{settings: s, loops: runtime.Loops{Log: s.log, Now: s.now}, runs: &runs{all: make(map[*run]struct{})}, queue: &taskQueue{settings: s}}
	e.leases = newLeases(s)
	e.hub = newHub(s, e.leases, &e.loops)
	e.dispatcher = newDispatcher(e)
	e.deletions = &deletions{settings: s, removals: &removals{settings: s, wake: runtime.NewSignal()}, left: runtime.NewSignal()}
	e.janitor = &janitor{settings: s, runs: e.runs, deletions: e.deletions, wake: e.deletions.left, sweeps: newSweeps(s, e.runs, e.deletions.removals)}
	e.watcher = &watcher{settings: s, hub: e.hub, queue: e.queue, dispatcher: e.dispatcher}
	return e, nil
}

// Start starts the engine. It runs tasks that are due, tasks of workers that died, and tasks
// that Send creates. Before it returns it reads the backlog from the store and finishes
// deletions of contexts that an earlier process started, for up to a few seconds.
func (e *Engine) Start(ctx context.Context) error {
	return e.lifecycle.Start(func() error { return e.startLoops(ctx) })
}

func (e *Engine) startLoops(ctx context.Context) error {
	backlog, err := e.cfg.Store.Backlog(ctx)
	if err != nil {
		return fmt.Errorf("read backlog: %w", err)
	}
	e.queue.all.set(int64(backlog.Queued), 0, e.now())
	e.dispatcher.mayHaveDue.Store(backlog.Queued+backlog.Leased > 0)
	e.leases.renewed.Store(int64(e.elapsed()))
	if n := backlog.Queued + backlog.Leased; n > 0 {
		e.log.Info("resuming tasks", "queued", backlog.Queued, "interrupted", backlog.Leased)
	}
	e.deletions.finishAtStart(ctx)
	e.ctx, e.stop = context.WithCancel(context.WithoutCancel(ctx))
	e.commitCtx, e.stopCommits = context.WithCancel(e.ctx)
	e.loops.Start(e.ctx, "dispatch", e.dispatcher.run)
	e.loops.Start(e.ctx, "heartbeat", e.dispatcher.heartbeat)
	e.loops.Start(e.ctx, "janitor", e.janitor.run)
	for _, s := range e.janitor.sweeps {
		e.loops.Start(e.ctx, s.Kind, s.run)
	}
	if !e.exclusive() {
		e.loops.Start(e.ctx, "poll", e.watcher.poll)
	}
	if notifier, ok := e.cfg.Store.(store.Watcher); ok {
		e.loops.Start(e.ctx, "watch", e.watcher.watch(notifier))
	}
	return nil
}

// Stop stops the engine. It accepts no new work and lets running handlers finish until ctx is
// done. Then it cancels their contexts and requeues the tasks of handlers that have not
// returned. Stop returns when nothing runs any more or, at the latest, a second and twice
// HandlerGrace after ctx is done. A second call waits for the first until its own ctx is done.
func (e *Engine) Stop(ctx context.Context) error {
	e.lifecycle.Stop(ctx, func() {
		e.runs.stop()
		if !runtime.Wait(ctx, &e.runs.active) {
			e.runs.cancelAll(ErrStopping)
			e.stopCommits()
			grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*e.cfg.Turns.HandlerGrace+time.Second)
			defer cancel()
			if !runtime.Wait(grace, &e.runs.active) {
				e.log.Error("stopped before all attempts of tasks ended")
			}
		}
		e.stopCommits()
		e.stop()
		e.loops.Wait()
	})
	return nil
}

// Stopping reports whether Stop has been called. A stopping engine accepts no new work.
func (e *Engine) Stopping() bool { return e.lifecycle.Stopped() }

// Health describes the state of the engine.
type Health struct {
	Running       int   // turns that run in this process
	Concurrency   int   // maximum number of running turns
	Reserved      int   // slots reserved for owners with few running turns
	OwnersAtLimit int   // owners that cannot get a slot now, because only reserved slots are free and they run too many turns
	Queued        int64 // tasks in the store that wait to run, from all processes
	Abandoned     int64 // handlers that still run after HandlerGrace
	Oversized     int64 // messages and writes rejected for Limits.TaskBytes since the start
	ContextFull   int64 // messages rejected for Limits.ContextBytes since the start
	Expired       Expired
	// Swept counts what sweeps have removed or completed since the start of this process, by kinds of data
	// such as transcripts.
	Swept contract.Counts
	// QueueRefused and OwnerQueueRefused count the new tasks and new turns that were rejected
	// since the start for Limits.Queued and Limits.QueuedPerOwner.
	QueueRefused, OwnerQueueRefused int64
	// Problems lists problems of the engine and its store; empty if there are none.
	Problems []string
	// Degraded lists the stores of Contracts.Pings that do not respond. Turns that need them wait;
	// others run. Empty if there are none.
	Degraded []string
}

// Health checks the loops and checks that the store can be read and written.
func (e *Engine) Health(ctx context.Context) Health {
	e.queue.refresh(ctx)
	h := Health{Running: e.runs.count(), Concurrency: e.cfg.Turns.Concurrency, Reserved: e.dispatcher.slots.reserved, OwnersAtLimit: e.dispatcher.slots.ownersAtLimit(), Queued: e.queue.all.load(), Abandoned: e.abandoned.Load(), Oversized: e.oversized.Load(), ContextFull: e.hub.sizes.refused.Load(), Expired: e.janitor.stats(), Swept: e.janitor.swept(), QueueRefused: e.queue.refusals.all.Load(), OwnerQueueRefused: e.queue.refusals.owner.Load()}
	if !e.lifecycle.Running() {
		h.Problems = append(h.Problems, "engine: not running")
		return h
	}
	if err := e.cfg.Store.Ping(ctx); err != nil {
		e.log.Warn("store health check failed", "error", err)
		h.Problems = append(h.Problems, "store: "+problemText(err))
	}
	h.Degraded = e.cfg.Contracts.unavailable(ctx)
	h.Problems = append(h.Problems, e.loops.Silent(10*max(e.cfg.Turns.Poll, e.cfg.Turns.Lease))...)
	if h.Abandoned >= int64(e.cfg.Turns.Concurrency) {
		h.Problems = append(h.Problems, fmt.Sprintf("workers: %d handlers did not return after cancellation", h.Abandoned))
	}
	return h
}

// problemText returns the text of a store error without details that belong in the log only.
func problemText(err error) string {
	var coded *a2a.Error
	if errors.As(err, &coded) {
		return coded.Message
	}
	return err.Error()
}

// Info describes the store.
func (e *Engine) Info() store.Info { return e.cfg.Store.Info() }
