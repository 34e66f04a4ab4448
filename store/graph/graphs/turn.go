package graphs

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/internal/jsonobject"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/graphdriver"
)

// Graph is a graph of a turn's owner: entities, and relationships between them; see package graph.
// Tasks of the owner share it in all contexts and agents.
//
// A write is committed with the next commit of the turn, at the latest with its end: after a crash,
// a cancel or a lost lease, either all of it exists or nothing. Reads find what the turn has written; they
// commit it first, as do writes with relationships. Every attempt must make the same calls in the same
// order.
//
// If graphs are not in the agent's database, a write is made at once, and a repeated attempt makes it
// again with the same ids: then it changes nothing, if each [graph.End] has a time.
type Graph struct {
	t    contract.Turn
	name string
}

// For returns a graph of a turn's owner; "" is [graph.DefaultGraph]. The first write creates it.
func For(t contract.Turn, name string) *Graph { return &Graph{t, name} }

func (g *Graph) key() graph.Key { return graph.Key{Owner: g.t.Session().Owner, Graph: g.name} }

// store returns the agent's graphs. It also returns the graphs of the agent's own store, if they can
// be written with the task.
func (g *Graph) store() (graph.Store, graph.Transactional, error) {
	return contract.ForTurn[graph.Store, graph.Transactional](g.t, Kind)
}

// Write applies a batch and returns the ids of its entities and relationships. It returns the errors of
// [graph.Writer]. If another task deletes an end of a relationship before the commit, or adds one
// with the same id, the turn fails. Entities and relationships without an id get one that is the same
// in each attempt.
func (g *Graph) Write(ctx context.Context, b graph.Batch) (entities, relationships []string, err error) {
	s, own, err := g.store()
	if err != nil {
		return nil, nil, err
	}
	var ids struct{ Entities, Relationships []string }
	prepare := func(once string) graph.Batch {
		b := withIDs(b, once)
		ids.Entities, ids.Relationships = nil, nil
		for i := range b.Entities {
			ids.Entities = append(ids.Entities, b.Entities[i].ID)
		}
		for i := range b.Relationships {
			ids.Relationships = append(ids.Relationships, b.Relationships[i].ID)
		}
		return b
	}
	call := contract.Call{Op: "graph.write", Args: []any{g.name, b}, Result: &ids, After: len(b.Relationships)+len(b.Ends) > 0}
	if own != nil {
		call.Effect = func(ctx context.Context, once string) (store.Effect, int, error) {
			b := prepare(once)
			e, err := own.WriteEffect(g.key(), b)
			if err == nil && call.After {
				err = checkBatch(ctx, s, g.key(), &b, g.t.Now())
			}
			return e, batchSize(&b), err
		}
	} else {
		call.Direct = func(ctx context.Context, once string) error {
			_, err := s.Write(ctx, g.key(), prepare(once))
			return err
		}
	}
	if err := g.t.Call(ctx, call); err != nil {
		return nil, nil, err
	}
	return ids.Entities, ids.Relationships, nil
}

// withIDs returns a batch in which all entities and relationships have ids.
func withIDs(b graph.Batch, once string) graph.Batch {
	b.Entities, b.Relationships = slices.Clone(b.Entities), slices.Clone(b.Relationships)
	for i := range b.Entities {
		if b.Entities[i].ID == "" {
			b.Entities[i].ID = fmt.Sprint(once, "/e", i)
		}
	}
	for i := range b.Relationships {
		if b.Relationships[i].ID == "" {
			b.Relationships[i].ID = fmt.Sprint(once, "/r", i)
		}
	}
	return b
}

// batchSize returns the approximate size of a batch in bytes.
func batchSize(b *graph.Batch) (size int) {
	for _, all := range []any{b.Entities, b.Relationships} {
		text, _ := json.Marshal(all) // they were checked
		size += len(text)
	}
	return size
}

