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
			step.Result, step.Artifacts = slices.Clone(step.Result), slices.Clone(step.Artifacts)
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
		s.removeRecords([]*record{e.rec})
		s.release(s.owners[e.rec.Owner])
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

// addRecord adds a record to those of what it names, if that is here.
func (s *Store) addRecord(r store.IdempotencyRecord, seq int64, among *[]*record) {
	r.Seq, r.CreatedAt = seq, store.Time(r.CreatedAt)
	o := s.owner(r.Owner)
	if o.records == nil {
		o.records = make(map[string]*record)
	}
	kept := &record{r, among}
	o.records[r.Key] = kept
	s.records.add(millis(r.CreatedAt), kept)
	if among != nil {
		*among = append(*among, kept)
	}
}

func (s *Store) removeRecords(records []*record) {
	for _, r := range slices.Clone(records) {
		s.records.remove(millis(r.CreatedAt), r)
		delete(s.owners[r.Owner].records, r.Key)
		if r.among != nil {
			i := slices.Index(*r.among, r)
			*r.among = slices.Delete(*r.among, i, i+1)
		}
	}
}
