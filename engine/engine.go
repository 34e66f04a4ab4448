package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/runtime"
	"github.com/holdfast-dev/holdfast/store"
)

// Engine runs tasks. Create it with [New], then call Start and Stop once.
type Engine struct {
	cfg   Config
	log   *slog.Logger
	hub   *hub
	now   func() time.Time // monotonic clock for leases and delays
	slots *slots

	readSlots chan struct{} // limits concurrent reads of tasks that other processes changed

	quarantineSlot chan struct{}  // holds a token while one quarantined task may start
	quarantined    atomic.Int64   // number of quarantined tasks that wait for the slot
	dispatcherWake runtime.Signal // wakes the dispatcher
	janitorWake    runtime.Signal // wakes the janitor
	mayHaveDue     atomic.Bool    // the store may have due tasks
	mayHaveSkipped atomic.Bool    // the store may have due tasks of owners that the last claim skipped
	queued         queueCount     // tasks waiting to run, of all owners
	owners         ownerCounts    // tasks waiting to run, by owner
	refusals       queueRefusals  // rejections because of full queues
	retries        memoryRetries  // next claims of tasks without memory
	abandoned      atomic.Int64   // abandoned handlers that still run
	oversized      atomic.Int64   // messages and writes rejected by Limits.TaskBytes

	contexts     contextSizes
	contextsFull atomic.Int64 // messages rejected by Limits.ContextBytes
	expired      expiry       // data removed by the janitor

	worker           atomic.Pointer[string] // current worker ID for new leases
	orphanLease      atomic.Bool            // a lease of the current worker ID may have no run
	renewed          atomic.Int64           // time of the last renewal of leases, as Engine.elapsed
	outage           outage                 // recent outage of the store
	createdAt        time.Time              // creation time of the engine, for elapsed
	createdLeaseTime time.Time              // the same on the clock of leases
	takeover         bool                   // leases of earlier processes can be claimed; used by the dispatcher only

	deletions runtime.Locks[store.ContextKey] // held while a context is deleted

	mu       sync.Mutex
	runs     map[*run]struct{}
	stopping bool

	lifecycle runtime.Lifecycle
	loops     runtime.Loops
	active    sync.WaitGroup // runs, and callers of addActive
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
	e := &Engine{
		cfg: cfg, log: cfg.Logger, hub: newHub(cfg.Memory), now: monotonic(cfg.clock),
		slots:          newSlots(cfg.Concurrency, max(cfg.Reserved, 0)),
		dispatcherWake: runtime.NewSignal(),
		janitorWake:    runtime.NewSignal(),
		readSlots:      make(chan struct{}, catchUpReaders),
		quarantineSlot: make(chan struct{}, 1),
		runs:           make(map[*run]struct{}),
		takeover:       cfg.Store.Info().Exclusive,
	}
	e.loops = runtime.Loops{Log: e.log, Now: e.now}
	e.outage.lease, e.createdAt, e.createdLeaseTime = cfg.Lease, time.Now(), e.now()
	e.newWorkerID()
	return e, nil
}

// monotonic returns a clock that starts at the wall clock time and does not jump when the wall
// clock is set.
func monotonic(wall func() time.Time) func() time.Time {
	start := wall()
	return func() time.Time { return start.Add(wall().Sub(start)) }
}

// Start starts the engine. It runs tasks that are due, tasks whose worker died, and tasks that
// Send creates. Before it returns it reads the backlog from the store and finishes deletions of
// contexts that an earlier process started, for up to a few seconds.
func (e *Engine) Start(ctx context.Context) error {
	return e.lifecycle.Start(func() error { return e.startLoops(ctx) })
}

func (e *Engine) startLoops(ctx context.Context) error {
	backlog, err := e.cfg.Store.Backlog(ctx)
	if err != nil {
		return fmt.Errorf("read backlog: %w", err)
	}
	e.queued.set(int64(backlog.Queued), 0, e.now())
	e.mayHaveDue.Store(backlog.Queued+backlog.Leased > 0)
	e.renewed.Store(int64(e.elapsed()))
	if n := backlog.Queued + backlog.Leased; n > 0 {
		e.log.Info("resuming tasks", "queued", backlog.Queued, "interrupted", backlog.Leased)
	}
	e.finishDeletionsAtStart(ctx)
	e.ctx, e.stop = context.WithCancel(context.WithoutCancel(ctx))
	e.commitCtx, e.stopCommits = context.WithCancel(e.ctx)
	e.loops.Start(e.ctx, "dispatch", e.dispatch)
	e.loops.Start(e.ctx, "heartbeat", e.heartbeat)
	e.loops.Start(e.ctx, "janitor", e.janitor)
	if !e.exclusive() {
		e.loops.Start(e.ctx, "poll", e.poll)
	}
	if w, ok := e.cfg.Store.(store.Watcher); ok {
		e.loops.Start(e.ctx, "watch", e.watch(w))
	}
	return nil
}

