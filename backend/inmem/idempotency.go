package inmem

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// Idempotency implements [store.Tasks].
func (s *taskStore) Idempotency(ctx context.Context, owner, key string) (store.IdempotencyRecord, error) {
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return store.IdempotencyRecord{}, err
	}
	r := s.record(owner, key)
	if r == nil {
		return store.IdempotencyRecord{}, store.ErrNotFound
	}
	return r.IdempotencyRecord, nil
}

// ExpireIdempotency implements [store.Maintenance]. It removes the oldest records first.
func (s *taskStore) ExpireIdempotency(ctx context.Context, before time.Time, limit int) (int, error) {
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return 0, err
	}
	end, removed := ceilMillis(before), 0
	for removed < limit && s.records.len > 0 {
		e := s.records.chunks[0][0]
		if e.at >= end {
			break
		}
		s.removeRecords([]*record{e.rec})
		s.removeIfEmpty(s.owners[e.rec.Owner])
		removed++
	}
	return removed, nil
}
