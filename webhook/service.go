package webhook

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/runtime"
	"github.com/holdfast-dev/holdfast/store"
)

// ErrStarted is returned by Start for a service that has been started or stopped.
var ErrStarted = runtime.ErrStarted

var errSlowStore = a2a.Errorf(a2a.CodeUnavailable, "the store took too long")

// stopGrace is how long Stop waits after its ctx is done: for canceled attempts to end and
// for their results to be stored.
const stopGrace = 2 * time.Second

// Service registers webhooks and delivers events to them. Create it with [New], then Start
// and Stop it once. It is safe for concurrent use.
//
// It connects parts that each have their own state and lock. Locks are acquired in the order
// claimer, endpoint registry, acknowledger, lane.
type Service struct {
	*common
	*registrar
	claims    *claimer
	delivery  *deliverer
	endpoints *endpointRegistry
	acks      *acknowledger
	janitor   *janitor

	lifecycle  runtime.Lifecycle
	loops      runtime.Loops
	dispatched <-chan struct{} // closed when dispatch has ended
	unwatch    func()          // ends the notifications of the store
	stopClaims context.CancelFunc
	stopLoops  context.CancelFunc
}

// New returns a service, or an error with all problems of cfg. It starts nothing. If webhooks are
// off, it returns nil, which package server accepts.
func New(cfg Config) (*Service, error) {
	if cfg.Off {
		return nil, cfg.Check()
	}
	common, err := newCommon(cfg)
	if err != nil {
		return nil, err
	}
	if common.cfg.Sender == nil {
		if common.cfg.Sender, err = common.newSender(); err != nil {
			return nil, fmt.Errorf("webhook config: %w", err)
		}
	}
	wake := runtime.NewSignal()
	acks := newAcknowledger(common)
	endpoints := newEndpointRegistry(common, acks, wake)
	delivery := newDeliverer(common, endpoints, acks)
	claims := newClaimer(common, delivery, wake)
	return &Service{
		common: common, registrar: newRegistrar(common, claims, endpoints),
		claims: claims, delivery: delivery, endpoints: endpoints, acks: acks,
		janitor: &janitor{common: common, endpoints: endpoints},
		loops:   runtime.Loops{Log: common.log, Now: common.now},
	}, nil
}

// Start starts delivering due events. It returns ErrStarted if the service was started or
// stopped before, or an error if the store cannot be read.
func (s *Service) Start(ctx context.Context) error {
	return s.lifecycle.Start(func() error {
		if err := s.endpoints.load(ctx); err != nil {
			return fmt.Errorf("read webhook endpoints: %w", err)
		}
		base := context.WithoutCancel(ctx)
		var claims, loops context.Context
		claims, s.stopClaims = context.WithCancel(base)
		loops, s.stopLoops = context.WithCancel(base)
		s.delivery.open(base)
		s.unwatch = s.cfg.Store.WatchLanes(s.claims.onNotification)
		s.dispatched = s.loops.Start(claims, "dispatch", s.claims.dispatch)
		s.loops.Start(loops, "acknowledge", s.acks.run)
		s.loops.Start(loops, "heartbeat", s.claims.heartbeat)
		s.loops.Start(loops, "endpoints", s.endpoints.maintain)
		s.loops.Start(loops, "janitor", s.janitor.run)
		return nil
	})
}

// Stop stops the service. It claims no more lanes and waits for attempts in progress until
// ctx is done. Then it cancels them; the next process that claims their lanes repeats them.
// Stop returns when all results are stored, or a few seconds after ctx is done at the
// latest. A second call waits for the first one until its own ctx is done.
func (s *Service) Stop(ctx context.Context) error {
	s.lifecycle.Stop(ctx, func() {
		s.delivery.stopping.Store(true)
		s.claims.stopNewWork()
		select {
		case <-s.dispatched:
		case <-ctx.Done():
		}
		s.stopClaims()
		<-s.dispatched
		s.unwatch()
		ended := runtime.Wait(ctx, &s.delivery.workers)
		s.delivery.cancel()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
		defer cancel()
		if !ended && !runtime.Wait(grace, &s.delivery.workers) {
			s.log.Error("webhook attempts did not end before the service stopped")
		}
		s.acks.flush(ctx, grace)
		s.endpoints.save(grace)
		s.stopLoops()
		s.loops.Wait()
	})
	return nil
}

// drainPoll is the interval at which Drain checks the service.
const drainPoll = 2 * time.Millisecond

// Drain waits until no lane is due or in progress, a claim fails, or ctx is done. Call it
// before Stop, when no more events will be written. It returns immediately if the service is
// not running.
func (s *Service) Drain(ctx context.Context) {
	if !s.lifecycle.Running() {
		return
	}
	ticker := time.NewTicker(drainPoll)
	defer ticker.Stop()
	_, _, failures := s.claims.progress()
	for {
		idle, claims, _ := s.claims.progress()
		if idle {
			s.claims.wake.Send()
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		still, now, failed := s.claims.progress()
		if failed > failures {
			return // the lanes are claimed after the outage
		}
		if idle && still && now > claims {
			return // a claim that started later found nothing
		}
	}
}

// CancelStale cancels attempts in progress for tasks of a context, if their webhooks were deleted
// or changed by another process. The heartbeat also cancels them, later.
func (s *Service) CancelStale(ctx context.Context, owner, contextID string) {
	s.claims.renewLeases(ctx, func(l *lane) bool { return l.lease.Task.Owner == owner && l.ContextID == contextID })
}

// CancelStaleOfTask is like CancelStale for the webhooks of one task.
func (s *Service) CancelStaleOfTask(ctx context.Context, owner, id string) {
	s.claims.renewLeases(ctx, func(l *lane) bool { return l.lease.Task == store.Key{Owner: owner, ID: id} })
}

// Stats returns the current counters. It does not call the store.
func (s *Service) Stats() Stats {
	stats := Stats{
		Delivered: s.delivery.delivered.Load(), Failed: s.delivery.failed.Load(), DeadLetters: s.delivery.dead.Load(), Claimed: s.claims.count(),
		Memory: s.memory.held.Load(), WaitingForMemory: int(s.memory.waiting.Load()), MemoryRefused: s.memory.refused.Load(),
		Expired: s.janitor.stats(),
	}
	s.endpoints.addStats(&stats)
	return stats
}

// Health returns the problems of the service. Failing receivers are not problems.
func (s *Service) Health() (problems []string) {
	if !s.lifecycle.Running() {
		return []string{"webhooks: not running"}
	}
	if stuck := s.acks.stuck(); stuck > 0 {
		problems = append(problems, fmt.Sprintf("webhooks: cannot store the delivery results of %d webhooks", stuck))
	}
	if idle := s.endpoints.stalled(); len(idle) > 0 {
		problems = append(problems, fmt.Sprintf("webhooks: webhooks wait for %d endpoints without requests in progress", len(idle)))
	}
	for _, silent := range s.loops.Silent(10 * max(s.cfg.Poll, s.cfg.Lease, saveEvery)) {
		problems = append(problems, "webhooks: "+silent)
	}
	return problems
}