// Stop stops the engine. It accepts no new work and lets running handlers finish until ctx is
// done. Then it cancels their contexts and requeues the tasks of handlers that have not
// returned. Stop returns when nothing runs any more or, at the latest, a second and twice
// HandlerGrace after ctx is done. A second call waits for the first until its own ctx is done.
func (e *Engine) Stop(ctx context.Context) error {
	e.lifecycle.Stop(ctx, func() {
		e.mu.Lock()
		e.stopping = true
		e.mu.Unlock()
		if !runtime.Wait(ctx, &e.active) {
			e.cancelRuns(ErrStopping)
			e.stopCommits()
			grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*e.cfg.HandlerGrace+time.Second)
			defer cancel()
			if !runtime.Wait(grace, &e.active) {
				e.log.Error("stopped with unfinished runs")
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

// addActive makes Stop wait until active.Done is called. It returns false if the engine is
// already stopping.
func (e *Engine) addActive() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopping {
		return false
	}
	e.active.Add(1)
	return true
}

func (e *Engine) cancelRuns(cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for r := range e.runs {
		r.cancel(cause)
	}
}

func (e *Engine) isStopping() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stopping
}

// notifyWork makes the dispatcher check for due work now.
func (e *Engine) notifyWork() {
	e.mayHaveDue.Store(true)
	e.wakeDispatcher()
}

func (e *Engine) wakeDispatcher() { e.dispatcherWake.Send() }

// Health describes the state of the engine.
type Health struct {
	Running       int   // turns that run in this process
	Concurrency   int   // maximum number of running turns
	Reserved      int   // slots reserved for owners with few running turns
	OwnersAtShare int   // owners that get no slot until one of their turns ends, because they run many
	Queued        int64 // tasks in the store that wait to run, from all processes
	Abandoned     int64 // handlers that still run after HandlerGrace
	Oversized     int64 // messages and writes rejected for Limits.TaskBytes since the start
	ContextFull   int64 // messages rejected for Limits.ContextBytes since the start
	Expired       Expired
	// QueueRefused and OwnerQueueRefused count the new tasks and new turns that were rejected
	// since the start for Limits.Queued and Limits.QueuedPerOwner.
	QueueRefused, OwnerQueueRefused int64
	// Problems lists problems of the engine and its store; empty if there are none.
	Problems []string
}

// Health checks the loops and checks that the store can be read and written.
func (e *Engine) Health(ctx context.Context) Health {
	e.countQueued(ctx)
	e.mu.Lock()
	h := Health{Running: len(e.runs), Concurrency: e.cfg.Concurrency, Reserved: e.slots.reserved, OwnersAtShare: e.slots.heldBack(), Queued: e.queued.load(), Abandoned: e.abandoned.Load(), Oversized: e.oversized.Load(), ContextFull: e.contextsFull.Load(), Expired: e.expired.stats(), QueueRefused: e.refusals.all.Load(), OwnerQueueRefused: e.refusals.owner.Load()}
	e.mu.Unlock()
	if !e.lifecycle.Running() {
		h.Problems = append(h.Problems, "engine: not running")
		return h
	}
	if err := e.cfg.Store.Ping(ctx); err != nil {
		e.log.Warn("store health check failed", "error", err)
		h.Problems = append(h.Problems, "store: "+problemText(err))
	}
	h.Problems = append(h.Problems, e.loops.Silent(10*max(e.cfg.Poll, e.cfg.Lease))...)
	if h.Abandoned >= int64(e.cfg.Concurrency) {
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

// exclusive reports whether this process is the only one that uses the store.
func (e *Engine) exclusive() bool { return e.cfg.Store.Info().Exclusive }

// Info describes the store.
func (e *Engine) Info() store.Info { return e.cfg.Store.Info() }
