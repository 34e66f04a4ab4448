package inmem

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/backend/internal/graphwalk"
	"github.com/holdfast-dev/holdfast/store/graph"
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

// Neighbors implements graph.Reader.
func (s *graphStore) Neighbors(ctx context.Context, k graph.Key, p graph.NeighborParams) (graph.SubGraph, error) {
	k, p, err := p.Check(k)
	if err != nil {
		return graph.SubGraph{}, err
	}
	return graphwalk.Neighbors(&graphWalk{ctx, s, k, &p.Walk, s.now()}, p)
}

// ShortestPath implements graph.Reader.
func (s *graphStore) ShortestPath(ctx context.Context, k graph.Key, p graph.PathParams) (graph.Path, error) {
	k, p, err := p.Check(k)
	if err != nil {
		return graph.Path{}, err
	}
	return graphwalk.ShortestPath(&graphWalk{ctx, s, k, &p.Walk, s.now()}, p)
}

// graphWalk implements graphwalk.Graph. It locks the database for each level only.
type graphWalk struct {
	ctx context.Context
	s   *graphStore
	key graph.Key
	w   *graph.Walk
	now time.Time
}

// Edges implements graphwalk.Graph.
func (x *graphWalk) Edges(q graphwalk.EdgeQuery, each func(r *graph.RelationshipRow)) error {
	return x.s.readGraph(x.ctx, x.key, func(g *graphData) {
		if g == nil {
			return
		}
		if !q.Sorted {
			rows := 0
			x.visit(g, q, func(r *graph.RelationshipRow) bool {
				each(r)
				rows++
				return rows < q.Limit
			})
			return
		}
		var all []*graph.RelationshipRow
		x.visit(g, q, func(r *graph.RelationshipRow) bool {
			if r.ID > q.After {
				all = append(all, r)
			}
			return true
		})
		slices.SortFunc(all, func(a, b *graph.RelationshipRow) int { return strings.Compare(a.ID, b.ID) })
		for _, r := range all[:min(len(all), q.Limit)] {
			each(r)
		}
	})
}

// visit calls f with the selected versions of relationships until it returns false.
func (x *graphWalk) visit(g *graphData, q graphwalk.EdgeQuery, f func(r *graph.RelationshipRow) bool) {
	for _, id := range q.IDs {
		var edges []*edge
		switch n := g.entities[id]; {
		case q.Side == graphwalk.ByID:
			if e := g.relationships[id]; e != nil {
				edges = []*edge{e}
			}
		case n == nil:
		case q.Side == graphwalk.Source:
			edges = n.out
		default:
			edges = n.in
		}
		for _, e := range edges {
			if r := e.selected(x.w.Moment, x.now); r != nil && (len(x.w.Types) == 0 || slices.Contains(x.w.Types, r.Type)) && !f(r) {
				return
			}
		}
	}
}

// selected returns the version that a moment selects, or nil.
func (e *edge) selected(m graph.Moment, now time.Time) *graph.RelationshipRow {
	for i := len(e.versions) - 1; i >= 0; i-- {
		if r := &e.versions[i]; m.Selects(&r.Relationship, now) {
			return r
		}
	}
	return nil
}

// Entities implements graphwalk.Graph.
func (x *graphWalk) Entities(ids []string, each func(r *graph.EntityRow)) error {
	return x.s.readGraph(x.ctx, x.key, func(g *graphData) {
		for _, id := range ids {
			if n := g.entity(id); n != nil {
				each(&n.EntityRow)
			}
		}
	})
}

// Entities implements graph.Reader.
func (s *graphStore) Entities(ctx context.Context, k graph.Key, ids []string) (all []graph.Entity, err error) {
	if k, err = graph.CheckIDs(k, ids...); err != nil {
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
	if k, err = graph.CheckIDs(k, ids...); err != nil {
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
	if k, p, err = p.Check(k); err != nil {
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
		for e := range g.entityIDs.ascend(&entry[*entityNode]{0, &entityNode{EntityRow: graph.EntityRow{ID: p.After}}}) {
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
	if k, p, err = p.Check(k); err != nil {
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
	if k, err = graph.CheckIDs(k, id); err != nil {
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
