package graphtest

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/store/graph"
)

// model is a graph that compares all its relationships at each step.
type model struct {
	entities map[string]graph.Entity
	versions map[string][]graph.Relationship
}

func newModel() *model {
	return &model{make(map[string]graph.Entity), make(map[string][]graph.Relationship)}
}

func (m *model) clone() *model {
	c := &model{maps.Clone(m.entities), maps.Clone(m.versions)}
	for id, v := range c.versions {
		c.versions[id] = slices.Clone(v)
	}
	return c
}

// write returns the graph after a batch, or false if the batch is rejected.
func (m *model) write(b graph.Batch, now time.Time) (*model, bool) {
	c := m.clone()
	for _, id := range b.DeleteRelationships {
		delete(c.versions, id)
	}
	for _, id := range b.DeleteEntities {
		delete(c.entities, id)
		maps.DeleteFunc(c.versions, func(_ string, v []graph.Relationship) bool { return v[0].Source == id || v[0].Target == id })
	}
	for _, e := range b.Ends {
		v := c.versions[e.ID]
		if v == nil {
			return m, false
		}
		next := v[len(v)-1]
		if next.ValidTo.Equal(e.At) {
			continue
		}
		if !e.At.After(next.ValidFrom) || !next.ValidTo.IsZero() && e.At.After(next.ValidTo) {
			return m, false
		}
		next.ValidTo = e.At
		c.add(next, now)
	}
	for _, e := range b.Entities {
		c.entities[e.ID] = e
	}
	for _, r := range b.Relationships {
		_, source := c.entities[r.Source]
		_, target := c.entities[r.Target]
		if v := c.versions[r.ID]; v != nil {
			if v[0].Source != r.Source || v[0].Target != r.Target || v[0].Type != r.Type {
				return m, false
			}
			if last := v[len(v)-1]; last.Properties["n"] == r.Properties["n"] && last.ValidFrom.Equal(r.ValidFrom) && last.ValidTo.Equal(r.ValidTo) {
				continue
			}
		} else if !source || !target {
			return m, false
		}
		c.add(r, now)
	}
	return c, true
}

// add adds a version.
func (m *model) add(r graph.Relationship, now time.Time) {
	v := m.versions[r.ID]
	if n := len(v); n > 0 {
		v[n-1].ReplacedAt = now
	}
	r.Version, r.RecordedAt = int64(len(v)+1), now
	m.versions[r.ID] = append(v, r)
}

// selected returns the versions that a walk may follow, by id.
func (m *model) selected(w graph.Walk, now time.Time) (all []graph.Relationship) {
	asOf := w.Moment.AsOf
	if asOf.IsZero() {
		asOf = now
	}
	for _, id := range slices.Sorted(maps.Keys(m.versions)) {
		for _, r := range m.versions[id] {
			known := r.ReplacedAt.IsZero()
			if at := w.Moment.KnownAt; !at.IsZero() {
				known = !r.RecordedAt.After(at) && (r.ReplacedAt.IsZero() || r.ReplacedAt.After(at))
			}
			valid := w.Moment.AnyTime || !r.ValidFrom.After(asOf) && (r.ValidTo.IsZero() || asOf.Before(r.ValidTo))
			if known && valid && (len(w.Types) == 0 || slices.Contains(w.Types, r.Type)) && w.Relationships.Match(r.Properties) {
				all = append(all, r)
			}
		}
	}
	return all
}

// passes reports whether a walk passes an entity.
func (m *model) passes(w graph.Walk, id string) bool {
	e := m.entities[id]
	return (len(w.Labels) == 0 || slices.Contains(w.Labels, e.Label)) && w.Entities.Match(e.Properties)
}

// follows reports whether a walk follows a relationship from an entity, and where it leads.
func follows(w graph.Walk, r graph.Relationship, from string) (to string, ok bool) {
	switch {
	case r.Source == from && w.Direction != graph.In:
		return r.Target, true
	case r.Target == from && w.Direction != graph.Out:
		return r.Source, true
	}
	return "", false
}

// neighbors returns the result of a walk that is not truncated.
func (m *model) neighbors(p graph.NeighborParams, now time.Time) graph.SubGraph {
	distance := make(map[string]int)
	for _, id := range p.IDs {
		if _, exists := m.entities[id]; exists {
			distance[id] = 0
		}
	}
	edges := m.selected(p.Walk, now)
	met := make(map[string]bool)
	for d := range max(cmp.Or(p.Depth, 1), 0) {
		found := make(map[string]bool)
		for _, r := range edges {
			for _, from := range []string{r.Source, r.Target} {
				to, ok := follows(p.Walk, r, from)
				if at, visited := distance[from]; !ok || !visited || at != d {
					continue
				}
				if _, visited := distance[to]; visited || m.passes(p.Walk, to) {
					met[r.ID] = true
					found[to] = true
				}
			}
		}
		for id := range found {
			if _, visited := distance[id]; !visited {
				distance[id] = d + 1
			}
		}
	}
	var s graph.SubGraph
	for id, d := range distance {
		s.Entities = append(s.Entities, graph.Neighbor{Entity: m.entities[id], Distance: d})
	}
	slices.SortFunc(s.Entities, func(a, b graph.Neighbor) int {
		return cmp.Or(cmp.Compare(a.Distance, b.Distance), cmp.Compare(a.ID, b.ID))
	})
	for _, r := range edges {
		_, source := distance[r.Source]
		_, target := distance[r.Target]
		if met[r.ID] || p.Induced && source && target {
			s.Relationships = append(s.Relationships, r)
		}
	}
	return s
}

// path returns the ids of relationships of a shortest path.
func (m *model) path(p graph.PathParams, now time.Time) (ids []string, found bool) {
	if _, exists := m.entities[p.From]; !exists {
		return nil, false
	}
	if p.From == p.To {
		return nil, true
	}
	edges := m.selected(p.Walk, now)
	best := map[string][]string{p.From: {}} // from the last relationship to the first one
	for range p.MaxDepth {
		next := make(map[string][]string)
		for _, r := range edges {
			for _, from := range []string{r.Source, r.Target} {
				to, ok := follows(p.Walk, r, from)
				before, reached := best[from]
				if _, known := best[to]; !ok || !reached || known || to != p.To && !m.passes(p.Walk, to) {
					continue
				}
				way := append([]string{r.ID}, before...)
				if other := next[to]; other == nil || slices.Compare(way, other) < 0 {
					next[to] = way
				}
			}
		}
		maps.Copy(best, next)
		if way, ok := best[p.To]; ok {
			slices.Reverse(way)
			return way, true
		}
	}
	return nil, false
}
