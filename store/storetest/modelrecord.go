package storetest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

func (m *model) valueRejection(owner string, changes []store.RecordChange) error {
	for _, c := range changes {
		if m.values[c.Record(owner)].Version != c.Version {
			return store.ErrRecordConflict
		}
	}
	return nil
}

func (m *model) saveValues(owner string, changes []store.RecordChange) {
	for _, c := range changes {
		k := c.Record(owner)
		if c.Delete {
			delete(m.values, k)
			continue
		}
		m.values[k] = store.Record{Key: k, Version: c.Version + 1, Value: slices.Clone(c.Value), Expires: store.Time(c.Expires)}
	}
}

func (m *model) SaveRecords(ctx context.Context, owner string, changes ...store.RecordChange) error {
	defer m.mu.Unlock()
	if err := m.startCall(ctx); err != nil {
		return err
	}
	if err := cmp.Or(store.CheckRecords(owner, changes), m.valueRejection(owner, changes)); err != nil {
		return err
	}
	m.saveValues(owner, changes)
	return nil
}

func (m *model) Record(ctx context.Context, k store.RecordKey) (store.Record, error) {
	defer m.mu.Unlock()
	if err := m.startCall(ctx); err != nil {
		return store.Record{}, err
	}
	r, ok := m.values[k]
	if !ok {
		return r, store.ErrNotFound
	}
	r.Value = slices.Clone(r.Value)
	return r, nil
}

func (m *model) Records(ctx context.Context, q store.RecordQuery) (page store.RecordPage, err error) {
	defer m.mu.Unlock()
	if err := m.startCall(ctx); err != nil {
		return page, err
	}
	order := func(a, b store.RecordKey) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Key, b.Key))
	}
	var all []store.Record
	for k, r := range m.values {
		if k.Owner == q.Owner && (q.Namespace == "" || k.Namespace == q.Namespace) && order(k, q.After) > 0 {
			r.Value = slices.Clone(r.Value)
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b store.Record) int { return order(a.Key, b.Key) })
	n := min(q.Limit, len(all))
	return store.RecordPage{Records: all[:n], More: n < len(all)}, nil
}

func (m *model) ExpireRecords(ctx context.Context, before time.Time, limit int) (int, error) {
	defer m.mu.Unlock()
	if err := m.startCall(ctx); err != nil {
		return 0, err
	}
	removed := 0
	for k, r := range m.values {
		if removed < limit && !r.Expires.IsZero() && r.Expires.Before(before) {
			delete(m.values, k)
			removed++
		}
	}
	return removed, nil
}
