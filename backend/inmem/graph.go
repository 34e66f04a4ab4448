package inmem

import (
	"context"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/cypher"
	"github.com/holdfast-dev/holdfast/store/graph/graphdriver"
)

// Graph returns the graphs of the store. now returns the current time; nil means time.Now.
func (s *Store) Graph(now func() time.Time) graph.Complete {
	if now == nil {
		now = time.Now
	}
	return &graphStore{database: s.database, graphs: s.graphs, now: now}
}

type graphStore struct {
	*database
	graphs map[graph.Key]*graphData
	now    func() time.Time
}

// graphData is a graph. The lock of the database guards it.
type graphData struct {
	entities      map[string]*entityNode
	byName        map[string]map[string]*entityNode // by folded name, then by id
	relationships map[string]*edge
	entityIDs     index[*entityNode]
	edgeIDs       index[*edge]
}

// entityNode is an entity with its relationships, in no order.
type entityNode struct {
	graphdriver.EntityRow
	out, in []*edge
}

// edge is a relationship with its versions, oldest first. A walk reads the first fields of many, so they are
// together.
type edge struct {
	id, typ        string
	source, target *entityNode
	unbounded      bool // the newest version is valid at all times
	versions       []graphdriver.RelationshipRow
	// inOut and inIn are the positions in the lists of source and target.
	inOut, inIn int
}

func (n *entityNode) compare(m *entityNode) int { return strings.Compare(n.ID, m.ID) }

func (e *edge) compare(f *edge) int { return strings.Compare(e.id, f.id) }

func (e *edge) head() *graphdriver.RelationshipRow { return &e.versions[len(e.versions)-1] }

// replace replaces the versions.
func (e *edge) replace(versions []graphdriver.RelationshipRow) {
	e.versions = versions
	e.unbounded = e.head().ValidFrom.IsZero() && e.head().ValidTo.IsZero()
}

// graphChange is a write that runs under the lock of the database. Each of its methods adds how to undo
// it.
type graphChange struct {
	s    *graphStore
	key  graph.Key
	undo []func()
}

func (c *graphChange) revert() {
	for i := len(c.undo) - 1; i >= 0; i-- {
		c.undo[i]()
	}
}

// data returns the graph, or nil.
func (c *graphChange) data() *graphData { return c.s.graphs[c.key] }

// entity returns an entity, or nil.
func (g *graphData) entity(id string) *entityNode {
	if g == nil {
		return nil
	}
	return g.entities[id]
}

// edge returns a relationship, or nil.
func (g *graphData) edge(id string) *edge {
	if g == nil {
		return nil
	}
	return g.relationships[id]
}

// insert adds an entity, and the graph if it is the first one.
func (c *graphChange) insert(n *entityNode) {
	g := c.data()
	if g == nil {
		g = &graphData{entities: make(map[string]*entityNode), byName: make(map[string]map[string]*entityNode), relationships: make(map[string]*edge)}
		c.s.graphs[c.key] = g
	}
	g.entities[n.ID] = n
	g.entityIDs.add(0, n)
	g.name(n)
}

// remove removes an entity without relationships, and the graph if it was the last one.
func (c *graphChange) remove(n *entityNode) {
	g := c.data()
	g.unname(n)
	delete(g.entities, n.ID)
	g.entityIDs.remove(0, n)
	if len(g.entities) == 0 {
		delete(c.s.graphs, c.key)
	}
}

func (g *graphData) name(n *entityNode) {
	if n.Name == "" {
		return
	}
	if g.byName[n.Name] == nil {
		g.byName[n.Name] = make(map[string]*entityNode)
	}
	g.byName[n.Name][n.ID] = n
}

func (g *graphData) unname(n *entityNode) {
	if named := g.byName[n.Name]; named != nil {
		delete(named, n.ID)
		if len(named) == 0 {
			delete(g.byName, n.Name)
		}
	}
}

