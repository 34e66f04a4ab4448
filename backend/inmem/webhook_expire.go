package inmem

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// ExpireWebhooks implements [store.Webhooks]. It removes the oldest records first.
func (s *webhookStore) ExpireWebhooks(ctx context.Context, p store.WebhookExpiry, limit int) (int, error) {
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return 0, err
	}
	removed := 0
	for x := &s.attempts; x.len > 0 && removed < limit; removed++ {
		chunk := x.chunks[len(x.chunks)-1]
		n := chunk[len(chunk)-1].rec
		if !n.value.At.Before(p.Attempts) {
			break
		}
		s.removeAttempt(n)
	}
	removed += s.expireDeadLetters(p.Dead, limit)
	lanes := s.expire(&s.idle, p.Finished, limit)
	lanes += s.expire(&s.idleLong, p.LongRunning, limit-lanes)
	return removed + lanes, nil
}

// expireDeadLetters removes up to limit dead letters.
func (w *webhookState) expireDeadLetters(before time.Time, limit int) (removed int) {
	for x := &w.deadLetters; x.len > 0 && removed < limit; removed++ {
		chunk := x.chunks[len(x.chunks)-1]
		n := chunk[len(chunk)-1].rec
		if !n.value.At.Before(before) {
			break
		}
		w.change(n.lane, func() { w.removeDeadLetter(n) })
	}
	return removed
}

// expire removes up to limit idle lanes.
func (w *webhookState) expire(idle *index[*lane], before time.Time, limit int) (removed int) {
	for ; idle.len > 0 && removed < limit; removed++ {
		l := idle.chunks[0][0].rec
		if !l.UpdatedAt.Before(before) {
			break
		}
		w.removeLane(l)
	}
	return removed
}
