package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// Engine runs tasks. Make one with [New], then Start and Stop it once.
type Engine struct {
	cfg   Config
	log   *slog.Logger
	hub   *hub
	now   func() time.Time // steady clock for leases and delays
	slots *slots

	readers chan struct{} // one token per task that is read because others changed it

	suspects  chan struct{} // holds one token while a suspect is on probation
	waiting   atomic.Int64  // suspects that wait for it
	wake      chan struct{} // the dispatcher should look for work
	untidy    chan struct{} // the janitor has work
	ready     atomic.Bool   // there may be due tasks in the store
	limited   atomic.Bool   // there may be due tasks of owners for whom no slot was free
	queued    queueCount    // tasks waiting to run
	owners    ownerCounts   // those of one owner
	refusals  queueRefusals // for full queues
	abandoned atomic.Int64  // handlers left behind that still run
	oversized atomic.Int64  // messages and writes refused by Limits.TaskBytes

	contexts     contextSizes
	contextsFull atomic.Int64 // messages refused by Limits.ContextBytes
	expired      expiry       // what the janitor has removed

	worker   atomic.Pointer[string] // the name under which leases are taken
	strayed  atomic.Bool            // there may be a lease of this name without a run
	renewed  atomic.Int64           // when leases were last renewed, on elapsed
	outage   outage                 // of the store, as it is known here
	born     time.Time              // when the engine was made
	bornAt   time.Time              // by the clock of leases
	takeover bool                   // leases of an earlier process are void; the dispatcher's

	deletions deletions

	mu       sync.Mutex
	runs     map[*run]struct{}
	stopping bool

	loops  sync.WaitGroup
	active sync.WaitGroup // runs, and those about to begin one
	life   sync.Mutex     // held while the state changes
	ended  chan struct{}  // closed when Stop has ended, or there is nothing to stop
	stop   context.CancelFunc
	ctx    context.Context // of the loops
	// settling ends when runs must no longer insist on committing their end.
	settling context.Context
	settled  context.CancelFunc
	alive    map[string]*atomic.Int64
	state    atomic.Int32
}

const (
	stateNew int32 = iota
	stateRunning
	stateStopped
)

// New returns an engine, or all that is wrong with cfg.
func New(cfg Config) (*Engine, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	e := &Engine{
		cfg: cfg, log: cfg.Logger, hub: newHub(cfg.Memory), now: steady(cfg.clock),
		slots:    newSlots(cfg.Concurrency, max(cfg.Reserved, 0)),
		wake:     make(chan struct{}, 1),
		untidy:   make(chan struct{}, 1),
		readers:  make(chan struct{}, catchUpReaders),
		suspects: make(chan struct{}, 1),
		runs:     make(map[*run]struct{}),
		alive:    make(map[string]*atomic.Int64),
		ended:    make(chan struct{}),
		takeover: cfg.Store.Info().Exclusive,
	}
	e.outage.lease, e.born, e.bornAt = cfg.Lease, time.Now(), e.now()
	e.rename()
	return e, nil
}

// steady returns a clock that starts at the wall's time and from then on only
// counts: leases and delays do not jump when the wall clock is set.
func steady(wall func() time.Time) func() time.Time {
	start := wall()
	return func() time.Time { return start.Add(wall().Sub(start)) }
}

// Start begins to run tasks: those that are due, those whose worker has died,
// and those that Send brings. It returns once the store has told what it has, and
// deletions of contexts that an earlier process began have been ended, as far as
// that takes no longer than a few seconds.
func (e *Engine) Start(ctx context.Context) error {
	e.life.Lock()
	defer e.life.Unlock()
	if e.state.Load() != stateNew {
		return ErrStarted
	}
	backlog, err := e.cfg.Store.Backlog(ctx)
	if err != nil {
		e.state.Store(stateStopped)
		close(e.ended)
		return fmt.Errorf("read backlog: %w", err)
	}
	e.queued.set(int64(backlog.Queued), 0, e.now())
	e.ready.Store(backlog.Queued+backlog.Leased > 0)
	e.renewed.Store(int64(e.elapsed()))
	if n := backlog.Queued + backlog.Leased; n > 0 {
		e.log.Info("resuming tasks", "queued", backlog.Queued, "interrupted", backlog.Leased)
	}
	e.finishAtStart(ctx)
	e.ctx, e.stop = context.WithCancel(context.WithoutCancel(ctx))
	e.settling, e.settled = context.WithCancel(e.ctx)
	e.supervise("dispatch", e.dispatch)
	e.supervise("heartbeat", e.heartbeat)
	e.supervise("janitor", e.janitor)
	if !e.cfg.Store.Info().Exclusive {
		e.supervise("poll", e.poll)
	}
	if w, ok := e.cfg.Store.(store.Watcher); ok {
		e.supervise("watch", e.watch(w))
	}
	e.state.Store(stateRunning)
	return nil
}

