// Package graphsql stores graphs in SQLite and PostgreSQL.
package graphsql

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/graphdriver"
)

// Graphs are the graphs of a database.
type Graphs struct {
	db  sqlkit.DB
	now func() time.Time
}

var _ graph.Complete = (*Graphs)(nil)

// Source is a store of tasks with graphs of its own.
type Source interface {
	Graph(now func() time.Time) graph.Complete
}

// Of returns the graphs of a store of tasks: the graphs of a Source, or the graphs in its database, or nil. now returns
// the current time; nil means time.Now.
func Of(tasks any, now func() time.Time) graph.Complete {
	if s, ok := tasks.(Source); ok {
		return s.Graph(now)
	}
	if db := sqlkit.Of(tasks); db != nil {
		return New(db, now)
	}
	return nil
}

// New returns the graphs of a database. now returns the current time; nil means time.Now.
func New(db sqlkit.DB, now func() time.Time) *Graphs {
	if now == nil {
		now = time.Now
	}
	return &Graphs{db, now}
}

// scanEntity returns an entity of entityColumns.
func scanEntity(r sqlkit.Row) graphdriver.EntityRow {
	return graphdriver.EntityRow{ID: r.Text(0), Label: r.Text(1), Properties: r.Text(2)}
}

// scanVersion returns a relationship of versionColumns.
func scanVersion(r sqlkit.Row) graphdriver.RelationshipRow {
	return scanFields(r, 4, graphdriver.RelationshipRow{Relationship: graph.Relationship{ID: r.Text(0), Source: r.Text(1), Target: r.Text(2), Type: r.Text(3)}})
}

// scanFields adds the versionFields, which start at a column.
func scanFields(r sqlkit.Row, i int, e graphdriver.RelationshipRow) graphdriver.RelationshipRow {
	e.Properties, e.Version = r.Text(i), r.Int(i+1)
	e.ValidFrom, e.ValidTo, e.RecordedAt, e.ReplacedAt = sqlkit.Time(r.Int(i+2)), sqlkit.Time(r.Int(i+3)), sqlkit.Time(r.Int(i+4)), sqlkit.Time(r.Int(i+5))
	return e
}

// momentArgs returns the arguments of atMoment.
func momentArgs(m graph.Moment, now time.Time) []any {
	known, from, to := int64(sqlkit.NoBound-1), int64(math.MaxInt64), int64(math.MinInt64)
	if !m.KnownAt.IsZero() {
		known = m.KnownAt.UnixMilli()
	}
	if !m.AnyTime {
		if !m.AsOf.IsZero() {
			now = m.AsOf
		}
		from, to = now.UnixMilli(), now.UnixMilli()
	}
	return []any{known, from, to}
}

// entitiesOf calls each for the entities with one of the ids.
func entitiesOf(q sqlkit.Querier, k graph.Key, ids []string, each func(r *graphdriver.EntityRow)) error {
	if len(ids) == 0 {
		return nil
	}
	return q.Query(sqlEntities, func(r sqlkit.Row) error {
		row := scanEntity(r)
		each(&row)
		return nil
	}, k.Owner, k.Graph, ids)
}

// Entities implements graph.Reader.
func (g *Graphs) Entities(ctx context.Context, k graph.Key, ids []string) (all []graph.Entity, err error) {
	if k, err = graphdriver.CheckIDs(k, ids...); err != nil || len(ids) == 0 {
		return nil, err
	}
	found := make(map[string]graphdriver.EntityRow)
	err = g.db.Read(ctx, func(q sqlkit.Querier) error {
		clear(found)
		return entitiesOf(q, k, ids, func(r *graphdriver.EntityRow) { found[r.ID] = *r })
	})
	for _, id := range ids {
		if r, ok := found[id]; ok {
			all = append(all, r.Entity())
		}
	}
	return all, err
}

// Relationships implements graph.Reader.
func (g *Graphs) Relationships(ctx context.Context, k graph.Key, ids []string) (all []graph.Relationship, err error) {
	if k, err = graphdriver.CheckIDs(k, ids...); err != nil || len(ids) == 0 {
		return nil, err
	}
	var found map[string]graphdriver.RelationshipRow
	err = g.db.Read(ctx, func(q sqlkit.Querier) (err error) {
		found, err = newestVersions(q, k, ids)
		return err
	})
	for _, id := range ids {
		if r, ok := found[id]; ok {
			all = append(all, r.Copy())
		}
	}
	return all, err
}

// newestVersions returns relationships by id.
func newestVersions(q sqlkit.Querier, k graph.Key, ids []string) (map[string]graphdriver.RelationshipRow, error) {
	found := make(map[string]graphdriver.RelationshipRow)
	err := q.Query(sqlEdgesNewest, func(r sqlkit.Row) error {
		e := scanVersion(r)
		found[e.ID] = e
		return nil
	}, k.Owner, k.Graph, ids)
	return found, err
}

