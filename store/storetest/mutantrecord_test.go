package storetest

import (
	"cmp"
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

// removalMutant is a store with broken removals.
type removalMutant struct{ hidesRemovals, keepsRemovals, ignoresAfter bool }

var removalMutants = map[string]func(*mutant){
	"loses removals":            func(m *mutant) { m.hidesRemovals = true },
	"does not forget removals":  func(m *mutant) { m.keepsRemovals = true },
	"ignores After of removals": func(m *mutant) { m.ignoresAfter = true },
	"deletes contexts at once":  func(m *mutant) { m.batch = func(limit int) int { return max(limit, 1) } },
}

func (m *mutant) Removals(ctx context.Context, after store.Removal, limit int) ([]store.Removal, error) {
	if m.hidesRemovals {
		return nil, nil
	}
	if m.ignoresAfter {
		after = store.Removal{}
	}
	return m.Store.Removals(ctx, after, limit)
}

func (m *mutant) ForgetRemovals(ctx context.Context, removals []store.Removal) error {
	if m.keepsRemovals {
		return nil
	}
	return m.Store.ForgetRemovals(ctx, removals)
}

// recordMutants are the ways to break the records of a store.
var recordMutants = map[string]func(*mutant){
	"loses records of changes":              func(m *mutant) { m.change = func(c *store.Change) { c.Records = nil } },
	"ignores Delete of records":             func(m *mutant) { m.records = func(c *store.RecordChange) { c.Delete = false } },
	"loses values of records":               func(m *mutant) { m.records = func(c *store.RecordChange) { c.Value = nil } },
	"gives records of the server to owners": func(m *mutant) { m.records = func(c *store.RecordChange) { c.System = false } },
	"merges namespaces":                     func(m *mutant) { m.records = func(c *store.RecordChange) { c.Namespace = "n" } },
	"ignores the namespace":                 func(m *mutant) { m.recordQuery = func(q *store.RecordQuery) { q.Namespace = "" } },
	"ignores After of records":              func(m *mutant) { m.recordQuery = func(q *store.RecordQuery) { q.After = store.RecordKey{} } },
	"lists more records than asked":         func(m *mutant) { m.recordQuery = func(q *store.RecordQuery) { q.Limit++ } },
	"ignores versions of records":           func(m *mutant) { m.ignoresRecordVersions = true },
	"loses the expiry of records":           func(m *mutant) { m.records = func(c *store.RecordChange) { c.Expires = time.Time{} } },
	"keeps the expiry of records":           func(m *mutant) { m.records = func(c *store.RecordChange) { c.Expires = cmp.Or(c.Expires, at(1)) } },
	"expires records too early":             func(m *mutant) { m.expiresEarly = true },
	"saves records one by one":              func(m *mutant) { m.savesRecordsSingly = true },
}

func (m *mutant) mutateRecords(owner string, changes []store.RecordChange) []store.RecordChange {
	changed := make([]store.RecordChange, len(changes))
	for i, c := range changes {
		suite.Mutate(m.records, &c)
		if r, err := m.Record(context.Background(), c.Record(owner)); m.ignoresRecordVersions && err == nil {
			c.Version = r.Version
		}
		changed[i] = c
	}
	return changed
}

func (m *mutant) SaveRecords(ctx context.Context, owner string, changes ...store.RecordChange) error {
	changes = m.mutateRecords(owner, changes)
	if !m.savesRecordsSingly {
		return m.Store.SaveRecords(ctx, owner, changes...)
	}
	for _, c := range changes {
		if err := m.Store.SaveRecords(ctx, owner, c); err != nil {
			return err
		}
	}
	return nil
}

func (m *mutant) Records(ctx context.Context, q store.RecordQuery) (store.RecordPage, error) {
	suite.Mutate(m.recordQuery, &q)
	return m.Store.Records(ctx, q)
}

func (m *mutant) ExpireRecords(ctx context.Context, before time.Time, limit int) (int, error) {
	if m.expiresEarly {
		before = before.Add(time.Millisecond)
	}
	return m.Store.ExpireRecords(ctx, before, limit)
}