// Stop ends the engine: no new work is taken, running handlers get until ctx is
// done to finish, then their context is cancelled and what has not returned is
// handed back to the queue. Stop returns when nothing runs any more or, at the
// latest, a second and twice HandlerGrace after ctx is done. Stopping twice is
// harmless: the second call waits for the first, until its own ctx is done.
func (e *Engine) Stop(ctx context.Context) error {
	e.life.Lock()
	old := e.state.Swap(stateStopped)
	e.life.Unlock()
	switch old {
	case stateRunning:
		defer close(e.ended)
	case stateNew:
		close(e.ended)
		return nil
	default:
		select {
		case <-e.ended:
		case <-ctx.Done():
		}
		return nil
	}
	e.mu.Lock()
	e.stopping = true
	e.mu.Unlock()
	finished := make(chan struct{})
	go func() {
		e.active.Wait()
		close(finished)
	}()
	select {
	case <-finished:
	case <-ctx.Done():
		e.cancelRuns(ErrStopping)
		e.settled()
		grace := time.NewTimer(2*e.cfg.HandlerGrace + time.Second)
		defer grace.Stop()
		select {
		case <-finished:
		case <-grace.C:
			e.log.Error("stopped with runs that did not end")
		}
	}
	e.settled()
	e.stop()
	e.loops.Wait()
	return nil
}

// Stopping reports whether Stop has been called: no new work is taken.
func (e *Engine) Stopping() bool { return e.state.Load() == stateStopped }

// hold keeps Stop from believing that nothing runs any more until active.Done is
// called. It reports false when the engine stops already.
func (e *Engine) hold() bool {
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

// supervise runs a loop until the engine stops, and begins it again when it
// panics.
func (e *Engine) supervise(name string, loop func(ctx context.Context, beat func())) {
	last := new(atomic.Int64)
	last.Store(e.now().UnixNano())
	e.alive[name] = last
	beat := func() { last.Store(e.now().UnixNano()) }
	e.loops.Go(func() {
		for e.ctx.Err() == nil {
			if err := guard(func() { loop(e.ctx, beat) }); err != nil {
				e.log.Error("loop failed, starting it again", "loop", name, "error", err)
				e.sleep(e.ctx, time.Second)
			}
		}
	})
}

// guard runs f and turns a panic into an error with its stack.
func guard(f func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{value: p, stack: debug.Stack()}
		}
	}()
	f()
	return nil
}

type panicError struct {
	value any
	stack []byte
}

func (p *panicError) Error() string { return fmt.Sprintf("panic: %v", p.value) }

func (e *Engine) sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// kick has the dispatcher look for work now.
func (e *Engine) kick() {
	e.ready.Store(true)
	e.wakeDispatcher()
}

func (e *Engine) wakeDispatcher() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Health says how the engine fares.
type Health struct {
	Running     int   // turns that run here
	Concurrency int   // how many may
	Reserved    int   // those of them that are kept for owners that run few
	HeldBack    int   // owners that wait for others' turns to end, because they run many
	Queued      int64 // tasks waiting to run in the store, whoever queued them
	Abandoned   int64 // handlers that did not return when told to
	Oversized   int64 // messages and writes refused since the start, for Limits.TaskBytes
	ContextFull int64 // messages refused since the start, for Limits.ContextBytes
	Expired     Expired
	// QueueRefused and OwnerQueueRefused are how many new tasks, or new turns of a task, were
	// refused since the start, for Limits.Queued and Limits.QueuedPerOwner.
	QueueRefused, OwnerQueueRefused int64
	// Problems lists what is wrong; empty when all is well.
	Problems []string
}

// Health checks the loops and really reads and writes the store.
func (e *Engine) Health(ctx context.Context) Health {
	e.countQueued(ctx)
	e.mu.Lock()
	h := Health{Running: len(e.runs), Concurrency: e.cfg.Concurrency, Reserved: e.slots.reserved, HeldBack: e.slots.heldBack(), Queued: e.queued.load(), Abandoned: e.abandoned.Load(), Oversized: e.oversized.Load(), ContextFull: e.contextsFull.Load(), Expired: e.expired.stats(), QueueRefused: e.refusals.all.Load(), OwnerQueueRefused: e.refusals.owner.Load()}
	stopping := e.stopping
	e.mu.Unlock()
	if e.state.Load() != stateRunning || stopping {
		h.Problems = append(h.Problems, "engine: not running")
		return h
	}
	if err := e.cfg.Store.Ping(ctx); err != nil {
		e.log.Warn("store does not answer properly", "error", err)
		h.Problems = append(h.Problems, "store: "+problem(err))
	}
	limit := 10 * max(e.cfg.Poll, e.cfg.Lease)
	for name, last := range e.alive {
		if silent := e.now().Sub(time.Unix(0, last.Load())); silent > limit {
			h.Problems = append(h.Problems, fmt.Sprintf("%s loop: silent for %s", name, silent.Round(time.Second)))
		}
	}
	if h.Abandoned >= int64(e.cfg.Concurrency) {
		h.Problems = append(h.Problems, fmt.Sprintf("workers: %d handlers did not return when told to", h.Abandoned))
	}
	return h
}

// problem says what is wrong with a store, without what is only for the log.
func problem(err error) string {
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
