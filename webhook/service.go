package webhook

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

// stopGrace is how long Stop waits after its ctx is done: for canceled attempts to end and
// for their results to be stored.
const stopGrace = 2 * time.Second

// Service registers webhooks and delivers events to them. Create it with [New], then Start
// and Stop it once. It is safe for concurrent use.
type Service struct {
	cfg Config
	*registry
	log     *slog.Logger
	clock   *clock
	now     func() time.Time // of clock
	worker  string           // names this process in leases
	horizon time.Duration    // upper bound of due times, from now
	batch   int              // maximum number of lanes in one claim
	memory  memoryMeter
	pool    pool

	wake             chan struct{} // the dispatcher should claim due lanes
	dueSooner        chan struct{} // the dispatcher should reset its timer
	acksPending      chan struct{} // acks are waiting to be stored
	acksDrained      chan struct{} // all acks are stored
	endpointsChanged chan struct{} // an endpoint was opened, closed, disabled or enabled
	endpointWork     chan struct{} // endpoints have lanes to wake, or are to be enabled

	lastOwner       string    // owner of the last claimed lane; only used by the dispatcher
	endpointsReadAt time.Time // when the store's endpoints were last read

	mu            sync.Mutex
	lanes         map[laneID]*lane // claimed and not released yet
	limits        limits
	dueTimes      dueTimes
	acks          []*lane               // lanes with an ack to be stored
	acksInFlight  int                   // number of acks being stored
	notifications uint64                // number of notifications of the store
	claiming      bool                  // a claim is in progress
	emptyClaims   uint64                // number of claims that found nothing due
	failedClaims  uint64                // number of claims that failed
	cancelled     map[laneID]int64      // claims in progress are void below this fence
	toEnable      map[endpointName]bool // endpoints to enable in the store
	moreDue       bool                  // due lanes may remain that exceeded a limit
	takeover      bool                  // the store is exclusive: leases of earlier processes are void
	saveNow       bool                  // save endpoints without waiting for saveEvery
	stopping      bool

	delivered, failed, dead atomic.Int64
	expired                 struct{ attempts, dead, webhooks atomic.Int64 }
	ackFailures             atomic.Int32 // consecutive failed calls of AckLanes
	renewedAt               atomic.Int64 // last renewal of all leases, in Unix nanoseconds

	workers     sync.WaitGroup     // lanes
	dispatcher  sync.WaitGroup     // the dispatcher
	loops       sync.WaitGroup     // all loops
	sendCtx     context.Context    // context of delivery attempts
	cancelSends context.CancelFunc // cancels sendCtx
	stopClaims  context.CancelFunc
	stopLoops   context.CancelFunc
	stateMu     sync.Mutex // held while state changes
	state       atomic.Int32
	stopped     chan struct{}            // closed when the service has stopped
	lastBeat    map[string]*atomic.Int64 // when each loop last made progress, in Unix nanoseconds
}

const (
	stateNew int32 = iota
	stateRunning
	stateStopped
)

// New returns a service, or an error with all problems of cfg. It starts nothing.
func New(cfg Config) (*Service, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Service{
		cfg: cfg, log: cfg.Logger, clock: newClock(cfg.clock), worker: cfg.NewID(),
		horizon: 2 * max(cfg.Schedule[len(cfg.Schedule)-1], maxRetryAfter, cfg.Lease),
		wake:    make(chan struct{}, 1), dueSooner: make(chan struct{}, 1), acksPending: make(chan struct{}, 1),
		acksDrained: make(chan struct{}, 1), endpointsChanged: make(chan struct{}, 1), endpointWork: make(chan struct{}, 1),
		lanes: make(map[laneID]*lane), limits: newLimits(cfg),
		cancelled: make(map[laneID]int64), toEnable: make(map[endpointName]bool),
		takeover: cfg.Store.Info().Exclusive,
		memory:   memoryMeter{budget: cfg.Memory}, pool: pool{items: make(map[sharedKey]*sharedItem)},
		stopped: make(chan struct{}), lastBeat: make(map[string]*atomic.Int64),
	}
	s.now = s.clock.now
	claim := store.LaneClaim{Bytes: claimBytes}
	s.batch = int(min(claimBatch, max(cfg.Memory.Share()/4/claim.LargestRow(), 1)))
	if s.registry, err = newRegistry(cfg); err != nil {
		return nil, fmt.Errorf("webhook config: %w", err)
	}
	if s.cfg.Sender == nil {
		if s.cfg.Sender, err = safehttp.New(safehttp.ClientConfig{Policy: cfg.Policy, Timeout: cfg.Timeout, MaxPerAddress: s.cfg.PerEndpoint}); err != nil {
			return nil, fmt.Errorf("webhook config: %w", err)
		}
	}
	return s, nil
}

