package push

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

const (
	// keepByDefault is how long attempts and dead letters are kept by default; finished
	// webhooks are kept for keepFinished, and long-running ones for keepLongRunning.
	keepByDefault   = 30 * 24 * time.Hour
	keepFinished    = 24 * time.Hour
	keepLongRunning = 30 * 24 * time.Hour

	expireEvery = time.Minute
	expireBatch = 500

	// sweepEvery is how often the store is rid of endpoints that have failed long ago.
	sweepEvery = time.Hour
)

// heartbeat renews the leases of this process, and stops the lanes that have lost
// theirs.
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

// renew renews the leases of all lanes that have not been given back, and reports
// whether the store took it.
func (s *Service) renew(ctx context.Context) bool {
	begun := s.now()
	if !s.recheck(ctx, func(*lane) bool { return true }) {
		return false
	}
	s.renewed.Store(begun.UnixNano())
	return true
}

// Recheck ends attempts that are under way for webhooks of tasks of a context, if they
// are gone or were changed elsewhere, as the heartbeat would do soon.
func (s *Service) Recheck(ctx context.Context, owner, contextID string) {
	s.recheck(ctx, func(l *lane) bool { return l.lease.Task.Owner == owner && l.ContextID == contextID })
}

// RecheckTask is Recheck for the webhooks of one task.
func (s *Service) RecheckTask(ctx context.Context, owner, id string) {
	s.recheck(ctx, func(l *lane) bool { return l.lease.Task == store.Key{Owner: owner, ID: id} })
}

// recheck renews the leases of some lanes and stops those that have lost theirs, and
// reports whether the store took it.
func (s *Service) recheck(ctx context.Context, which func(*lane) bool) bool {
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
	begun := s.now()
	if len(leases) == 0 {
		return true
	}
	until := begun.Add(s.cfg.Lease)
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
			if !s.unqueue(l) {
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

// janitor removes what has outlived its use.
func (s *Service) janitor(ctx context.Context, beat func()) {
	swept := s.now()
	for {
		sleep(ctx, spread(expireEvery, s.cfg.random()))
		if ctx.Err() != nil {
			return
		}
		beat()
		s.mu.Lock()
		s.limits.forget(s.now())
		s.mu.Unlock()
		s.expire(ctx, beat)
		if now := s.now(); now.Sub(swept).Abs() >= sweepEvery {
			swept = now
			s.sweepEndpoints(ctx, beat)
		}
	}
}

// sweepEndpoints removes records of endpoints that count no more: of those that nobody
// calls again, nobody else does.
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

// expire removes old attempts and dead letters, and webhooks that have nothing left to
// send.
func (s *Service) expire(ctx context.Context, beat func()) {
	now := s.now()
	before := func(age time.Duration) time.Time {
		if age < 0 {
			return time.Time{}
		}
		return store.Time(now.Add(-age))
	}
	attempts := s.expireKind(ctx, beat, &s.expired.attempts, store.PushExpiry{Attempts: before(s.cfg.KeepAttempts)})
	letters := s.expireKind(ctx, beat, &s.expired.dead, store.PushExpiry{Dead: before(s.cfg.KeepDead)})
	webhooks := s.expireKind(ctx, beat, &s.expired.webhooks, store.PushExpiry{Finished: before(keepFinished), LongRunning: before(keepLongRunning)})
	if attempts+letters+webhooks > 0 {
		s.log.Info("expired webhook data removed", "attempts", attempts, "dead_letters", letters, "webhooks", webhooks)
	}
}

// expireKind removes what is old in batches and counts it.
func (s *Service) expireKind(ctx context.Context, beat func(), count *atomic.Int64, p store.PushExpiry) (removed int) {
	for n := expireBatch; n >= expireBatch && ctx.Err() == nil; removed += n {
		beat()
		var err error
		if n, err = s.cfg.Store.ExpirePush(ctx, p, expireBatch); err != nil && ctx.Err() == nil {
			s.log.Warn("expire webhook data", "error", err)
		}
		count.Add(int64(n))
	}
	return removed
}
