package push

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
	"github.com/holdfast-dev/holdfast/internal/safehttp"
	"github.com/holdfast-dev/holdfast/store"
)

// ErrStarted is returned by Start for a service that has been started or stopped.
var ErrStarted = errors.New("service has been started or stopped")

var errSlowStore = a2a.Errorf(a2a.CodeUnavailable, "the store took too long")

// stopGrace is how long Stop waits, once its ctx is done, for attempts to end and for
// the store to take what became of them.
const stopGrace = 2 * time.Second

// Service delivers to webhooks and keeps them. Make one with [New], then Start and Stop
// it once. It is safe for concurrent use.
type Service struct {
	cfg Config
	*registry
	log     *slog.Logger
	clock   *clock
	now     func() time.Time // the clock's
	worker  string           // the name under which leases are taken
	horizon time.Duration    // no due time is further away
	batch   int              // the most lanes claimed in one go
	ledger  ledger
	pool    pool

	wake    chan struct{} // the dispatcher should look for due lanes
	sooner  chan struct{} // it should set its timer anew
	acked   chan struct{} // there are acks to be stored
	idle    chan struct{} // there are none any more
	changed chan struct{} // an endpoint was opened, closed, disabled or enabled
	attend  chan struct{} // there are endpoints whose lanes are to be woken, or that are to be enabled

	owner     string    // whose lane was claimed last; the dispatcher's
	refreshed time.Time // when endpoints were read last

	mu        sync.Mutex
	lanes     map[laneID]*lane // claimed, and not yet given back
	limits    limits
	dues      dues
	acks      []*lane               // those whose ack is to be stored
	storing   int                   // acks on their way
	notices   uint64                // of the store
	claiming  bool                  // lanes are being claimed
	empty     uint64                // claims that found nothing due
	unclaimed uint64                // claims that the store failed
	cancelled map[laneID]int64      // below which fence claims under way are of no use
	enabled   map[endpointName]bool // endpoints to be enabled
	hungry    bool                  // there may be due lanes for which there was no room
	takeover  bool                  // leases of an earlier process are void
	urgent    bool                  // endpoints are to be saved
	stopping  bool

	delivered, failed, dead atomic.Int64
	expired                 struct{ attempts, dead, webhooks atomic.Int64 }
	ackFails                atomic.Int32 // calls in a row that failed to acknowledge
	renewed                 atomic.Int64 // when leases were last renewed

	working     sync.WaitGroup     // lanes
	dispatching sync.WaitGroup     // the dispatcher
	loops       sync.WaitGroup     // all loops
	sending     context.Context    // of attempts
	giveUp      context.CancelFunc // ends it
	stopClaims  context.CancelFunc
	stopLoops   context.CancelFunc
	life        sync.Mutex // held while the state changes
	state       atomic.Int32
	ended       chan struct{} // closed when Stop has ended, or there is nothing to stop
	alive       map[string]*atomic.Int64
}

const (
	stateNew int32 = iota
	stateRunning
	stateStopped
)

// New returns a service, or all that is wrong with cfg.
func New(cfg Config) (*Service, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Service{
		cfg: cfg, log: cfg.Logger, clock: newClock(cfg.clock), worker: cfg.NewID(),
		horizon: 2 * max(cfg.Schedule[len(cfg.Schedule)-1], longestRetryAfter, cfg.Lease),
		wake:    make(chan struct{}, 1), sooner: make(chan struct{}, 1), acked: make(chan struct{}, 1),
		idle: make(chan struct{}, 1), changed: make(chan struct{}, 1), attend: make(chan struct{}, 1),
		lanes: make(map[laneID]*lane), limits: newLimits(cfg),
		cancelled: make(map[laneID]int64), enabled: make(map[endpointName]bool),
		takeover: cfg.Store.Info().Exclusive,
		ledger:   ledger{budget: cfg.Memory}, pool: pool{items: make(map[sharedKey]*shared)},
		ended: make(chan struct{}), alive: make(map[string]*atomic.Int64),
	}
	s.now = s.clock.now
	claim := store.LaneClaim{Bytes: claimBytes}
	s.batch = int(min(claimBatch, max(cfg.Memory.Share()/4/claim.LargestRow(), 1)))
	if s.registry, err = newRegistry(cfg); err != nil {
		return nil, fmt.Errorf("push config: %w", err)
	}
	if s.cfg.Sender == nil {
		if s.cfg.Sender, err = safehttp.New(safehttp.ClientConfig{Policy: cfg.Policy, Timeout: cfg.Timeout, MaxPerAddress: s.cfg.PerEndpoint}); err != nil {
			return nil, fmt.Errorf("push config: %w", err)
		}
	}
	return s, nil
}

