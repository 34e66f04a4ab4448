package graphs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/graphdriver"
)

const (
	typeEntity       = "entity"
	typeRelationship = "relationship"
	exportPage       = 100
	// restoreBytes is the size of the lines that are restored at once.
	restoreBytes = 2 << 20
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

func (g *graphs) Export(ctx context.Context, owner string, line func(typ string, v any) error) error {
	lister, lists := g.Store.(graph.Lister)
	historian, remembers := g.Store.(graph.Historian)
	if !lists || !remembers {
		return contract.Unlisted("their store does not list them or their versions")
	}
	for p := (graph.ListParams{Owner: owner, Limit: exportPage}); ; {
		page, err := lister.Graphs(ctx, p)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, info := range page {
			p.After = info.Name
			x := &exporter{graphs: g, historian: historian, k: graph.Key{Owner: owner, Graph: info.Name}, line: line, written: make(map[string]bool)}
			if err = x.entities(ctx); err == nil {
				err = x.relationships(ctx)
			}
			if err != nil {
				return fmt.Errorf("graph %s: %w", info.Name, err)
			}
		}
	}
}

// exporter writes one graph.
type exporter struct {
	graphs    *graphs
	historian graph.Historian
	k         graph.Key
	line      func(typ string, v any) error
	written   map[string]bool // entities
}

func (x *exporter) entities(ctx context.Context) error {
	for p := (graph.FindParams{Limit: graph.MaxLimit}); ; {
		page, err := x.graphs.FindEntities(ctx, x.k, p)
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

func (x *exporter) entity(e *graph.Entity) error {
	x.written[e.ID] = true
	return x.line(typeEntity, entityLineOf(x.k.Graph, e))
}

func (x *exporter) relationships(ctx context.Context) error {
	for p := (graph.FindRelationshipParams{Moment: graph.Moment{AnyTime: true}, Limit: exportPage}); ; {
		page, err := x.graphs.FindRelationships(ctx, x.k, p)
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
func (x *exporter) relationship(ctx context.Context, newest graph.Relationship) error {
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
		ends, err := x.graphs.Entities(ctx, x.k, []string{newest.Source, newest.Target})
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
	return x.line(typeRelationship, relationshipLineOf(x.k.Graph, versions))
}

// item is a part of a graph: an entity or a relationship.
type item struct {
	name     string
	entity   *graph.Entity
	versions []graph.Relationship // of the relationship, oldest first
	size     int                  // of its line, in bytes
}

// scanner implements [contract.Scanner]. The lines of a graph follow each other.
type scanner struct {
	owner        string
	name         string          // of the graph, "" before the first one
	entities     map[string]bool // of the graph
	relationship string          // the last one of the graph
}

func (s *scanner) Scan(typ string, raw []byte) (any, error) {
	if typ == typeEntity {
		return s.scanEntity(raw)
	}
	return s.scanRelationship(raw)
}

func (*scanner) End() error { return nil }

// start starts a graph, unless the last line was a part of it.
func (s *scanner) start(name string) error {
	switch {
	case name == "":
		return &wire.Error{Path: "graph", Rule: "must not be empty"}
	case s.name > name:
		return &wire.Error{Path: "graph", Rule: fmt.Sprintf("is %s, must not follow %s", a2a.Quote(name), a2a.Quote(s.name))}
	case s.name != name:
		s.name, s.entities, s.relationship = name, make(map[string]bool), ""
	}
	return nil
}

func (s *scanner) scanEntity(raw []byte) (*item, error) {
	var l entityLine
	if err := wire.Unmarshal(raw, &l); err != nil {
		return nil, err
	}
	e := l.entity()
	if _, err := graphdriver.NewRestored(graph.Key{Owner: s.owner, Graph: l.Graph}, []graph.Entity{e}, nil); err != nil {
		return nil, err
	}
	if err := s.start(l.Graph); err != nil {
		return nil, err
	}
	if s.entities[l.ID] {
		return nil, a2a.Errorf(a2a.CodeInvalid, "entity %s of graph %s is repeated", a2a.Quote(l.ID), a2a.Quote(l.Graph))
	}
	s.entities[l.ID] = true
	return &item{name: l.Graph, entity: &e, size: len(raw)}, nil
}

func (s *scanner) scanRelationship(raw []byte) (*item, error) {
	var l relationshipLine
	if err := wire.Unmarshal(raw, &l); err != nil {
		return nil, err
	}
	versions := l.versions()
	if len(versions) == 0 {
		return nil, &wire.Error{Path: "versions", Rule: "must not be empty"}
	}
	if _, err := graphdriver.NewRestored(graph.Key{Owner: s.owner, Graph: l.Graph}, nil, versions); err != nil {
		return nil, err
	}
	if err := s.start(l.Graph); err != nil {
		return nil, err
	}
	if l.ID <= s.relationship {
		return nil, a2a.Errorf(a2a.CodeInvalid, "relationship %s follows relationship %s", a2a.Quote(l.ID), a2a.Quote(s.relationship))
	}
	s.relationship = l.ID
	for _, end := range []struct{ field, id string }{{"source", l.Source}, {"target", l.Target}} {
		if !s.entities[end.id] {
			return nil, &wire.Error{Path: end.field, Rule: fmt.Sprintf("is %s, must be an entity of the graph on a line before", a2a.Quote(end.id))}
		}
	}
	return &item{name: l.Graph, versions: versions, size: len(raw)}, nil
}

func (g *graphs) Import(p *contract.ImportParams) (contract.Importer, error) {
	restorer, restores := g.Store.(graph.Restorer)
	historian, remembers := g.Store.(graph.Historian)
	if !restores || !remembers {
		return nil, Kind.NoTarget()
	}
	return &importer{ImportParams: p, graphs: g, restorer: restorer, historian: historian}, nil
}

type importer struct {
	contract.Immediate
	*contract.ImportParams
	graphs    *graphs
	restorer  graph.Restorer
	historian graph.Historian
	batch     batch
}

// batch is a part of one graph to compare or to add next.
type batch struct {
	name           string
	entities       []graph.Entity
	relationships  [][]graph.Relationship
	versions, size int
}

func (m *importer) Add(ctx context.Context, x any) error {
	part, b := x.(*item), &m.batch
	if b.name != part.name || len(b.entities) == graph.MaxWrite || b.versions+len(part.versions) > graph.MaxWrite || b.size+part.size > restoreBytes {
		if err := m.Flush(ctx); err != nil {
			return err
		}
	}
	b.name = part.name
	b.size += part.size
	if part.entity != nil {
		b.entities = append(b.entities, *part.entity)
		return nil
	}
	b.relationships = append(b.relationships, part.versions)
	b.versions += len(part.versions)
	return nil
}

// Flush adds the entities and relationships that do not exist.
func (m *importer) Flush(ctx context.Context) error {
	b := m.batch
	if m.batch = (batch{}); len(b.entities)+len(b.relationships) == 0 {
		return nil
	}
	k := graph.Key{Owner: m.Owner, Graph: b.name}
	entities, err := m.missingEntities(ctx, k, b.entities)
	if err != nil {
		return err
	}
	relationships, versions, err := m.missingRelationships(ctx, k, b.relationships)
	if err != nil {
		return err
	}
	restore := m.restorer.CanRestore
	if m.Write {
		restore = m.restorer.Restore
	}
	if len(entities)+relationships == 0 {
		return nil
	}
	if err := restore(ctx, k, entities, versions); err != nil {
		return fmt.Errorf("graph %s: %w", a2a.Quote(b.name), err)
	}
	if m.Write {
		m.Added(countEntities, int64(len(entities)))
		m.Added(countRelationships, int64(relationships))
	}
	return nil
}

// missingEntities returns the entities that do not exist. It reports a conflict with those that
// differ.
func (m *importer) missingEntities(ctx context.Context, k graph.Key, all []graph.Entity) (missing []graph.Entity, err error) {
	ids := make([]string, len(all))
	for i := range all {
		ids[i] = all[i].ID
	}
	found, err := m.graphs.Entities(ctx, k, ids)
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
		} else if !contract.Equal(entityLineOf(k.Graph, e), entityLineOf(k.Graph, &all[i])) {
			err = errors.Join(err, m.Conflict("entity %s of graph %s exists and differs from the document", a2a.Quote(e.ID), a2a.Quote(k.Graph)))
		}
	}
	return missing, err
}

// missingRelationships returns the relationships that do not exist, with their versions. It reports a
// conflict with those that differ.
func (m *importer) missingRelationships(ctx context.Context, k graph.Key, all [][]graph.Relationship) (n int, missing []graph.Relationship, err error) {
	ids := make([]string, len(all))
	for i := range all {
		ids[i] = all[i][0].ID
	}
	found, err := m.graphs.Relationships(ctx, k, ids)
	if err != nil {
		return 0, nil, err
	}
	known := make(map[string][]graph.Relationship, len(found))
	for i := range found {
		r := &found[i]
		if known[r.ID] = found[i : i+1]; r.Version > 1 {
			if known[r.ID], err = m.historian.History(ctx, k, r.ID); err != nil {
				return 0, nil, err
			}
		}
	}
	for _, versions := range all {
		id := versions[0].ID
		if existing := known[id]; existing == nil {
			n, missing = n+1, append(missing, versions...)
		} else if !contract.Equal(relationshipLineOf(k.Graph, existing), relationshipLineOf(k.Graph, versions)) {
			err = errors.Join(err, m.Conflict("relationship %s of graph %s exists and differs from the document", a2a.Quote(id), a2a.Quote(k.Graph)))
		}
	}
	return n, missing, err
}
