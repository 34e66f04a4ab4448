package inmem

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// Steps implements [store.Store].
func (s *Store) Steps(ctx context.Context, k store.Key, turn int) ([]store.Step, error) {
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	t := s.task(k)
	if t == nil {
		return nil, nil
	}
	var steps []store.Step
	for _, step := range t.steps {
		if step.Turn == turn {
			step.Result = slices.Clone(step.Result)
			steps = append(steps, step)
		}
	}
	return steps, nil
}

// Idempotency implements [store.Store].
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

// ExpireIdempotency implements [store.Store]. The oldest go first.
func (s *Store) ExpireIdempotency(ctx context.Context, before time.Time, limit int) (int, error) {
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return 0, err
	}
	end, removed := ceil(before), 0
	for removed < limit && s.records.len > 0 {
		e := s.records.chunks[0][0]
		if e.at >= end {
			break
		}
		s.records.remove(e.at, e.rec)
		delete(s.owners[e.rec.Owner].records, e.rec.Key)
		removed++
	}
	return removed, nil
}

// record returns the record of a key, nil when it is free.
func (s *Store) record(owner, key string) *record {
	if o := s.owners[owner]; o != nil {
		return o.records[key]
	}
	return nil
}

func (s *Store) addRecord(r store.IdempotencyRecord, seq int64) {
	r.Seq, r.CreatedAt = seq, store.Time(r.CreatedAt)
	o := s.owner(r.Owner)
	if o.records == nil {
		o.records = make(map[string]*record)
	}
	kept := &record{r}
	o.records[r.Key] = kept
	s.records.add(millis(r.CreatedAt), kept)
}

// AddFeedback implements [store.Store].
func (s *Store) AddFeedback(ctx context.Context, f store.Feedback) error {
	f = f.Copy()
	f.CreatedAt = store.Time(f.CreatedAt)
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return err
	}
	t := s.task(f.Key)
	if t == nil {
		return store.ErrNotFound
	}
	t.feedback = append(t.feedback, f)
	return nil
}

// Feedback implements [store.Store].
func (s *Store) Feedback(ctx context.Context, k store.Key) ([]store.Feedback, error) {
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	t := s.task(k)
	if t == nil {
		return nil, store.ErrNotFound
	}
	all := slices.Clone(t.feedback)
	for i := range all {
		all[i] = all[i].Copy()
	}
	return all, nil
}
