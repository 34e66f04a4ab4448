package inmem

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// Steps implements [store.Tasks].
func (s *Store) Steps(ctx context.Context, k store.Key, turn int) ([]store.Step, error) {
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	t := s.task(k)
	if t == nil {
		return nil, nil
	}
	var iters []store.Step
	for _, step := range t.steps {
		if step.Turn == turn {
			step.Result, step.Artifacts = slices.Clone(step.Result), slices.Clone(step.Artifacts)
			iters = append(iters, step)
		}
	}
	return iters, nil
}

// Idempotency implements [store.Tasks].
func (s *Store) Idempotency(ctx context.Context, owner, key string) (store.IdempotencyRecord, error) {
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
func (s *Store) ExpireIdempotency(ctx context.Context, before time.Time, limit int) (int, error) {
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

// record returns the record of a key, or nil.
func (s *Store) record(owner, key string) *record {
	if o := s.owners[owner]; o != nil {
		return o.records[key]
	}
	return nil
}

// addRecord adds a record to the store and to siblings, the records of the task or
// context that it refers to. siblings is nil if that does not exist.
func (s *Store) addRecord(r store.IdempotencyRecord, seq int64, siblings *[]*record) {
	r.Seq, r.CreatedAt = seq, store.Time(r.CreatedAt)
	o := s.owner(r.Owner)
	if o.records == nil {
		o.records = make(map[string]*record)
	}
	added := &record{r, siblings}
	o.records[r.Key] = added
	s.records.add(millis(r.CreatedAt), added)
	if siblings != nil {
		*siblings = append(*siblings, added)
	}
}

func (s *Store) removeRecords(records []*record) {
	for _, r := range slices.Clone(records) {
		s.records.remove(millis(r.CreatedAt), r)
		delete(s.owners[r.Owner].records, r.Key)
		if r.siblings != nil {
			i := slices.Index(*r.siblings, r)
			*r.siblings = slices.Delete(*r.siblings, i, i+1)
		}
	}
}
