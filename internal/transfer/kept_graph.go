package transfer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/graph"
)

type entityLine struct {
	_          struct{}       `wire:"const=type:entity,required"`
	Graph      string         `json:"graph" wire:"required"`
	ID         string         `json:"id" wire:"required"`
	Label      string         `json:"label" wire:"required"`
	Properties map[string]any `json:"properties,omitempty"`
}

type relationshipLine struct {
	_        struct{}              `wire:"const=type:relationship,required"`
	Graph    string                `json:"graph" wire:"required"`
	ID       string                `json:"id" wire:"required"`
	Source   string                `json:"source" wire:"required"`
	Type     string                `json:"relationshipType" wire:"required"`
	Target   string                `json:"target" wire:"required"`
	Versions []relationshipVersion `json:"versions" wire:"required"`
}

type relationshipVersion struct {
	Version    int64          `json:"version" wire:"required"`
	Properties map[string]any `json:"properties,omitempty"`
	ValidFrom  time.Time      `json:"validFrom,omitempty"`
	ValidTo    time.Time      `json:"validTo,omitempty"`
	RecordedAt time.Time      `json:"recordedAt" wire:"required"`
	ReplacedAt time.Time      `json:"replacedAt,omitempty"`
}

func entityLineOf(name string, e *graph.Entity) *entityLine {
	return &entityLine{Graph: name, ID: e.ID, Label: e.Label, Properties: e.Properties}
}

func (l *entityLine) entity() graph.Entity {
	return graph.Entity{ID: l.ID, Label: l.Label, Properties: l.Properties}
}

// relationshipLineOf returns the line of a relationship with all its versions.
func relationshipLineOf(name string, versions []graph.Relationship) *relationshipLine {
	first := &versions[0]
	l := &relationshipLine{Graph: name, ID: first.ID, Source: first.Source, Type: first.Type, Target: first.Target}
	for i := range versions {
		v := &versions[i]
		l.Versions = append(l.Versions, relationshipVersion{v.Version, v.Properties, v.ValidFrom, v.ValidTo, v.RecordedAt, v.ReplacedAt})
	}
	return l
}

func (l *relationshipLine) versions() (versions []graph.Relationship) {
	for _, v := range l.Versions {
		versions = append(versions, graph.Relationship{
			ID: l.ID, Source: l.Source, Type: l.Type, Target: l.Target, Properties: v.Properties, Version: v.Version,
			ValidFrom: store.Time(v.ValidFrom), ValidTo: store.Time(v.ValidTo), RecordedAt: store.Time(v.RecordedAt), ReplacedAt: store.Time(v.ReplacedAt),
		})
	}
	return versions
}

func (e *keptExporter) graphs(ctx context.Context) error {
	if e.kept.Graphs == nil {
		return nil
	}
	lister, lists := e.kept.Graphs.(graph.Lister)
	historian, remembers := e.kept.Graphs.(graph.Historian)
	if !lists || !remembers {
		e.note("graphs are not exported: their store does not list them or their versions")
		return nil
	}
	for p := (graph.ListParams{Owner: e.owner, Limit: keptPage}); ; {
		page, err := lister.Graphs(ctx, p)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, info := range page {
			p.After = info.Name
			x := &graphExporter{keptExporter: e, historian: historian, k: graph.Key{Owner: e.owner, Graph: info.Name}, written: make(map[string]bool)}
			if err = x.entities(ctx); err == nil {
				err = x.relationships(ctx)
			}
			if err != nil {
				return fmt.Errorf("graph %s: %w", info.Name, err)
			}
		}
	}
}

// graphExporter writes one graph.
type graphExporter struct {
	*keptExporter
	historian graph.Historian
	k         graph.Key
	written   map[string]bool // entities
}

func (x *graphExporter) entities(ctx context.Context) error {
	for p := (graph.FindParams{Limit: graph.MaxLimit}); ; {
		page, err := x.kept.Graphs.FindEntities(ctx, x.k, p)
		if err != nil || len(page) == 0 {
			return err
		}
		for i := range page {
			p.After = page[i].ID
			if err := x.entity(&page[i]); err != nil {
				return err
			}
		}
	}
}

func (x *graphExporter) entity(e *graph.Entity) error {
	x.written[e.ID] = true
	x.end.Entities++
	return x.write(entityLineOf(x.k.Graph, e))
}

