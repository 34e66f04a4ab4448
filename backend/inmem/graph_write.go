package inmem

import (
	"context"
	"fmt"

	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/graphdriver"
)

// AddEntities implements graph.Writer.
func (s *graphStore) AddEntities(ctx context.Context, k graph.Key, entities []graph.Entity) ([]string, error) {
	result, err := s.Write(ctx, k, graph.Batch{Entities: entities})
	return result.Entities, err
}

// AddRelationships implements graph.Writer.
func (s *graphStore) AddRelationships(ctx context.Context, k graph.Key, relationships []graph.Relationship) ([]string, error) {
	result, err := s.Write(ctx, k, graph.Batch{Relationships: relationships})
	return result.Relationships, err
}

// DeleteEntity implements graph.Writer.
func (s *graphStore) DeleteEntity(ctx context.Context, k graph.Key, id string) (bool, error) {
	result, err := s.Write(ctx, k, graph.Batch{DeleteEntities: []string{id}})
	return result.DeletedEntities > 0, err
}

// DeleteRelationship implements graph.Writer.
func (s *graphStore) DeleteRelationship(ctx context.Context, k graph.Key, id string) (bool, error) {
	result, err := s.Write(ctx, k, graph.Batch{DeleteRelationships: []string{id}})
	return result.DeletedRelationships > 0, err
}

// Write implements graph.Writer.
func (s *graphStore) Write(ctx context.Context, k graph.Key, b graph.Batch) (result graph.Result, err error) {
	w, err := graphdriver.NewWrite(k, b, s.now())
	if err != nil {
		return result, err
	}
	err = s.changeGraph(ctx, w.Key, func(c *graphChange) (err error) {
		result, err = c.apply(w)
		return err
	})
	if err != nil {
		return graph.Result{}, err
	}
	return result, nil
}

// apply applies a write. The caller reverts a change that fails.
func (c *graphChange) apply(w *graphdriver.Write) (result graph.Result, err error) {
	result = w.Result()
	for _, id := range w.DeleteRelationships {
		if e := c.data().edge(id); e != nil {
			c.deleteEdge(e)
			result.DeletedRelationships++
		}
	}
	for _, id := range w.DeleteEntities {
		if n := c.data().entity(id); n != nil {
			result.DeletedRelationships += c.deleteEntity(n)
			result.DeletedEntities++
		}
	}
	for _, end := range w.Ends {
		e := c.data().edge(end.ID)
		if e == nil {
			return result, fmt.Errorf("%w: %.64q", graph.ErrRelationshipNotFound, end.ID)
		}
		next, changed, err := graphdriver.Ended(*e.head(), end, w.Now)
		if err != nil {
			return result, err
		}
		if changed {
			c.addVersion(e, next)
		}
	}
	for _, row := range w.Entities {
		c.putEntity(row)
	}
	for i, row := range w.Relationships {
		if err := c.putEdge(fmt.Sprintf("relationships[%d]", i), row); err != nil {
			return result, err
		}
	}
	return result, nil
}

// putEdge adds a relationship, or a version of it.
func (c *graphChange) putEdge(field string, row graphdriver.RelationshipRow) error {
	e := c.data().edge(row.ID)
	if e == nil {
		return c.addEdge(field, row)
	}
	next, changed, err := graphdriver.NextVersion(*e.head(), row)
	if err == nil && changed {
		c.addVersion(e, next)
	}
	return err
}
