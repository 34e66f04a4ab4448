package webhook

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

const (
	// defaultRetention is the default of Config.KeepAttempts and KeepDead. Webhooks of
	// finished tasks are kept for finishedRetention, long-running ones for
	// longRunningRetention.
	defaultRetention     = 30 * 24 * time.Hour
	finishedRetention    = 24 * time.Hour
	longRunningRetention = 30 * 24 * time.Hour

	expireEvery = time.Minute
	expireBatch = 500

	// sweepEvery is the interval at which stale endpoint records are removed.
	sweepEvery = time.Hour
)

// heartbeat renews the leases of this process until ctx is done.
func (s *Service) heartbeat(ctx context.Context, beat func()) {
	tick := time.NewTicker(s.cfg.Lease / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		beat()
		s.renew(ctx)
	}
}

// renew renews the leases of all lanes of this process, and reports whether the store
// succeeded.
func (s *Service) renew(ctx context.Context) bool {
	started := s.now()
	if !s.renewLeases(ctx, func(*lane) bool { return true }) {
		return false
	}
	s.renewedAt.Store(started.UnixNano())
	return true
}

// CancelStale cancels attempts in progress for tasks of a context, if their webhooks were
// deleted or changed by another process. The heartbeat does the same with a delay.
func (s *Service) CancelStale(ctx context.Context, owner, contextID string) {
	s.renewLeases(ctx, func(l *lane) bool { return l.lease.Task.Owner == owner && l.ContextID == contextID })
}

// CancelStaleOfTask is like CancelStale for the webhooks of one task.
func (s *Service) CancelStaleOfTask(ctx context.Context, owner, id string) {
	s.renewLeases(ctx, func(l *lane) bool { return l.lease.Task == store.Key{Owner: owner, ID: id} })
}

// renewLeases renews the leases of the lanes that which selects, and stops those that lost
// their lease. It reports whether the store succeeded.
func (s *Service) renewLeases(ctx context.Context, which func(*lane) bool) bool {
	byLease := make(map[store.LaneLease]*lane)
	var leases []store.LaneLease
	s.mu.Lock()
	for _, l := range s.lanes {
		if !l.halted && which(l) {
			byLease[l.lease] = l
			leases = append(leases, l.lease)
		}
	}
	s.mu.Unlock()
	started := s.now()
	if len(leases) == 0 {
		return true
	}
	until := started.Add(s.cfg.Lease)
	call, cancel := context.WithTimeoutCause(ctx, s.cfg.Lease, errSlowStore)
	defer cancel()
	lost, err := s.cfg.Store.RenewLanes(call, store.Time(until), leases)
	if err != nil {
		if ctx.Err() == nil {
			s.log.Warn("renew webhook leases", "error", err)
		}
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, lease := range lost {
		if l := byLease[lease]; l != nil {
			if !s.releaseIfWaiting(l) {
				s.halt(l)
			}
			delete(byLease, lease)
		}
	}
	for _, l := range byLease {
		l.until = until
	}
	return true
}

// janitor removes expired data until ctx is done.
func (s *Service) janitor(ctx context.Context, beat func()) {
	swept := s.now()
	for {
		sleep(ctx, jitter(expireEvery, s.cfg.random()))
		if ctx.Err() != nil {
			return
		}
		beat()
		s.mu.Lock()
		s.limits.forgetIdle(s.now())
		s.mu.Unlock()
		s.expire(ctx, beat)
		if now := s.now(); now.Sub(swept).Abs() >= sweepEvery {
			swept = now
			s.sweepEndpoints(ctx, beat)
		}
	}
}

// sweepEndpoints removes stale records of endpoints that are no longer called.
func (s *Service) sweepEndpoints(ctx context.Context, beat func()) {
	records, err := s.cfg.Store.Endpoints(ctx)
	now := s.now()
	for i := range records {
		var b breaker
		if b.restore(records[i], now); !b.stale(now) || ctx.Err() != nil {
			continue
		}
		beat()
		if err = s.cfg.Store.SaveEndpoint(ctx, store.Endpoint{Name: records[i].Name, UpdatedAt: store.Time(now)}); err != nil {
			break
		}
	}
	if err != nil && ctx.Err() == nil {
		s.log.Warn("remove webhook endpoints", "error", err)
	}
}

// expire removes old attempts and dead letters, and webhooks that have no more events to
// deliver.
func (s *Service) expire(ctx context.Context, beat func()) {
	now := s.now()
	before := func(age time.Duration) time.Time {
		if age < 0 {
			return time.Time{}
		}
		return store.Time(now.Add(-age))
	}
	attempts := s.expireKind(ctx, beat, &s.expired.attempts, store.WebhookExpiry{Attempts: before(s.cfg.KeepAttempts)})
	letters := s.expireKind(ctx, beat, &s.expired.dead, store.WebhookExpiry{Dead: before(s.cfg.KeepDead)})
	webhooks := s.expireKind(ctx, beat, &s.expired.webhooks, store.WebhookExpiry{Finished: before(finishedRetention), LongRunning: before(longRunningRetention)})
	if attempts+letters+webhooks > 0 {
		s.log.Info("expired webhook data removed", "attempts", attempts, "dead_letters", letters, "webhooks", webhooks)
	}
}

// expireKind removes one kind of expired data in batches, and adds the number to count.
func (s *Service) expireKind(ctx context.Context, beat func(), count *atomic.Int64, p store.WebhookExpiry) (removed int) {
	for n := expireBatch; n >= expireBatch && ctx.Err() == nil; removed += n {
		beat()
		var err error
		if n, err = s.cfg.Store.ExpireWebhooks(ctx, p, expireBatch); err != nil && ctx.Err() == nil {
			s.log.Warn("expire webhook data", "error", err)
		}
		count.Add(int64(n))
	}
	return removed
}
