package webhook

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/internal/runtime"
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

// janitor removes expired data.
type janitor struct {
	*common
	endpoints *endpointRegistry
	expired   struct{ attempts, dead, webhooks atomic.Int64 }
}

func (j *janitor) stats() Expired {
	return Expired{j.expired.attempts.Load(), j.expired.dead.Load(), j.expired.webhooks.Load()}
}

// run removes expired data until ctx is done.
func (j *janitor) run(ctx context.Context, beat func()) {
	swept := j.now()
	for {
		if runtime.Sleep(ctx, jitter(expireEvery, j.cfg.random())) != nil {
			return
		}
		beat()
		j.endpoints.forgetIdle()
		j.expire(ctx, beat)
		if now := j.now(); now.Sub(swept).Abs() >= sweepEvery {
			swept = now
			j.endpoints.sweep(ctx, beat)
		}
	}
}

// expire removes old attempts and dead letters, and webhooks that have no more events to
// deliver.
func (j *janitor) expire(ctx context.Context, beat func()) {
	now := j.now()
	before := func(age time.Duration) time.Time {
		if age < 0 {
			return time.Time{}
		}
		return store.Time(now.Add(-age))
	}
	attempts := j.expireKind(ctx, beat, &j.expired.attempts, store.WebhookExpiry{Attempts: before(j.cfg.KeepAttempts)})
	letters := j.expireKind(ctx, beat, &j.expired.dead, store.WebhookExpiry{Dead: before(j.cfg.KeepDead)})
	webhooks := j.expireKind(ctx, beat, &j.expired.webhooks, store.WebhookExpiry{Finished: before(finishedRetention), LongRunning: before(longRunningRetention)})
	if attempts+letters+webhooks > 0 {
		j.log.Info("expired webhook data removed", "attempts", attempts, "dead_letters", letters, "webhooks", webhooks)
	}
}

// expireKind removes one kind of expired data in batches, and adds the number to count.
func (j *janitor) expireKind(ctx context.Context, beat func(), count *atomic.Int64, p store.WebhookExpiry) (removed int) {
	for n := expireBatch; n >= expireBatch && ctx.Err() == nil; removed += n {
		beat()
		var err error
		if n, err = j.cfg.Store.ExpireWebhooks(ctx, p, expireBatch); err != nil && ctx.Err() == nil {
			j.log.Warn("removing expired webhook data failed", "error", err)
		}
		count.Add(int64(n))
	}
	return removed
}