func (x *graphExporter) relationships(ctx context.Context) error {
	for p := (graph.FindRelationshipParams{Moment: graph.Moment{AnyTime: true}, Limit: keptPage}); ; {
		page, err := x.kept.Graphs.FindRelationships(ctx, x.k, p)
		if err != nil || len(page) == 0 {
			return err
		}
		for i := range page {
			p.After = page[i].ID
			if err := x.relationship(ctx, page[i]); err != nil {
				return err
			}
		}
	}
}

// relationship writes a relationship with all versions, and before it the ends that were added since
// the entities were listed.
func (x *graphExporter) relationship(ctx context.Context, newest graph.Relationship) error {
	versions := []graph.Relationship{newest}
	if newest.Version > 1 {
		var err error
		versions, err = x.historian.History(ctx, x.k, newest.ID)
		if errors.Is(err, graph.ErrRelationshipNotFound) {
			return nil // deleted meanwhile
		}
		if err != nil {
			return err
		}
	}
	if !x.written[newest.Source] || !x.written[newest.Target] {
		ends, err := x.kept.Graphs.Entities(ctx, x.k, []string{newest.Source, newest.Target})
		if err != nil {
			return err
		}
		for i := range ends {
			if !x.written[ends[i].ID] {
				if err := x.entity(&ends[i]); err != nil {
					return err
				}
			}
		}
		if !x.written[newest.Source] || !x.written[newest.Target] {
			return nil // deleted meanwhile
		}
	}
	x.end.Relationships++
	return x.write(relationshipLineOf(x.k.Graph, versions))
}

// keptGraph is a part of a graph: an entity or a relationship.
type keptGraph struct {
	name     string
	entity   *graph.Entity
	versions []graph.Relationship // of the relationship, oldest first
	size     int                  // of its line, in bytes
}

// graphScan is the state of the scanner in a graph.
type graphScan struct {
	name         string
	entities     map[string]bool
	relationship string // the last one
}

// graphOf returns the state of a graph, which starts with its first line.
func (k *keptScan) graphOf(name string) (*graphScan, error) {
	switch {
	case name == "":
		return nil, &wire.Error{Path: "graph", Rule: "must not be empty"}
	case k.graph != nil && k.graph.name > name:
		return nil, &wire.Error{Path: "graph", Rule: fmt.Sprintf("is %s, must not follow %s", a2a.Quote(name), a2a.Quote(k.graph.name))}
	case k.graph == nil || k.graph.name != name:
		k.graph = &graphScan{name: name, entities: make(map[string]bool)}
	}
	return k.graph, nil
}

func (s *scanner) parseEntity(raw []byte) (*keptGraph, error) {
	var l entityLine
	if err := wire.Unmarshal(raw, &l); err != nil {
		return nil, err
	}
	s.counted.Entities++
	e := l.entity()
	if _, err := graph.NewRestored(graph.Key{Owner: s.context.Owner, Graph: l.Graph}, []graph.Entity{e}, nil); err != nil {
		return nil, err
	}
	g, err := s.kept.graphOf(l.Graph)
	if err != nil {
		return nil, err
	}
	if g.entities[l.ID] {
		return nil, s.errorf("entity %s of graph %s is repeated", a2a.Quote(l.ID), a2a.Quote(l.Graph))
	}
	g.entities[l.ID] = true
	return &keptGraph{name: l.Graph, entity: &e, size: len(raw)}, nil
}

func (s *scanner) parseRelationship(raw []byte) (*keptGraph, error) {
	var l relationshipLine
	if err := wire.Unmarshal(raw, &l); err != nil {
		return nil, err
	}
	s.counted.Relationships++
	versions := l.versions()
	if len(versions) == 0 {
		return nil, &wire.Error{Path: "versions", Rule: "must not be empty"}
	}
	if _, err := graph.NewRestored(graph.Key{Owner: s.context.Owner, Graph: l.Graph}, nil, versions); err != nil {
		return nil, err
	}
	g, err := s.kept.graphOf(l.Graph)
	if err != nil {
		return nil, err
	}
	if l.ID <= g.relationship {
		return nil, s.errorf("relationship %s follows relationship %s", a2a.Quote(l.ID), a2a.Quote(g.relationship))
	}
	g.relationship = l.ID
	for _, end := range []struct{ field, id string }{{"source", l.Source}, {"target", l.Target}} {
		if !g.entities[end.id] {
			return nil, &wire.Error{Path: end.field, Rule: fmt.Sprintf("is %s, must be an entity of the graph on a line before", a2a.Quote(end.id))}
		}
	}
	return &keptGraph{name: l.Graph, versions: versions, size: len(raw)}, nil
}