// Start starts delivering due events. It returns ErrStarted if the service was started or
// stopped before, or an error if the store cannot be read.
func (s *Service) Start(ctx context.Context) error {
	s.stateMu.Lock()
	defer s.stateMu.Unlock()
	if s.state.Load() != stateNew {
		return ErrStarted
	}
	if err := s.loadEndpoints(ctx); err != nil {
		s.state.Store(stateStopped)
		close(s.stopped)
		return fmt.Errorf("read webhook endpoints: %w", err)
	}
	base := context.WithoutCancel(ctx)
	s.sendCtx, s.cancelSends = context.WithCancel(base)
	claims, stopClaims := context.WithCancel(base)
	loops, stopLoops := context.WithCancel(base)
	s.stopClaims, s.stopLoops = stopClaims, stopLoops
	unwatch := s.cfg.Store.WatchLanes(s.onNotification)
	s.dispatcher.Add(1)
	s.supervise(claims, "dispatch", s.dispatch, func() { unwatch(); s.dispatcher.Done() })
	for name, loop := range map[string]func(context.Context, func()){
		"acknowledge": s.acknowledge, "heartbeat": s.heartbeat, "endpoints": s.maintainEndpoints, "janitor": s.janitor,
	} {
		s.supervise(loops, name, loop, func() {})
	}
	s.state.Store(stateRunning)
	return nil
}

// Stop stops the service. It claims no more lanes and waits for attempts in progress until
// ctx is done. Then it cancels them; the next process that claims their lanes repeats them.
// Stop returns when all results are stored, or a few seconds after ctx is done at the
// latest. A second call waits for the first one until its own ctx is done.
func (s *Service) Stop(ctx context.Context) error {
	s.stateMu.Lock()
	old := s.state.Swap(stateStopped)
	s.stateMu.Unlock()
	switch old {
	case stateRunning:
		defer close(s.stopped)
	case stateNew:
		close(s.stopped)
		return nil
	default:
		select {
		case <-s.stopped:
		case <-ctx.Done():
		}
		return nil
	}
	s.stopNewWork()
	wait(ctx, &s.dispatcher)
	s.stopClaims()
	s.dispatcher.Wait()
	ended := wait(ctx, &s.workers)
	s.cancelSends()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
	defer cancel()
	if !ended && !wait(grace, &s.workers) {
		s.log.Error("webhook attempts did not end before the service stopped")
	}
	s.flushAcks(ctx, grace)
	s.saveEndpoints(grace)
	s.stopLoops()
	s.loops.Wait()
	return nil
}

// stopNewWork prevents further attempts and releases waiting lanes.
func (s *Service) stopNewWork() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopping = true
	for _, l := range s.lanes {
		s.releaseIfWaiting(l)
	}
	s.wakeDispatcher()
}

// wait waits for group, and reports whether it ended before ctx was done.
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

// flushAcks waits until all acks are stored, or both contexts are done.
func (s *Service) flushAcks(ctx, grace context.Context) {
	for {
		s.mu.Lock()
		left := len(s.acks) + s.acksInFlight
		s.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-s.acksDrained:
			continue
		case <-ctx.Done():
		}
		select {
		case <-s.acksDrained:
		case <-grace.Done():
			s.log.Error("webhook lanes were not acknowledged before the service stopped", "lanes", left)
			return
		}
	}
}

// supervise runs a loop in a goroutine until it returns, and then calls ended. After a
// panic it restarts the loop, unless ctx is done.
func (s *Service) supervise(ctx context.Context, name string, loop func(ctx context.Context, beat func()), ended func()) {
	last := new(atomic.Int64)
	last.Store(s.now().UnixNano())
	s.lastBeat[name] = last
	beat := func() { last.Store(s.now().UnixNano()) }
	s.loops.Go(func() {
		defer ended()
		for {
			err := guard(func() { loop(ctx, beat) })
			if err == nil || ctx.Err() != nil {
				return
			}
			s.log.Error("loop failed, restarting it", "loop", name, "error", err)
			sleep(ctx, time.Second)
		}
	})
}

// guard calls f and returns a panic as an error with its stack.
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
