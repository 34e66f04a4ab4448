package inmem

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/graphdriver"
)

// Graphs implements graph.Lister.
func (s *graphStore) Graphs(ctx context.Context, p graph.ListParams) (all []graph.Info, err error) {
	if p, err = graphdriver.CheckList(p); err != nil {
		return nil, err
	}
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	for k, g := range s.graphs {
		if k.Owner == p.Owner && k.Graph > p.After {
			all = append(all, graph.Info{Name: k.Graph, Entities: int64(len(g.entities)), Relationships: int64(len(g.relationships))})
		}
	}
	slices.SortFunc(all, func(a, b graph.Info) int { return strings.Compare(a.Name, b.Name) })
	return all[:min(len(all), p.Limit)], nil
}

// DeleteGraph implements graph.Forgetter.
func (s *graphStore) DeleteGraph(ctx context.Context, k graph.Key) (graph.ForgetReport, error) {
	k, err := graphdriver.CheckKey(k)
	if err != nil {
		return graph.ForgetReport{}, err
	}
	return s.deleteGraphs(ctx, func(in graph.Key) bool { return in == k })
}

// ForgetOwner implements graph.Forgetter.
func (s *graphStore) ForgetOwner(ctx context.Context, owner string) (graph.ForgetReport, error) {
	if err := graphdriver.CheckOwner(owner); err != nil {
		return graph.ForgetReport{}, err
	}
	return s.deleteGraphs(ctx, func(in graph.Key) bool { return in.Owner == owner })
}

func (s *graphStore) deleteGraphs(ctx context.Context, selected func(graph.Key) bool) (report graph.ForgetReport, err error) {
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return report, err
	}
	for k, g := range s.graphs {
		if selected(k) {
			report.Entities += len(g.entities)
			report.Relationships += len(g.relationships)
			delete(s.graphs, k)
		}
	}
	return report, nil
}

// Restore implements graph.Restorer.
func (s *graphStore) Restore(ctx context.Context, k graph.Key, entities []graph.Entity, versions []graph.Relationship) error {
	r, err := graphdriver.NewRestored(k, entities, versions)
	if err != nil {
		return err
	}
	return s.changeGraph(ctx, r.Key, func(c *graphChange) error {
		if err := c.data().exists(r); err != nil {
			return err
		}
		for _, row := range r.Entities {
			c.putEntity(row)
		}
		for i, rows := range r.Relationships {
			if err := c.addEdge(fmt.Sprintf("relationships[%d]", i), rows...); err != nil {
				return err
			}
		}
		return nil
	})
}

// CanRestore implements graph.Restorer.
func (s *graphStore) CanRestore(ctx context.Context, k graph.Key, entities []graph.Entity, versions []graph.Relationship) error {
	r, err := graphdriver.NewRestored(k, entities, versions)
	if err != nil {
		return err
	}
	var exists error
	err = s.readGraph(ctx, r.Key, func(g *graphData) { exists = g.exists(r) })
	if err != nil {
		return err
	}
	return exists
}

// exists returns an ExistsError if the graph has one of the ids.
func (g *graphData) exists(r *graphdriver.Restored) error {
	for i := range r.Entities {
		if id := r.Entities[i].ID; g.entity(id) != nil {
			return &graph.ExistsError{Kind: "entity", ID: id}
		}
	}
	for _, rows := range r.Relationships {
		if g.edge(rows[0].ID) != nil {
			return &graph.ExistsError{Kind: "relationship", ID: rows[0].ID}
		}
	}
	return nil
}