// checkBatch returns an error if the relationships of a batch do not fit the graph.
func checkBatch(ctx context.Context, s graph.Store, k graph.Key, b *graph.Batch, now time.Time) error {
	exists, ends := make(map[string]bool), make(map[string]bool)
	for i := range b.Relationships {
		ends[b.Relationships[i].Source], ends[b.Relationships[i].Target] = true, true
	}
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(ends)), graph.MaxIDs) {
		found, err := s.Entities(ctx, k, ids)
		if err != nil {
			return err
		}
		for i := range found {
			exists[found[i].ID] = !slices.Contains(b.DeleteEntities, found[i].ID)
		}
	}
	for i := range b.Entities {
		exists[b.Entities[i].ID] = true
	}
	known := make(map[string]graph.Relationship)
	names := make([]string, 0, len(b.Ends)+len(b.Relationships))
	for _, e := range b.Ends {
		names = append(names, e.ID)
	}
	for i := range b.Relationships {
		names = append(names, b.Relationships[i].ID)
	}
	for ids := range slices.Chunk(names, graph.MaxIDs) {
		found, err := s.Relationships(ctx, k, ids)
		if err != nil {
			return err
		}
		for _, r := range found {
			if deleted := slices.Contains(b.DeleteEntities, r.Source) || slices.Contains(b.DeleteEntities, r.Target) || slices.Contains(b.DeleteRelationships, r.ID); !deleted {
				known[r.ID] = r
			}
		}
	}
	return checkRelationships(b, exists, known, now)
}

// checkRelationships compares the relationships of a batch with the graph.
func checkRelationships(b *graph.Batch, exists map[string]bool, known map[string]graph.Relationship, now time.Time) error {
	for _, e := range b.Ends {
		old, ok := known[e.ID]
		if !ok {
			return fmt.Errorf("%w: %.64q", graph.ErrRelationshipNotFound, e.ID)
		}
		if e.At.IsZero() {
			e.At = now
		}
		e.At = store.Time(e.At)
		if _, _, err := graphdriver.Ended(graphdriver.RelationshipRow{Relationship: old}, e, e.At); err != nil {
			return err
		}
	}
	for i, r := range b.Relationships {
		if old, ok := known[r.ID]; ok {
			if _, _, err := graphdriver.NextVersion(graphdriver.RelationshipRow{Relationship: old}, graphdriver.RelationshipRow{Relationship: r}); err != nil {
				return err
			}
			continue
		}
		for _, end := range []struct{ field, id string }{{"source", r.Source}, {"target", r.Target}} {
			if !exists[end.id] {
				return &graph.EndpointError{Field: fmt.Sprintf("relationships[%d].%s", i, end.field), Entity: end.id}
			}
		}
	}
	return nil
}

// Delete removes entities with their relationships. An entity that does not exist is no error.
func (g *Graph) Delete(ctx context.Context, ids ...string) error {
	_, _, err := g.Write(ctx, graph.Batch{DeleteEntities: ids})
	return err
}

// storedGraph is the result of a read. JSON would change the numbers of properties.
type storedGraph struct {
	Entities      []storedEntity       `json:",omitempty"`
	Relationships []storedRelationship `json:",omitempty"`
	Truncated     bool                 `json:",omitempty"`
}

type storedEntity struct {
	graph.Neighbor
	Properties json.RawMessage
}

type storedRelationship struct {
	graph.Relationship
	Properties json.RawMessage
}

func (s *storedGraph) addEntity(e graph.Entity, distance int) error {
	properties, err := json.Marshal(e.Properties)
	e.Properties = nil
	s.Entities = append(s.Entities, storedEntity{graph.Neighbor{Entity: e, Distance: distance}, properties})
	return err
}

func (s *storedGraph) addRelationships(all []graph.Relationship) error {
	for _, r := range all {
		properties, err := json.Marshal(r.Properties)
		if err != nil {
			return err
		}
		r.Properties = nil
		s.Relationships = append(s.Relationships, storedRelationship{r, properties})
	}
	return nil
}

func (s *storedGraph) neighbors() (all []graph.Neighbor) {
	for _, e := range s.Entities {
		e.Neighbor.Properties = jsonobject.Decode(string(e.Properties))
		all = append(all, e.Neighbor)
	}
	return all
}

func (s *storedGraph) entities() (all []graph.Entity) {
	for _, n := range s.neighbors() {
		all = append(all, n.Entity)
	}
	return all
}

