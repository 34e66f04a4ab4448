package graphtest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/cypher"
	"github.com/holdfast-dev/holdfast/store/graph/graphsql"
	"github.com/holdfast-dev/holdfast/store/graph/graphtest"
	"github.com/holdfast-dev/holdfast/store/storetest"
	"github.com/holdfast-dev/holdfast/store/suite"
)

// broken is a store with a defect: it changes params or results.
type broken struct {
	graph.Complete
	key     func(k *graph.Key)
	batch   func(b *graph.Batch)
	parts   bool // writes entities before relationships, in two transactions
	params  func(p *graph.NeighborParams)
	walk    func(w *graph.Walk)
	sub     func(s *graph.SubGraph)
	path    func(p *graph.Path)
	find    func(p *graph.FindParams)
	edges   func(all []graph.Relationship) []graph.Relationship
	deletes func(ok bool) bool
	forgets func(s graph.Complete, owner string) (graph.ForgetReport, error)
	failed  func(err error) error
	cypher  func(k *graph.Key, p *graph.CypherParams)
	result  func(r *graph.CypherResult)
}

func (b *broken) QueryCypher(ctx context.Context, k graph.Key, p graph.CypherParams) (graph.CypherResult, error) {
	if b.cypher != nil {
		b.cypher(&k, &p)
	}
	r, err := cypher.Execute(ctx, b.Complete, b.in(k), p)
	suite.Mutate(b.result, &r)
	return r, err
}

func (b *broken) in(k graph.Key) graph.Key {
	if b.key != nil && k.Owner != "" {
		b.key(&k)
	}
	return k
}

func (b *broken) Write(ctx context.Context, k graph.Key, batch graph.Batch) (graph.Result, error) {
	k = b.in(k)
	if b.batch != nil {
		batch.Entities, batch.Relationships = slices.Clone(batch.Entities), slices.Clone(batch.Relationships)
		b.batch(&batch)
	}
	if b.parts {
		if _, err := b.Complete.Write(ctx, k, graph.Batch{Entities: batch.Entities}); err != nil {
			return graph.Result{}, err
		}
	}
	result, err := b.Complete.Write(ctx, k, batch)
	if err != nil && b.failed != nil {
		err = b.failed(err)
	}
	return result, err
}

func (b *broken) AddRelationships(ctx context.Context, k graph.Key, all []graph.Relationship) ([]string, error) {
	result, err := b.Write(ctx, k, graph.Batch{Relationships: all})
	return result.Relationships, err
}

func (b *broken) DeleteEntity(ctx context.Context, k graph.Key, id string) (bool, error) {
	ok, err := b.Complete.DeleteEntity(ctx, b.in(k), id)
	if b.deletes != nil {
		ok = b.deletes(ok)
	}
	return ok, err
}

func (b *broken) Neighbors(ctx context.Context, k graph.Key, p graph.NeighborParams) (graph.SubGraph, error) {
	suite.Mutate(b.params, &p)
	suite.Mutate(b.walk, &p.Walk)
	s, err := b.Complete.Neighbors(ctx, b.in(k), p)
	if err == nil && b.sub != nil {
		b.sub(&s)
	}
	return s, err
}

func (b *broken) ShortestPath(ctx context.Context, k graph.Key, p graph.PathParams) (graph.Path, error) {
	suite.Mutate(b.walk, &p.Walk)
	path, err := b.Complete.ShortestPath(ctx, b.in(k), p)
	if err == nil && b.path != nil {
		b.path(&path)
	}
	return path, err
}

func (b *broken) Entities(ctx context.Context, k graph.Key, ids []string) ([]graph.Entity, error) {
	return b.Complete.Entities(ctx, b.in(k), ids)
}

func (b *broken) Relationships(ctx context.Context, k graph.Key, ids []string) ([]graph.Relationship, error) {
	all, err := b.Complete.Relationships(ctx, b.in(k), ids)
	if b.edges != nil {
		all = b.edges(all)
	}
	return all, err
}

func (b *broken) FindEntities(ctx context.Context, k graph.Key, p graph.FindParams) ([]graph.Entity, error) {
	suite.Mutate(b.find, &p)
	return b.Complete.FindEntities(ctx, b.in(k), p)
}

