package graphtest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-dev/holdfast/internal/testseed"
	"github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var randomTests = []test{{"random calls have the results of a model", testRandom}}

// world has models of graphs, and makes random calls.
type world struct {
	*fixture
	r      *rand.Rand
	models map[graph.Key]*model
}

func testRandom(f *fixture) {
	seed := testseed.Of(f)
	w := &world{f, rand.New(rand.NewPCG(seed, 0)), make(map[graph.Key]*model)}
	for n := 0; n < f.h.Calls && !f.Failed(); n++ {
		k := graph.Key{Owner: fmt.Sprint("owner", w.r.IntN(2)), Graph: "g"}
		if w.models[k] == nil {
			w.models[k] = newModel()
		}
		f.k = k
		switch x := w.r.IntN(100); {
		case x < 45:
			f.clock.Add(time.Duration(w.r.IntN(3)) * time.Minute)
			w.batch(k)
		case x < 80:
			w.walk(w.models[k])
		case x < 98:
			w.path(w.models[k])
		case f.h.Reopen != nil:
			f.s = f.h.Reopen(f.T, f.s, f.clock.Now)
		}
		if f.Failed() {
			f.Logf("call %d", n)
		}
	}
}

func (w *world) entity() string { return fmt.Sprint("e", w.r.IntN(12)) }

func (w *world) edge() string { return fmt.Sprintf("r%02d", w.r.IntN(40)) }

func (w *world) label() string { return string(rune('A' + w.r.IntN(3))) }

func (w *world) typ() string { return string(rune('s' + w.r.IntN(3))) }

// time returns a time around now, or the zero time.
func (w *world) time() time.Time {
	if w.r.IntN(2) == 0 {
		return time.Time{}
	}
	return w.clock.Now().Add(time.Duration(w.r.IntN(60)-40) * time.Minute)
}

func (w *world) batch(k graph.Key) {
	var b graph.Batch
	if w.r.IntN(4) == 0 {
		b.DeleteEntities = []string{w.entity()}
	}
	if w.r.IntN(4) == 0 {
		b.DeleteRelationships = []string{w.edge(), w.edge()}
	}
	seen := make(map[string]bool)
	if w.r.IntN(4) == 0 {
		e := graph.End{ID: w.edge(), At: w.clock.Now().Add(time.Duration(w.r.IntN(40)-20) * time.Minute)}
		seen[e.ID] = true
		b.Ends = []graph.End{e}
	}
	for range w.r.IntN(4) {
		if e := (graph.Entity{ID: w.entity(), Label: w.label(), Properties: map[string]any{"n": float64(w.r.IntN(4))}}); !seen[e.ID] {
			seen[e.ID] = true
			b.Entities = append(b.Entities, e)
		}
	}
	known := w.models[k]
	for range w.r.IntN(6) {
		r := graph.Relationship{ID: w.edge(), Source: w.entity(), Target: w.entity(), Type: w.typ(), ValidFrom: w.time(), Properties: map[string]any{"n": float64(w.r.IntN(4))}}
		if v := known.versions[r.ID]; v != nil && w.r.IntN(5) > 0 {
			r.Source, r.Target, r.Type = v[0].Source, v[0].Target, v[0].Type
		}
		if to := w.time(); to.After(r.ValidFrom) {
			r.ValidTo = to
		}
		if !seen[r.ID] {
			seen[r.ID] = true
			b.Relationships = append(b.Relationships, r)
		}
	}
	after, ok := known.write(b, w.clock.Now())
	_, err := w.s.Write(w.ctx, k, b)
	if (err == nil) != ok {
		w.Errorf("Write(%+v) = %v, the model accepts it: %t", b, err, ok)
	}
	w.models[k] = after
}

// selection returns a random selection of a walk.
func (w *world) selection() (s graph.Walk) {
	s.Direction = []graph.Direction{graph.Both, graph.Both, graph.Out, graph.In}[w.r.IntN(4)]
	switch w.r.IntN(5) {
	case 0:
		s.Types = []string{w.typ()}
	case 1:
		s.Types = []string{w.typ(), w.typ()}
	case 2:
		s.Relationships = filter.Lte("n", 2)
	}
	switch w.r.IntN(5) {
	case 0:
		s.Labels = []string{w.label(), w.label()}
	case 1:
		s.Entities = filter.Ne("n", float64(w.r.IntN(4)))
	}
	switch w.r.IntN(4) {
	case 0:
		s.Moment.AsOf = w.time()
	case 1:
		s.Moment.KnownAt = w.time()
	case 2:
		s.Moment.AnyTime = true
	}
	return s
}

func (w *world) walk(m *model) {
	p := graph.NeighborParams{Depth: w.r.IntN(6) + graph.StartsOnly, Walk: w.selection(), Induced: w.r.IntN(3) == 0}
	for range 1 + w.r.IntN(3) {
		p.IDs = append(p.IDs, w.entity())
	}
	got := suite.Call(w.s.Neighbors(w.ctx, w.k, p)).Must(w, "Neighbors(%+v)", p)
	w.equal(fmt.Sprintf("Neighbors(%+v)", p), got, m.neighbors(p, w.clock.Now()))
}

func (w *world) path(m *model) {
	p := graph.PathParams{From: w.entity(), To: w.entity(), MaxDepth: 1 + w.r.IntN(6), Walk: w.selection()}
	got := suite.Call(w.s.ShortestPath(w.ctx, w.k, p)).Must(w, "ShortestPath(%+v)", p)
	var ids []string
	for _, r := range got.Relationships {
		ids = append(ids, r.ID)
	}
	want, found := m.path(p, w.clock.Now())
	w.equal(fmt.Sprintf("ShortestPath(%+v)", p), ids, want)
	w.equal(fmt.Sprintf("ShortestPath(%+v): found", p), len(got.Entities) > 0, found)
}
