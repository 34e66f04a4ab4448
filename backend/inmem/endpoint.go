package inmem

import (
	"cmp"
	"context"
	"slices"

	"github.com/holdfast-dev/holdfast/store"
)

// Endpoints implements [store.Webhooks]. The result is sorted by name.
func (s *webhookStore) Endpoints(ctx context.Context) ([]store.Endpoint, error) {
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	var all []store.Endpoint
	for _, e := range s.endpoints {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b store.Endpoint) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// SaveEndpoint implements [store.Webhooks].
func (s *webhookStore) SaveEndpoint(ctx context.Context, e store.Endpoint) error {
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return err
	}
	if e.Failures == 0 && !e.Disabled {
		delete(s.endpoints, e.Name)
		return nil
	}
	e.FailedAt, e.OpenUntil, e.UpdatedAt = store.Time(e.FailedAt), store.Time(e.OpenUntil), store.Time(e.UpdatedAt)
	s.endpoints[e.Name] = e
	return nil
}