// graphBatch is a part of one graph to compare or to add next.
type graphBatch struct {
	name           string
	entities       []graph.Entity
	relationships  [][]graph.Relationship
	versions, size int
}

// keptGraph collects a part of a graph.
func (m *importer) keptGraph(ctx context.Context, owner string, part *keptGraph) error {
	b := &m.now.graph
	if b.name != part.name || len(b.entities) == graph.MaxWrite || b.versions+len(part.versions) > graph.MaxWrite || b.size+part.size > restoreBytes {
		if err := m.flushGraph(ctx, owner); err != nil {
			return err
		}
	}
	b.name = part.name
	b.size += part.size
	if part.entity != nil {
		m.report.Document.Entities++
		b.entities = append(b.entities, *part.entity)
		return nil
	}
	m.report.Document.Relationships++
	b.relationships = append(b.relationships, part.versions)
	b.versions += len(part.versions)
	return nil
}

// flushGraph adds the entities and relationships that do not exist.
func (m *importer) flushGraph(ctx context.Context, owner string) error {
	b := m.now.graph
	if m.now.graph = (graphBatch{}); len(b.entities)+len(b.relationships) == 0 {
		return nil
	}
	restorer, restores := m.opts.Kept.Graphs.(graph.Restorer)
	historian, remembers := m.opts.Kept.Graphs.(graph.Historian)
	if !restores || !remembers {
		return lacks("graphs")
	}
	k := graph.Key{Owner: owner, Graph: b.name}
	entities, err := b.missingEntities(ctx, m, k)
	if err != nil {
		return err
	}
	relationships, versions, err := b.missingRelationships(ctx, m, historian, k)
	if err != nil {
		return err
	}
	restore := restorer.CanRestore
	if m.write {
		restore = restorer.Restore
	}
	if len(entities)+relationships == 0 {
		return nil
	}
	if err := restore(ctx, k, entities, versions); err != nil {
		return fmt.Errorf("graph %s: %w", a2a.Quote(b.name), err)
	}
	if m.write {
		m.report.Written.Entities += int64(len(entities))
		m.report.Written.Relationships += int64(relationships)
	}
	return nil
}

// missingEntities returns the entities that do not exist. It reports a conflict with those that
// differ.
func (b *graphBatch) missingEntities(ctx context.Context, m *importer, k graph.Key) (missing []graph.Entity, err error) {
	all := b.entities
	ids := make([]string, len(all))
	for i := range all {
		ids[i] = all[i].ID
	}
	found, err := m.opts.Kept.Graphs.Entities(ctx, k, ids)
	if err != nil {
		return nil, err
	}
	known := make(map[string]*graph.Entity, len(found))
	for i := range found {
		known[found[i].ID] = &found[i]
	}
	for i := range all {
		e := known[all[i].ID]
		if e == nil {
			missing = append(missing, all[i])
		} else if !equalLines(entityLineOf(k.Graph, e), entityLineOf(k.Graph, &all[i])) {
			err = errors.Join(err, m.conflict("entity %s of graph %s exists and differs from the document", a2a.Quote(e.ID), a2a.Quote(k.Graph)))
		}
	}
	return missing, err
}

// missingRelationships returns the relationships that do not exist, with their versions. It reports a
// conflict with those that differ.
func (b *graphBatch) missingRelationships(ctx context.Context, m *importer, h graph.Historian, k graph.Key) (n int, missing []graph.Relationship, err error) {
	all := b.relationships
	ids := make([]string, len(all))
	for i := range all {
		ids[i] = all[i][0].ID
	}
	found, err := m.opts.Kept.Graphs.Relationships(ctx, k, ids)
	if err != nil {
		return 0, nil, err
	}
	known := make(map[string][]graph.Relationship, len(found))
	for i := range found {
		r := &found[i]
		if known[r.ID] = found[i : i+1]; r.Version > 1 {
			if known[r.ID], err = h.History(ctx, k, r.ID); err != nil {
				return 0, nil, err
			}
		}
	}
	for _, versions := range all {
		id := versions[0].ID
		if existing := known[id]; existing == nil {
			n, missing = n+1, append(missing, versions...)
		} else if !equalLines(relationshipLineOf(k.Graph, existing), relationshipLineOf(k.Graph, versions)) {
			err = errors.Join(err, m.conflict("relationship %s of graph %s exists and differs from the document", a2a.Quote(id), a2a.Quote(k.Graph)))
		}
	}
	return n, missing, err
}