func (b *broken) ForgetOwner(ctx context.Context, owner string) (graph.ForgetReport, error) {
	if b.forgets != nil {
		return b.forgets(b.Complete, owner)
	}
	return b.Complete.ForgetOwner(ctx, owner)
}

var mutants = map[string]broken{
	"queries read the graph of another owner": {cypher: func(k *graph.Key, _ *graph.CypherParams) { k.Owner = "other" }},
	"queries ignore params": {cypher: func(_ *graph.Key, p *graph.CypherParams) {
		p.Params = map[string]any{"text": "", "p": nil, "missing": 1}
	}},
	"queries ignore their limit":           {cypher: func(_ *graph.Key, p *graph.CypherParams) { p.MaxRows = 0 }},
	"queries ignore their timeout":         {cypher: func(_ *graph.Key, p *graph.CypherParams) { p.Timeout, p.MaxSteps = 0, 1000 }, result: func(r *graph.CypherResult) { r.Columns = nil }},
	"queries do not report truncated rows": {result: func(r *graph.CypherResult) { r.Truncated = false }},
	"queries return integers as floats":    {result: floats},
	"ignores the owner":                    {key: func(k *graph.Key) { k.Owner = "x" }},
	"ignores the graph":                    {key: func(k *graph.Key) { k.Graph = "x" }},
	"ignores case of owners":               {key: func(k *graph.Key) { k.Owner = strings.ToLower(k.Owner) }},
	"writes entities first":                {parts: true},
	"ignores ends":                         {batch: func(b *graph.Batch) { b.Ends = nil }},
	"ignores deleted entities":             {batch: func(b *graph.Batch) { b.DeleteEntities = nil }},
	"ignores deleted relationships":        {batch: func(b *graph.Batch) { b.DeleteRelationships = nil }},
	"accepts missing ends":                 {batch: addEnds},
	"ignores the interval":                 {batch: eachEdge(func(r *graph.Relationship) { r.ValidTo = time.Time{} })},
	"drops properties":                     {batch: eachEdge(func(r *graph.Relationship) { r.Properties = nil })},
	"turns relationships":                  {batch: eachEdge(func(r *graph.Relationship) { r.Source, r.Target = r.Target, r.Source })},
	"hides errors":                         {failed: func(error) error { return nil }},
	"returns other errors":                 {failed: func(error) error { return errors.New("other") }},
	"walks too far":                        {params: func(p *graph.NeighborParams) { p.Depth = min(p.Depth+1, graph.MaxDepth) }},
	"walks one step":                       {params: func(p *graph.NeighborParams) { p.Depth = min(p.Depth, 1) }},
	"ignores the limit of entities":        {params: func(p *graph.NeighborParams) { p.MaxEntities = max(p.MaxEntities, 1000) }},
	"ignores the limit of edges":           {params: func(p *graph.NeighborParams) { p.MaxRelationships = max(p.MaxRelationships, 10_000) }},
	"returns induced relationships":        {params: func(p *graph.NeighborParams) { p.Induced = true }},
	"returns no induced ones":              {params: func(p *graph.NeighborParams) { p.Induced = false }},
	"returns more than ids":                {params: func(p *graph.NeighborParams) { p.IDsOnly = false }},
	"ignores the direction":                {walk: func(w *graph.Walk) { w.Direction = "" }},
	"swaps directions":                     {walk: swap},
	"ignores types":                        {walk: func(w *graph.Walk) { w.Types = nil }},
	"ignores labels":                       {walk: func(w *graph.Walk) { w.Labels = nil }},
	"ignores filters of entities":          {walk: func(w *graph.Walk) { w.Entities = filter.Filter{} }},
	"ignores filters of edges":             {walk: func(w *graph.Walk) { w.Relationships = filter.Filter{} }},
	"ignores when it was valid":            {walk: func(w *graph.Walk) { w.Moment.AsOf = time.Time{} }},
	"ignores when it was known":            {walk: func(w *graph.Walk) { w.Moment.KnownAt = time.Time{} }},
	"always selects any time":              {walk: func(w *graph.Walk) { w.Moment.AnyTime = true }},
	"omits the start":                      {sub: func(s *graph.SubGraph) { s.Entities = s.Entities[min(1, len(s.Entities)):] }},
	"hides that a limit was reached":       {sub: func(s *graph.SubGraph) { s.Truncated = false }},
	"orders relationships in reverse":      {sub: func(s *graph.SubGraph) { slices.Reverse(s.Relationships) }},
	"repeats a relationship": {sub: func(s *graph.SubGraph) {
		s.Relationships = append(s.Relationships, s.Relationships[:min(1, len(s.Relationships))]...)
	}},
	"orders entities by id": {sub: func(s *graph.SubGraph) {
		slices.SortFunc(s.Entities, func(a, b graph.Neighbor) int { return strings.Compare(a.ID, b.ID) })
	}},
	"returns a path in reverse":    {path: func(p *graph.Path) { slices.Reverse(p.Entities) }},
	"finds no path":                {path: func(p *graph.Path) { *p = graph.Path{} }},
	"ignores the labels to find":   {find: func(p *graph.FindParams) { p.Labels = nil }},
	"ignores names":                {find: func(p *graph.FindParams) { p.Names = nil }},
	"ignores the filter to find":   {find: func(p *graph.FindParams) { p.Filter = filter.Filter{} }},
	"ignores the position":         {find: func(p *graph.FindParams) { p.After = "" }},
	"has another limit":            {find: func(p *graph.FindParams) { p.Limit = max(p.Limit, 20) }},
	"does not count versions":      {edges: eachOf(func(r *graph.Relationship) { r.Version = 1 })},
	"states no time of the record": {edges: eachOf(func(r *graph.Relationship) { r.RecordedAt = time.Time{} })},
	"reports a removal of nothing": {deletes: func(bool) bool { return true }},
	"forgets the default graph": {forgets: func(s graph.Complete, owner string) (graph.ForgetReport, error) {
		return s.DeleteGraph(context.Background(), graph.Key{Owner: owner, Graph: "x"})
	}},
	"forgets nothing but counts it": {forgets: func(graph.Complete, string) (graph.ForgetReport, error) {
		return graph.ForgetReport{Entities: 4, Relationships: 2}, nil
	}},
}

