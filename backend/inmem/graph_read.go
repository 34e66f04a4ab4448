package inmem

import (
	"context"
	"maps"
	"slices"

	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/graphdriver"
)

// readGraph runs f with a graph, which may be nil, under the lock of the database.
func (s *graphStore) readGraph(ctx context.Context, k graph.Key, f func(g *graphData)) error {
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return err
	}
	f(s.graphs[k])
	return nil
}

// Entities implements graph.Reader.
func (s *graphStore) Entities(ctx context.Context, k graph.Key, ids []string) (all []graph.Entity, err error) {
	if k, err = graphdriver.CheckIDs(k, ids...); err != nil {
		return nil, err
	}
	err = s.readGraph(ctx, k, func(g *graphData) {
		for _, id := range ids {
			if n := g.entity(id); n != nil {
				all = append(all, n.Entity())
			}
		}
	})
	return all, err
}

// Relationships implements graph.Reader.
func (s *graphStore) Relationships(ctx context.Context, k graph.Key, ids []string) (all []graph.Relationship, err error) {
	if k, err = graphdriver.CheckIDs(k, ids...); err != nil {
		return nil, err
	}
	err = s.readGraph(ctx, k, func(g *graphData) {
		for _, id := range ids {
			if e := g.edge(id); e != nil {
				all = append(all, e.head().Copy())
			}
		}
	})
	return all, err
}

// FindEntities implements graph.Reader.
func (s *graphStore) FindEntities(ctx context.Context, k graph.Key, p graph.FindParams) (all []graph.Entity, err error) {
	if k, p, err = graphdriver.CheckFind(k, p); err != nil {
		return nil, err
	}
	err = s.readGraph(ctx, k, func(g *graphData) {
		if g == nil {
			return
		}
		g.find(p, func(n *entityNode) bool {
			if n.ID > p.After && (len(p.Labels) == 0 || slices.Contains(p.Labels, n.Label)) {
				if e := n.Entity(); p.Filter.Match(e.Properties) {
					all = append(all, e)
				}
			}
			return len(all) < p.Limit
		})
	})
	return all, err
}

// find calls f with entities by id until it returns false.
func (g *graphData) find(p graph.FindParams, f func(n *entityNode) bool) {
	if len(p.Names) == 0 {
		for e := range g.entityIDs.ascend(&entry[*entityNode]{0, &entityNode{EntityRow: graphdriver.EntityRow{ID: p.After}}}) {
			if !f(e.rec) {
				return
			}
		}
		return
	}
	named := make(map[string]*entityNode)
	for _, name := range p.Names {
		maps.Copy(named, g.byName[name])
	}
	for _, id := range slices.Sorted(maps.Keys(named)) {
		if !f(named[id]) {
			return
		}
	}
}

// FindRelationships implements graph.Reader.
func (s *graphStore) FindRelationships(ctx context.Context, k graph.Key, p graph.FindRelationshipParams) (all []graph.Relationship, err error) {
	if k, p, err = graphdriver.CheckFindRelationships(k, p); err != nil {
		return nil, err
	}
	now := s.now()
	err = s.readGraph(ctx, k, func(g *graphData) {
		if g == nil {
			return
		}
		for e := range g.edgeIDs.ascend(&entry[*edge]{0, &edge{id: p.After}}) {
			r := e.rec.selected(p.Moment, now)
			if r == nil || r.ID <= p.After || len(p.Types) > 0 && !slices.Contains(p.Types, r.Type) {
				continue
			}
			if c := r.Copy(); p.Filter.Match(c.Properties) {
				all = append(all, c)
			}
			if len(all) == p.Limit {
				return
			}
		}
	})
	return all, err
}

// History implements graph.Historian.
func (s *graphStore) History(ctx context.Context, k graph.Key, id string) (all []graph.Relationship, err error) {
	if k, err = graphdriver.CheckIDs(k, id); err != nil {
		return nil, err
	}
	err = s.readGraph(ctx, k, func(g *graphData) {
		if e := g.edge(id); e != nil {
			for i := range e.versions {
				all = append(all, e.versions[i].Copy())
			}
		}
	})
	if err == nil && all == nil {
		err = graph.ErrRelationshipNotFound
	}
	return all, err
}