// Start begins to deliver what is due.
func (s *Service) Start(ctx context.Context) error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.state.Load() != stateNew {
		return ErrStarted
	}
	if err := s.loadEndpoints(ctx); err != nil {
		s.state.Store(stateStopped)
		close(s.ended)
		return fmt.Errorf("read webhook endpoints: %w", err)
	}
	base := context.WithoutCancel(ctx)
	s.sending, s.giveUp = context.WithCancel(base)
	claims, stopClaims := context.WithCancel(base)
	loops, stopLoops := context.WithCancel(base)
	s.stopClaims, s.stopLoops = stopClaims, stopLoops
	unwatch := s.cfg.Store.WatchLanes(s.notice)
	s.dispatching.Add(1)
	s.supervise(claims, "dispatch", s.dispatch, func() { unwatch(); s.dispatching.Done() })
	for name, loop := range map[string]func(context.Context, func()){
		"acknowledge": s.acknowledge, "heartbeat": s.heartbeat, "endpoints": s.tend, "janitor": s.janitor,
	} {
		s.supervise(loops, name, loop, func() {})
	}
	s.state.Store(stateRunning)
	return nil
}

// Stop ends the service: no more lanes are claimed, attempts under way get until ctx is
// done to end, then they are given up, and are made again by whoever claims their lanes
// next. Stop returns when all that is known has been stored or, at the latest, a few
// seconds after ctx is done. Stopping twice is harmless: the second call waits for the
// first, until its own ctx is done.
func (s *Service) Stop(ctx context.Context) error {
	s.life.Lock()
	old := s.state.Swap(stateStopped)
	s.life.Unlock()
	switch old {
	case stateRunning:
		defer close(s.ended)
	case stateNew:
		close(s.ended)
		return nil
	default:
		select {
		case <-s.ended:
		case <-ctx.Done():
		}
		return nil
	}
	s.quiesce()
	wait(ctx, &s.dispatching)
	s.stopClaims()
	s.dispatching.Wait()
	ended := wait(ctx, &s.working)
	s.giveUp()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
	defer cancel()
	if !ended && !wait(grace, &s.working) {
		s.log.Error("stopped with webhook attempts that did not end")
	}
	s.flush(ctx, grace)
	s.saveEndpoints(grace)
	s.stopLoops()
	s.loops.Wait()
	return nil
}

// quiesce has no more attempts begin.
func (s *Service) quiesce() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopping = true
	for _, l := range s.lanes {
		s.unqueue(l)
	}
	s.kick()
}

// wait reports whether all of a group has ended before ctx is done.
func wait(ctx context.Context, group *sync.WaitGroup) bool {
	ended := make(chan struct{})
	go func() {
		group.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return true
	case <-ctx.Done():
		return false
	}
}

// flush waits until all acks have been stored, until both contexts are done.
func (s *Service) flush(ctx, grace context.Context) {
	for {
		s.mu.Lock()
		left := len(s.acks) + s.storing
		s.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-s.idle:
			continue
		case <-ctx.Done():
		}
		select {
		case <-s.idle:
		case <-grace.Done():
			s.log.Error("stopped with webhook lanes that could not be acknowledged", "lanes", left)
			return
		}
	}
}

// supervise runs a loop until it returns, begins it again when it panics unless ctx is
// done, and calls ended after it.
func (s *Service) supervise(ctx context.Context, name string, loop func(ctx context.Context, beat func()), ended func()) {
	last := new(atomic.Int64)
	last.Store(s.now().UnixNano())
	s.alive[name] = last
	beat := func() { last.Store(s.now().UnixNano()) }
	s.loops.Go(func() {
		defer ended()
		for {
			err := guard(func() { loop(ctx, beat) })
			if err == nil || ctx.Err() != nil {
				return
			}
			s.log.Error("loop failed, starting it again", "loop", name, "error", err)
			sleep(ctx, time.Second)
		}
	})
}

// guard runs f and turns a panic into an error with its stack.
func guard(f func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	f()
	return nil
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