// addEnds adds the entities that relationships refer to.
func addEnds(b *graph.Batch) {
	for _, r := range b.Relationships {
		for _, id := range []string{r.Source, r.Target} {
			if id == "missing" && len(b.Entities) < graph.MaxWrite && !slices.ContainsFunc(b.Entities, func(e graph.Entity) bool { return e.ID == id }) {
				b.Entities = append(b.Entities, graph.Entity{ID: id, Label: "Thing"})
			}
		}
	}
}

func eachEdge(change func(r *graph.Relationship)) func(b *graph.Batch) {
	return func(b *graph.Batch) {
		for i := range b.Relationships {
			change(&b.Relationships[i])
		}
	}
}

func eachOf(change func(r *graph.Relationship)) func(all []graph.Relationship) []graph.Relationship {
	return func(all []graph.Relationship) []graph.Relationship {
		for i := range all {
			change(&all[i])
		}
		return all
	}
}

func swap(w *graph.Walk) {
	switch w.Direction {
	case graph.Out:
		w.Direction = graph.In
	case graph.In:
		w.Direction = graph.Out
	default:
	}
}

func TestSuiteDetectsDefects(t *testing.T) {
	t.Parallel()
	suite.Mutants(t, mutants, func(t suite.T, b broken) {
		graphtest.RunOn(t, graphtest.Harness{Calls: 100, Short: true, Open: func(t storetest.T, now func() time.Time) graph.Store {
			s := inmem.New()
			t.Cleanup(func() { s.Close() })
			b := b
			b.Complete = graphsql.Of(s, now)
			return &b
		}})
	})
}

func floats(r *graph.CypherResult) {
	for _, row := range r.Rows {
		for i := range row {
			if n, ok := row[i].(int64); ok {
				row[i] = float64(n)
			}
		}
	}
}