func (s *storedGraph) relationships() (all []graph.Relationship) {
	for _, r := range s.Relationships {
		r.Relationship.Properties = jsonobject.Decode(string(r.Properties))
		all = append(all, r.Relationship)
	}
	return all
}

// query reads the graph, or returns what an earlier attempt has read.
func (g *Graph) query(ctx context.Context, op string, read func(ctx context.Context, s graph.Store, result *storedGraph) error) (result storedGraph, err error) {
	err = g.Read(ctx, op, &result, func(ctx context.Context, s graph.Store, _ graph.Key) error {
		result = storedGraph{}
		return read(ctx, s, &result)
	})
	return result, err
}

// Read calls read with the agent's store and the key of the graph, for packages that read graphs in other ways, such as
// package cypher. read finds what the turn has written, and sets the value that result points to. That value is recorded
// as JSON with the name op: a later attempt of the turn gets the same one.
func (g *Graph) Read(ctx context.Context, op string, result any, read func(ctx context.Context, s graph.Store, k graph.Key) error) error {
	s, _, err := g.store()
	if err != nil {
		return err
	}
	return g.t.Call(ctx, contract.Call{Op: "graph." + op, Result: result, Read: func(ctx context.Context) error { return read(ctx, s, g.key()) }})
}

// addEntities adds the result of a read.
func (s *storedGraph) addEntities(all []graph.Entity, err error) error {
	for i := 0; i < len(all) && err == nil; i++ {
		err = s.addEntity(all[i], 0)
	}
	return err
}

// Neighbors returns entities up to a distance, with the relationships to them; see [graph.Reader].
func (g *Graph) Neighbors(ctx context.Context, p graph.NeighborParams) (graph.SubGraph, error) {
	r, err := g.query(ctx, "neighbors", func(ctx context.Context, s graph.Store, result *storedGraph) error {
		found, err := s.Neighbors(ctx, g.key(), p)
		for i := 0; i < len(found.Entities) && err == nil; i++ {
			err = result.addEntity(found.Entities[i].Entity, found.Entities[i].Distance)
		}
		result.Truncated = found.Truncated
		if err != nil {
			return err
		}
		return result.addRelationships(found.Relationships)
	})
	return graph.SubGraph{Entities: r.neighbors(), Relationships: r.relationships(), Truncated: r.Truncated}, err
}

// ShortestPath returns a path with the fewest relationships; see [graph.Reader].
func (g *Graph) ShortestPath(ctx context.Context, p graph.PathParams) (graph.Path, error) {
	r, err := g.query(ctx, "path", func(ctx context.Context, s graph.Store, result *storedGraph) error {
		found, err := s.ShortestPath(ctx, g.key(), p)
		result.Truncated = found.Truncated
		if err = result.addEntities(found.Entities, err); err != nil {
			return err
		}
		return result.addRelationships(found.Relationships)
	})
	return graph.Path{Entities: r.entities(), Relationships: r.relationships(), Truncated: r.Truncated}, err
}

// Entities returns the entities with the given ids that exist, in the order of ids.
func (g *Graph) Entities(ctx context.Context, ids ...string) ([]graph.Entity, error) {
	r, err := g.query(ctx, "entities", func(ctx context.Context, s graph.Store, result *storedGraph) error {
		return result.addEntities(s.Entities(ctx, g.key(), ids))
	})
	return r.entities(), err
}

// FindEntities returns entities by id; see [graph.FindParams].
func (g *Graph) FindEntities(ctx context.Context, p graph.FindParams) ([]graph.Entity, error) {
	r, err := g.query(ctx, "find", func(ctx context.Context, s graph.Store, result *storedGraph) error {
		return result.addEntities(s.FindEntities(ctx, g.key(), p))
	})
	return r.entities(), err
}

// FindRelationships returns relationships by id; see [graph.FindRelationshipParams].
func (g *Graph) FindRelationships(ctx context.Context, p graph.FindRelationshipParams) ([]graph.Relationship, error) {
	r, err := g.query(ctx, "findRelationships", func(ctx context.Context, s graph.Store, result *storedGraph) error {
		found, err := s.FindRelationships(ctx, g.key(), p)
		if err != nil {
			return err
		}
		return result.addRelationships(found)
	})
	return r.relationships(), err
}