func (g *graphData) link(e *edge) {
	g.relationships[e.id] = e
	g.edgeIDs.add(0, e)
	e.inOut, e.inIn = len(e.source.out), len(e.target.in)
	e.source.out = append(e.source.out, e)
	e.target.in = append(e.target.in, e)
}

func (g *graphData) unlink(e *edge) {
	delete(g.relationships, e.id)
	g.edgeIDs.remove(0, e)
	out, in := e.source.out, e.target.in
	last := out[len(out)-1]
	out[e.inOut], last.inOut = last, e.inOut
	e.source.out, out[len(out)-1] = out[:len(out)-1], nil
	last = in[len(in)-1]
	in[e.inIn], last.inIn = last, e.inIn
	e.target.in, in[len(in)-1] = in[:len(in)-1], nil
}

func (c *graphChange) deleteEdge(e *edge) {
	c.data().unlink(e)
	c.undo = append(c.undo, func() { c.data().link(e) })
}

// deleteEntity removes an entity with its relationships and returns their number.
func (c *graphChange) deleteEntity(n *entityNode) (edges int) {
	for ; len(n.out) > 0; edges++ {
		c.deleteEdge(n.out[len(n.out)-1])
	}
	for ; len(n.in) > 0; edges++ {
		c.deleteEdge(n.in[len(n.in)-1])
	}
	c.remove(n)
	c.undo = append(c.undo, func() { c.insert(n) })
	return edges
}

func (c *graphChange) putEntity(row graphdriver.EntityRow) {
	n := c.data().entity(row.ID)
	if n == nil {
		n = &entityNode{EntityRow: row}
		c.insert(n)
		c.undo = append(c.undo, func() { c.remove(n) })
		return
	}
	before := n.EntityRow
	c.data().replace(n, row)
	c.undo = append(c.undo, func() { c.data().replace(n, before) })
}

func (g *graphData) replace(n *entityNode, row graphdriver.EntityRow) {
	g.unname(n)
	n.EntityRow = row
	g.name(n)
}

// addEdge adds a relationship with its versions. field is its part of the write.
func (c *graphChange) addEdge(field string, versions ...graphdriver.RelationshipRow) error {
	g, r := c.data(), &versions[0]
	e := &edge{id: r.ID, typ: r.Type, source: g.entity(r.Source), target: g.entity(r.Target)}
	e.replace(versions)
	if e.source == nil {
		return &graph.EndpointError{Field: field + ".source", Entity: r.Source}
	}
	if e.target == nil {
		return &graph.EndpointError{Field: field + ".target", Entity: r.Target}
	}
	g.link(e)
	c.undo = append(c.undo, func() { c.data().unlink(e) })
	return nil
}

// addVersion adds a version to a relationship.
func (c *graphChange) addVersion(e *edge, next graphdriver.RelationshipRow) {
	e.head().ReplacedAt = next.RecordedAt
	e.replace(append(e.versions, next))
	c.undo = append(c.undo, func() {
		e.replace(e.versions[:len(e.versions)-1])
		e.head().ReplacedAt = time.Time{}
	})
}

// changeGraph runs f under the lock of the database. If f fails, it changes nothing.
func (s *graphStore) changeGraph(ctx context.Context, k graph.Key, f func(c *graphChange) error) error {
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return err
	}
	c := &graphChange{s: s, key: k}
	err := f(c)
	if err != nil {
		c.revert()
	}
	return err
}

// WriteEffect implements graph.Transactional.
func (s *graphStore) WriteEffect(k graph.Key, b graph.Batch) (store.Effect, error) {
	w, err := graphdriver.NewWrite(k, b, s.now())
	if err != nil {
		return nil, err
	}
	return &effect{db: s.database, apply: func() (func(), error) {
		c := &graphChange{s: s, key: w.Key}
		_, err := c.apply(w)
		if err != nil {
			c.revert()
		}
		return c.revert, err
	}}, nil
}

// QueryCypher implements graph.CypherCapable.
func (s *graphStore) QueryCypher(ctx context.Context, k graph.Key, p graph.CypherParams) (graph.CypherResult, error) {
	return cypher.Execute(ctx, s, k, p)
}