// FindEntities implements graph.Reader.
func (g *Graphs) FindEntities(ctx context.Context, k graph.Key, p graph.FindParams) (all []graph.Entity, err error) {
	if k, p, err = graphdriver.CheckFind(k, p); err != nil {
		return nil, err
	}
	err = g.db.Read(ctx, func(q sqlkit.Querier) error {
		all = nil
		after, size := p.After, findBatch(p.Limit, !p.Filter.IsZero() || len(p.Names) > 0 && len(p.Labels) > 0)
		for {
			rows, err := entityPage(q, k, &p, after, size)
			if err != nil {
				return err
			}
			for i := range rows {
				if len(p.Names) > 0 && len(p.Labels) > 0 && !slices.Contains(p.Labels, rows[i].Label) {
					continue
				}
				if e := rows[i].Entity(); p.Filter.Match(e.Properties) {
					all = append(all, e)
				}
				if len(all) == p.Limit {
					return nil
				}
			}
			if len(rows) < size {
				return nil
			}
			after = rows[size-1].ID
		}
	})
	return all, err
}

// findBatch returns the number of rows to read at once.
func findBatch(limit int, filtered bool) int {
	if filtered {
		return max(limit, sqlkit.FirstBatch)
	}
	return limit
}

// maxNamed is the number of entities with some names up to which all of them are read at once.
const maxNamed = 5000

// entityPage returns the next entities by id. It reads a page for each name or label, because an index
// has the order of one of them.
func entityPage(q sqlkit.Querier, k graph.Key, p *graph.FindParams, after string, size int) (rows []graphdriver.EntityRow, err error) {
	read := func(text string, args ...any) {
		if err == nil {
			err = q.Query(text, func(r sqlkit.Row) error {
				rows = append(rows, scanEntity(r))
				return nil
			}, append([]any{k.Owner, k.Graph}, args...)...)
		}
	}
	cut := func() {
		slices.SortFunc(rows, func(a, b graphdriver.EntityRow) int { return strings.Compare(a.ID, b.ID) })
		rows = rows[:min(len(rows), size)]
	}
	text, of := sqlEntitiesAfter, []string(nil)
	switch {
	case len(p.Names) > 0:
		text, of = sqlEntitiesNamed, distinct(p.Names)
	case len(p.Labels) > 0:
		text, of = sqlEntitiesLabel, distinct(p.Labels)
	default:
		read(text, after, size)
		return rows, err
	}
	if len(p.Names) > 0 {
		if read(sqlEntitiesNames, of, after, maxNamed); err != nil || len(rows) < maxNamed {
			cut()
			return rows, err
		}
		rows = nil
	}
	for _, value := range of {
		read(text, after, size, value)
		cut()
	}
	return rows, err
}

// distinct returns each of some texts once.
func distinct(texts []string) []string {
	texts = slices.Clone(texts)
	slices.Sort(texts)
	return slices.Compact(texts)
}

// FindRelationships implements graph.Reader.
func (g *Graphs) FindRelationships(ctx context.Context, k graph.Key, p graph.FindRelationshipParams) (all []graph.Relationship, err error) {
	if k, p, err = graphdriver.CheckFindRelationships(k, p); err != nil {
		return nil, err
	}
	moment, size := momentArgs(p.Moment, g.now()), findBatch(p.Limit, !p.Filter.IsZero())
	err = g.db.Read(ctx, func(q sqlkit.Querier) error {
		all = nil
		text, after := sqlEdgesAfter, p.After
		for {
			rows := 0
			args := append(append([]any{k.Owner, k.Graph, after}, moment...), size)
			if len(p.Types) > 0 {
				text, args = sqlEdgesAfterType, append(args, p.Types)
			}
			err := q.Query(text, func(r sqlkit.Row) error {
				rows++
				row := scanVersion(r)
				after = row.ID
				if e := row.Copy(); len(all) < p.Limit && p.Filter.Match(e.Properties) {
					all = append(all, e)
				}
				return nil
			}, args...)
			if err != nil || rows < size || len(all) == p.Limit {
				return err
			}
		}
	})
	return all, err
}

// History implements graph.Historian.
func (g *Graphs) History(ctx context.Context, k graph.Key, id string) (all []graph.Relationship, err error) {
	if k, err = graphdriver.CheckIDs(k, id); err != nil {
		return nil, err
	}
	err = g.db.Read(ctx, func(q sqlkit.Querier) error {
		all = nil
		return q.Query(sqlEdgeHistory, func(r sqlkit.Row) error {
			row := scanVersion(r)
			all = append(all, row.Copy())
			return nil
		}, k.Owner, k.Graph, id)
	})
	if err == nil && len(all) == 0 {
		err = graph.ErrRelationshipNotFound
	}
	return all, err
}
