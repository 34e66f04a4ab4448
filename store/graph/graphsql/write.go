package graphsql

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/graphdriver"
)

// AddEntities implements graph.Writer.
func (g *Graphs) AddEntities(ctx context.Context, k graph.Key, entities []graph.Entity) ([]string, error) {
	result, err := g.Write(ctx, k, graph.Batch{Entities: entities})
	return result.Entities, err
}

// AddRelationships implements graph.Writer.
func (g *Graphs) AddRelationships(ctx context.Context, k graph.Key, relationships []graph.Relationship) ([]string, error) {
	result, err := g.Write(ctx, k, graph.Batch{Relationships: relationships})
	return result.Relationships, err
}

// DeleteEntity implements graph.Writer.
func (g *Graphs) DeleteEntity(ctx context.Context, k graph.Key, id string) (bool, error) {
	result, err := g.Write(ctx, k, graph.Batch{DeleteEntities: []string{id}})
	return result.DeletedEntities > 0, err
}

// DeleteRelationship implements graph.Writer.
func (g *Graphs) DeleteRelationship(ctx context.Context, k graph.Key, id string) (bool, error) {
	result, err := g.Write(ctx, k, graph.Batch{DeleteRelationships: []string{id}})
	return result.DeletedRelationships > 0, err
}

// Write implements graph.Writer.
func (g *Graphs) Write(ctx context.Context, k graph.Key, b graph.Batch) (result graph.Result, err error) {
	w, err := graphdriver.NewWrite(k, b, g.now())
	if err != nil {
		return result, err
	}
	err = g.db.Write(ctx, func(tx sqlkit.Tx) (err error) {
		result, err = applyGraph(tx, w)
		return err
	})
	if err != nil {
		return graph.Result{}, err
	}
	return result, nil
}

// WriteEffect implements graph.Transactional.
func (g *Graphs) WriteEffect(k graph.Key, b graph.Batch) (store.Effect, error) {
	w, err := graphdriver.NewWrite(k, b, g.now())
	if err != nil {
		return nil, err
	}
	return sqlkit.NewEffect(g.db, func(tx sqlkit.Tx) error {
		_, err := applyGraph(tx, w)
		return err
	}), nil
}

// lockGraph locks the row of a graph, and creates it if needed: alone, or together with other writes
// that delete nothing.
func lockGraph(tx sqlkit.Tx, k graph.Key, alone bool) error {
	text := sqlLockGraph
	if alone {
		text = sqlLockGraphAlone
	}
	for {
		found, err := sqlkit.QueryOne(tx, text, func(sqlkit.Row) {}, k.Owner, k.Graph)
		if err != nil || found {
			return err
		}
		if _, err := tx.Exec(sqlAddGraph, k.Owner, k.Graph); err != nil {
			return err
		}
	}
}

// applyGraph applies a write. Statements write rows in the order of their ids, so that concurrent
// writes wait for each other in one order.
func applyGraph(tx sqlkit.Tx, w *graphdriver.Write) (result graph.Result, err error) {
	result = w.Result()
	if err := lockGraph(tx, w.Key, len(w.DeleteEntities)+len(w.DeleteRelationships) > 0); err != nil {
		return result, err
	}
	if len(w.DeleteRelationships) > 0 {
		if result.DeletedRelationships, err = deleteEdges(tx, sqlDeleteEdge, w.Key, w.DeleteRelationships...); err != nil {
			return result, err
		}
	}
	if len(w.DeleteEntities) > 0 {
		entities, edges, err := deleteEntities(tx, w.Key, w.DeleteEntities)
		if err != nil {
			return result, err
		}
		result.DeletedEntities = entities
		result.DeletedRelationships += edges
	}
	if err := saveEntities(tx, w.Key, w.Entities); err != nil {
		return result, err
	}
	return result, changeEdges(tx, w)
}

// deleteEdges removes relationships with a statement for each id, and returns their number.
func deleteEdges(tx sqlkit.Tx, text string, k graph.Key, ids ...string) (removed int, err error) {
	for _, id := range ids {
		n, err := tx.Exec(text+newest, k.Owner, k.Graph, id)
		if err == nil {
			_, err = tx.Exec(text, k.Owner, k.Graph, id)
		}
		if removed += int(n); err != nil {
			return 0, err
		}
	}
	return removed, nil
}

// deleteEntities removes entities with their relationships. The caller has locked the graph alone.
func deleteEntities(tx sqlkit.Tx, k graph.Key, ids []string) (entities, edges int, err error) {
	for _, text := range []string{sqlDeleteBySource, sqlDeleteByTarget} {
		n, err := deleteEdges(tx, text, k, ids...)
		if err != nil {
			return 0, 0, err
		}
		edges += n
	}
	for _, id := range ids {
		n, err := tx.Exec(sqlDeleteEntity, k.Owner, k.Graph, id)
		if err != nil {
			return 0, 0, err
		}
		entities += int(n)
	}
	return entities, edges, nil
}

func saveEntities(tx sqlkit.Tx, k graph.Key, rows []graphdriver.EntityRow) error {
	if len(rows) == 0 {
		return nil
	}
	values := make([][]string, len(rows))
	for i, r := range rows {
		values[i] = []string{r.ID, r.Label, r.Name, r.Properties}
	}
	_, err := tx.Exec(sqlSaveEntities, k.Owner, k.Graph, jsonRows(values))
	return err
}

// jsonRows returns rows as an array of arrays, in the order of their first values.
func jsonRows(rows [][]string) string {
	slices.SortFunc(rows, slices.Compare[[]string])
	text, _ := json.Marshal(rows) // texts are UTF-8
	return string(text)
}

