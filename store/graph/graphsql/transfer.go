package graphsql

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/graphdriver"
)

// Graphs implements graph.Lister.
func (g *Graphs) Graphs(ctx context.Context, p graph.ListParams) (all []graph.Info, err error) {
	if p, err = graphdriver.CheckList(p); err != nil {
		return nil, err
	}
	err = g.db.Read(ctx, func(q sqlkit.Querier) error {
		all = nil
		for after := p.After; ; {
			var names []string
			err := q.Query(sqlGraphs, func(r sqlkit.Row) error {
				names = append(names, r.Text(0))
				return nil
			}, p.Owner, after, p.Limit)
			if err != nil {
				return err
			}
			for _, name := range names {
				after = name
				info, err := graphInfo(q, p.Owner, name)
				if err != nil {
					return err
				}
				if info.Entities > 0 {
					all = append(all, info)
				}
				if len(all) == p.Limit {
					return nil
				}
			}
			if len(names) < p.Limit {
				return nil
			}
		}
	})
	return all, err
}

func graphInfo(q sqlkit.Querier, owner, name string) (graph.Info, error) {
	info := graph.Info{Name: name}
	_, err := sqlkit.QueryOne(q, sqlCountEntities, func(r sqlkit.Row) { info.Entities = r.Int(0) }, owner, name)
	if err == nil && info.Entities > 0 {
		_, err = sqlkit.QueryOne(q, sqlCountEdges, func(r sqlkit.Row) { info.Relationships = r.Int(0) }, owner, name)
	}
	return info, err
}

// DeleteGraph implements graph.Forgetter.
func (g *Graphs) DeleteGraph(ctx context.Context, k graph.Key) (report graph.ForgetReport, err error) {
	if k, err = graphdriver.CheckKey(k); err != nil {
		return report, err
	}
	for {
		var batch graph.ForgetReport
		more := false
		err := g.db.Write(ctx, func(tx sqlkit.Tx) (err error) {
			batch, more, err = deleteGraphBatch(tx, k)
			return err
		})
		if err != nil {
			return report, err
		}
		report.Entities += batch.Entities
		report.Relationships += batch.Relationships
		if !more {
			return report, nil
		}
	}
}

// deleteGraphBatch removes a part of a graph: relationships first, then entities, then its row.
func deleteGraphBatch(tx sqlkit.Tx, k graph.Key) (report graph.ForgetReport, more bool, err error) {
	found, err := sqlkit.QueryOne(tx, sqlLockGraphAlone, func(sqlkit.Row) {}, k.Owner, k.Graph)
	if err != nil || !found {
		return report, false, err
	}
	last, err := lastOf(tx, sqlFirstEdges, k)
	if err != nil {
		return report, false, err
	}
	if last != "" {
		report.Relationships, err = deleteEdges(tx, sqlDeleteEdges, k, last)
		return report, true, err
	}
	if last, err = lastOf(tx, sqlFirstEntities, k); err != nil {
		return report, false, err
	}
	if last != "" {
		n, err := tx.Exec(sqlDeleteEntities, k.Owner, k.Graph, last)
		report.Entities = int(n)
		return report, true, err
	}
	_, err = tx.Exec(sqlRemoveGraph, k.Owner, k.Graph)
	return report, false, err
}

// lastOf returns the last of the ids that a batch removes, "" if none exist.
func lastOf(tx sqlkit.Tx, text string, k graph.Key) (last string, err error) {
	err = tx.Query(text, func(r sqlkit.Row) error {
		last = r.Text(0)
		return nil
	}, k.Owner, k.Graph, graph.MaxIDs)
	return last, err
}

// ForgetOwner implements graph.Forgetter.
func (g *Graphs) ForgetOwner(ctx context.Context, owner string) (report graph.ForgetReport, err error) {
	if err := graphdriver.CheckOwner(owner); err != nil {
		return report, err
	}
	for {
		k := graph.Key{Owner: owner}
		err := g.db.Read(ctx, func(q sqlkit.Querier) error {
			_, err := sqlkit.QueryOne(q, sqlFirstGraph, func(r sqlkit.Row) { k.Graph = r.Text(0) }, owner)
			return err
		})
		if err != nil || k.Graph == "" {
			return report, err
		}
		part, err := g.DeleteGraph(ctx, k)
		report.Entities += part.Entities
		report.Relationships += part.Relationships
		if err != nil {
			return report, err
		}
	}
}

// Restore implements graph.Restorer.
func (g *Graphs) Restore(ctx context.Context, k graph.Key, entities []graph.Entity, versions []graph.Relationship) error {
	r, err := graphdriver.NewRestored(k, entities, versions)
	if err != nil {
		return err
	}
	return g.db.Write(ctx, func(tx sqlkit.Tx) error {
		if err := lockGraph(tx, r.Key, true); err != nil {
			return err
		}
		if err := restorable(tx, r); err != nil {
			return err
		}
		if err := saveEntities(tx, r.Key, r.Entities); err != nil {
			return err
		}
		changes := make([]edgeChange, len(r.Relationships))
		for i, rows := range r.Relationships {
			changes[i] = edgeChange{id: rows[0].ID, field: fmt.Sprintf("relationships[%d]", i), row: rows[0]}
		}
		missing, err := missingEnds(tx, r.Key, changes, nil)
		if err != nil {
			return err
		}
		for i := range changes {
			if _, _, err := changes[i].next(graphdriver.RelationshipRow{}, false, missing, nil); err != nil {
				return err
			}
		}
		if len(r.Relationships) > 0 {
			_, err = addEdges(tx, r.Key, slices.Concat(r.Relationships...))
		}
		return err
	})
}

// CanRestore implements graph.Restorer.
func (g *Graphs) CanRestore(ctx context.Context, k graph.Key, entities []graph.Entity, versions []graph.Relationship) error {
	r, err := graphdriver.NewRestored(k, entities, versions)
	if err != nil {
		return err
	}
	return g.db.Read(ctx, func(q sqlkit.Querier) error { return restorable(q, r) })
}

// restorable returns an ExistsError if the graph has one of the ids.
func restorable(q sqlkit.Querier, r *graphdriver.Restored) (err error) {
	var ids []string
	for i := range r.Entities {
		ids = append(ids, r.Entities[i].ID)
	}
	exists := make(map[string]bool)
	if err := entitiesOf(q, r.Key, ids, func(e *graphdriver.EntityRow) { exists[e.ID] = true }); err != nil {
		return err
	}
	for _, id := range ids {
		if exists[id] {
			return &graph.ExistsError{Kind: "entity", ID: id}
		}
	}
	if len(r.Relationships) == 0 {
		return nil
	}
	ids = nil
	for _, rows := range r.Relationships {
		ids = append(ids, rows[0].ID)
	}
	found, err := newestVersions(q, r.Key, ids)
	for _, id := range ids {
		if _, exists := found[id]; exists && err == nil {
			err = &graph.ExistsError{Kind: "relationship", ID: id}
		}
	}
	return err
}
