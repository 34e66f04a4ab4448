package inmem

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// ExpirePush implements [store.PushStore]. The oldest go first.
func (s *Store) ExpirePush(ctx context.Context, p store.PushExpiry, limit int) (int, error) {
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return 0, err
	}
	removed := 0
	for x := &s.push.attempts; x.len > 0 && removed < limit; removed++ {
		chunk := x.chunks[len(x.chunks)-1]
		n := chunk[len(chunk)-1].rec
		if !n.value.At.Before(p.Attempts) {
			break
		}
		s.push.removeAttempt(n)
	}
	removed += s.push.expireLetters(p.Dead, limit)
	lanes := s.push.expire(&s.push.idle, p.Finished, limit)
	lanes += s.push.expire(&s.push.idleLong, p.LongRunning, limit-lanes)
	return removed + lanes, nil
}

// expireLetters removes up to limit dead letters.
func (p *push) expireLetters(before time.Time, limit int) (removed int) {
	for x := &p.letters; x.len > 0 && removed < limit; removed++ {
		chunk := x.chunks[len(x.chunks)-1]
		n := chunk[len(chunk)-1].rec
		if !n.value.At.Before(before) {
			break
		}
		p.change(n.lane, func() { p.removeLetter(n) })
	}
	return removed
}

// expire removes up to limit idle lanes.
func (p *push) expire(idle *index[*lane], before time.Time, limit int) (removed int) {
	for ; idle.len > 0 && removed < limit; removed++ {
		l := idle.chunks[0][0].rec
		if !l.UpdatedAt.Before(before) {
			break
		}
		p.removeLane(l)
	}
	return removed
}

// PushBacklog implements [store.PushStore].
func (s *Store) PushBacklog(ctx context.Context) (store.PushBacklog, error) {
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return store.PushBacklog{}, err
	}
	b := store.PushBacklog{Pending: s.push.pending, Dead: s.push.letters.len}
	if x := s.push.lanes[store.LaneParked]; x != nil {
		b.Parked = x.len
	}
	if x := s.push.lanes[store.LaneDisabled]; x != nil {
		b.Disabled = x.len
	}
	return b, nil
}

// Endpoints implements [store.PushStore]. They are ordered by name.
func (s *Store) Endpoints(ctx context.Context) ([]store.Endpoint, error) {
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	var all []store.Endpoint
	for _, e := range s.push.endpoints {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b store.Endpoint) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// SaveEndpoint implements [store.PushStore].
func (s *Store) SaveEndpoint(ctx context.Context, e store.Endpoint) error {
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return err
	}
	if e.Failures == 0 && !e.Disabled {
		delete(s.push.endpoints, e.Name)
		return nil
	}
	e.FailedAt, e.OpenUntil, e.UpdatedAt = store.Time(e.FailedAt), store.Time(e.OpenUntil), store.Time(e.UpdatedAt)
	s.push.endpoints[e.Name] = e
	return nil
}