// addEdges adds versions and returns the ids of those that did not exist.
func addEdges(tx sqlkit.Tx, k graph.Key, rows []graphdriver.RelationshipRow) (added map[string]bool, err error) {
	values := make([][]string, len(rows))
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	for i, r := range rows {
		values[i] = []string{
			r.ID, r.Source, r.Target, r.Type, r.Properties, number(r.Version),
			number(sqlkit.LowerBound(r.ValidFrom)), number(sqlkit.UpperBound(r.ValidTo)), number(r.RecordedAt.UnixMilli()), number(sqlkit.UpperBound(r.ReplacedAt)),
		}
	}
	added = make(map[string]bool)
	err = tx.Query(sqlAddEdges, func(r sqlkit.Row) error {
		added[r.Text(0)] = true
		return nil
	}, k.Owner, k.Graph, jsonRows(values))
	return added, err
}

// edgeChange is a relationship to end or to add. field is its part of the write.
type edgeChange struct {
	id, field string
	end       *graph.End // nil to add row
	row       graphdriver.RelationshipRow
}

// changeEdges ends and adds relationships. A concurrent write may add the same relationship after it was
// not found: then the change is made again.
func changeEdges(tx sqlkit.Tx, w *graphdriver.Write) error {
	var pending []edgeChange
	for i := range w.Ends {
		pending = append(pending, edgeChange{id: w.Ends[i].ID, end: &w.Ends[i]})
	}
	for i, r := range w.Relationships {
		pending = append(pending, edgeChange{id: r.ID, field: fmt.Sprintf("relationships[%d]", i), row: r})
	}
	for range sqlkit.MaxConflicts {
		if len(pending) == 0 {
			return nil
		}
		var err error
		if pending, err = tryChanges(tx, w, pending); err != nil {
			return err
		}
	}
	return store.ErrConflict
}

// tryChanges makes changes and returns those that conflict with another write.
func tryChanges(tx sqlkit.Tx, w *graphdriver.Write, changes []edgeChange) (conflicts []edgeChange, err error) {
	ids := make([]string, len(changes))
	for i := range changes {
		ids[i] = changes[i].id
	}
	slices.Sort(ids) // the order of locks
	locked := make(map[string]bool, len(ids))
	err = tx.Query(sqlLockEdges, func(r sqlkit.Row) error {
		locked[r.Text(0)] = true
		return nil
	}, w.Key.Owner, w.Key.Graph, ids)
	if err != nil {
		return nil, err
	}
	old, err := newestVersions(tx, w.Key, ids)
	if err != nil {
		return nil, err
	}
	missing, err := missingEnds(tx, w.Key, changes, old)
	if err != nil {
		return nil, err
	}
	var replaced, rows []graphdriver.RelationshipRow
	for i := range changes {
		c := &changes[i]
		before, exists := old[c.id]
		if exists && !locked[c.id] { // another write has added it in the meantime
			conflicts = append(conflicts, *c)
			continue
		}
		next, changed, err := c.next(before, exists, missing, w)
		if err != nil {
			return nil, err
		}
		if changed {
			rows = append(rows, next)
			if exists {
				before.ReplacedAt = next.RecordedAt
				replaced = append(replaced, before)
			}
		}
	}
	slices.SortFunc(replaced, func(a, b graphdriver.RelationshipRow) int { return strings.Compare(a.ID, b.ID) })
	for _, r := range replaced {
		if _, err := tx.Exec(sqlReplaceEdge, w.Key.Owner, w.Key.Graph, r.ID, r.Version, r.ReplacedAt.UnixMilli()); err != nil {
			return nil, err
		}
	}
	if len(rows) == 0 {
		return conflicts, nil
	}
	added, err := addEdges(tx, w.Key, rows)
	for i := range changes {
		if c := &changes[i]; !added[c.id] && slices.ContainsFunc(rows, func(r graphdriver.RelationshipRow) bool { return r.ID == c.id }) {
			conflicts = append(conflicts, *c)
		}
	}
	return conflicts, err
}

// next returns the version that a change adds after the newest one.
func (c *edgeChange) next(old graphdriver.RelationshipRow, exists bool, missing map[string]bool, w *graphdriver.Write) (next graphdriver.RelationshipRow, changed bool, err error) {
	switch {
	case c.end != nil && !exists:
		return next, false, fmt.Errorf("%w: %.64q", graph.ErrRelationshipNotFound, c.id)
	case c.end != nil:
		return graphdriver.Ended(old, *c.end, w.Now)
	case exists:
		return graphdriver.NextVersion(old, c.row)
	case missing[c.row.Source]:
		return next, false, &graph.EndpointError{Field: c.field + ".source", Entity: c.row.Source}
	case missing[c.row.Target]:
		return next, false, &graph.EndpointError{Field: c.field + ".target", Entity: c.row.Target}
	}
	return c.row, true, nil
}

// missingEnds returns the ends of new relationships that do not exist. No other write deletes entities
// while the graph is locked.
func missingEnds(tx sqlkit.Tx, k graph.Key, changes []edgeChange, old map[string]graphdriver.RelationshipRow) (map[string]bool, error) {
	missing := make(map[string]bool)
	for i := range changes {
		if _, exists := old[changes[i].id]; !exists && changes[i].end == nil {
			missing[changes[i].row.Source], missing[changes[i].row.Target] = true, true
		}
	}
	if len(missing) == 0 {
		return missing, nil
	}
	err := entitiesOf(tx, k, slices.Sorted(maps.Keys(missing)), func(r *graphdriver.EntityRow) { delete(missing, r.ID) })
	return missing, err
}
