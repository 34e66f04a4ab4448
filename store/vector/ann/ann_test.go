package ann

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/testseed"
)

// check compares searches with exact results. It returns the mean recall.
func check(t *testing.T, x *Index, d *data, items map[string]Item, p SearchParams, queries int) float64 {
	t.Helper()
	var sum float64
	for range queries {
		p.Vector, p.Limit = d.vector(), 10
		got := search(t, x, p)
		want := nearest(x.cfg.Metric, items, p.Vector, p.Limit, p.Filter)
		if len(got) != len(want) {
			t.Fatalf("Search() returns %d results, want %d", len(got), len(want))
		}
		for i, r := range got {
			item, exists := items[r.ID]
			switch {
			case !exists:
				t.Fatalf("Search() returns %s, which does not exist", r.ID)
			case p.Filter != nil && !p.Filter.Match(r.ID, item.Attr):
				t.Fatalf("Search() returns %s, which the filter does not select", r.ID)
			case math.Abs(r.Score-exactScore(x.cfg.Metric, p.Vector, item.Vector)) > 1e-5:
				t.Fatalf("score of %s is %g, want %g", r.ID, r.Score, exactScore(x.cfg.Metric, p.Vector, item.Vector))
			case i > 0 && (got[i-1].Score < r.Score || got[i-1].Score == r.Score && got[i-1].ID >= r.ID):
				t.Fatalf("results are not ordered: %+v", got)
			}
		}
		sum += recall(got, want)
	}
	return sum / float64(queries)
}

func TestSearchFindsTheNearest(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		metric  Metric
		graphAt int
		scale   bool // vectors of different lengths
		want    float64
	}{
		{"scan, cosine", Cosine, 0, true, 0.999},
		{"scan, dot", Dot, 0, true, 0.999},
		{"scan, L2", L2, 0, true, 0.999},
		{"graph, cosine", Cosine, 100, true, 0.99},
		{"graph, dot", Dot, 100, true, 0.97},
		{"graph, L2", L2, 100, true, 0.99},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := newData(t, testseed.Of(t), 100, 50)
			x := newIndex(t, Config{Dim: 100, Metric: test.metric, GraphAt: test.graphAt})
			items := d.items(5000, 0)
			if test.scale {
				for _, item := range items {
					f := 0.5 + d.r.Float32()
					for i := range item.Vector {
						item.Vector[i] *= f
					}
				}
			}
			upsert(t, x, items)
			if linked := x.Stats().Linked; (linked > 0) != (test.graphAt > 0) {
				t.Fatalf("the graph has %d rows", linked)
			}
			all := byID(items)
			for name, p := range map[string]SearchParams{
				"all": {}, "half": {Filter: modulo(2)}, "tenth": {Filter: modulo(10)}, "few": {Filter: modulo(900)}, "none": {Filter: modulo(1e9)},
			} {
				if got := check(t, x, d, all, p, 50); got < test.want {
					t.Errorf("%s: recall is %.4f, want %.4f", name, got, test.want)
				}
			}
			if got := check(t, x, d, all, SearchParams{Exact: true, Filter: modulo(3)}, 20); got != 1 {
				t.Errorf("exact: recall is %.4f, want 1", got)
			}
		})
	}
}

// Filters of a walk must be applied in the walk; most indexes have no graph large enough for it.
func TestWalkWithFilterFindsTheNearest(t *testing.T) {
	t.Parallel()
	d := newData(t, testseed.Of(t), 64, 100)
	x := newIndex(t, Config{Dim: 64, Metric: Cosine, GraphAt: 1000})
	items := d.items(24_000, 0)
	upsert(t, x, items)
	all := byID(items)
	if got := check(t, x, d, all, SearchParams{Filter: modulo(2)}, 50); got < 0.98 {
		t.Errorf("recall is %.4f, want 0.98", got)
	}
}

func TestEqualVectorsAreOrderedByID(t *testing.T) {
	t.Parallel()
	for _, graphAt := range []int{0, 100} {
		x := newIndex(t, Config{Dim: 3, Metric: Cosine, GraphAt: graphAt})
		var items []Item
		for _, i := range rand.Perm(90) {
			items = append(items, Item{ID: fmt.Sprintf("%03d", i), Vector: []float32{1, 2, 3}})
		}
		upsert(t, x, items)
		for _, p := range []SearchParams{{}, {Exact: true}} {
			p.Vector, p.Limit = []float32{1, 1, 1}, 5
			for i, r := range search(t, x, p) {
				if r.ID != fmt.Sprintf("%03d", i) {
					t.Errorf("result %d is %s", i, r.ID)
				}
			}
		}
	}
}

// Churn replaces and removes half of the items; then all of them.
func TestChurnKeepsRecallAndRows(t *testing.T) {
	t.Parallel()
	d := newData(t, testseed.Of(t), 64, 50)
	x := newIndex(t, Config{Dim: 64, Metric: Cosine, GraphAt: 1000})
	items := d.items(4000, 0)
	upsert(t, x, items)
	all, filter := byID(items), modulo(3)
	search(t, x, SearchParams{Vector: d.vector(), Filter: filter}) // selects the rows
	for round := range 3 {
		for i := 0; i < 4000; i += 30 {
			first := d.r.IntN(4000)
			part := d.items(15, first)
			if err := x.Upsert(part); err != nil {
				t.Fatal(err)
			}
			for _, item := range part {
				all[item.ID] = item
			}
			var ids []string
			for id := range all {
				if ids = append(ids, id); len(ids) == 12 {
					break
				}
			}
			if got := x.Delete(append(ids, "missing")); got != len(ids) {
				t.Fatalf("Delete() = %d, want %d", got, len(ids))
			}
			for _, id := range ids {
				delete(all, id)
			}
		}
		if x.Len() != len(all) {
			t.Fatalf("Len() = %d, want %d", x.Len(), len(all))
		}
		for _, f := range []*Filter{nil, filter} {
			if got := check(t, x, d, all, SearchParams{Filter: f}, 40); got < 0.97 {
				t.Errorf("round %d: recall is %.4f, want 0.98", round, got)
			}
		}
		checkGraph(t, x)
	}
	if s := x.Stats(); s.Rows > 8000 {
		t.Errorf("%d vectors use %d rows, of which are %d in use", s.Vectors, x.size, s.Rows)
	}
	for id := range all {
		if len(all) == 100 {
			break
		}
		x.Delete([]string{id})
		delete(all, id)
	}
	if got := check(t, x, d, all, SearchParams{}, 40); got < 0.97 {
		t.Errorf("after most were removed: recall is %.4f", got)
	}
	checkGraph(t, x)
	for id := range all {
		x.Delete([]string{id})
	}
	settle(t, x)
	if got := search(t, x, SearchParams{Vector: d.vector()}); len(got) != 0 {
		t.Errorf("an empty index returns %v", got)
	}
	items = d.items(2000, 0)
	upsert(t, x, items)
	if got := check(t, x, d, byID(items), SearchParams{}, 40); got < 0.98 {
		t.Errorf("after all were removed: recall is %.4f", got)
	}
}

// The last live row of a level is removed after the others of the level were retired.
func TestRepairKeepsLevelsApart(t *testing.T) {
	t.Parallel()
	d := newData(t, testseed.Of(t), 16, 50)
	x := newIndex(t, Config{Dim: 16, Metric: Cosine, GraphAt: 100})
	upsert(t, x, d.items(2000, 0))
	settle(t, x)
	last := ""
	for row := range x.size {
		if id := x.id(row); x.level(row) > 1 && last == "" {
			last = id
		} else if x.level(row) > 1 || row%3 == 0 {
			x.remove(id)
		}
	}
	x.maintain(0) // starts a repair
	x.repair.next = 0
	x.remove(last)
	x.replaceEntry()
	x.repairRows(0, x.size)
	checkGraph(t, x)
}

// checkGraph checks that links lead to rows of the graph in their level, without duplicates.
func checkGraph(t *testing.T, x *Index) {
	t.Helper()
	pending := 0
	for row := range x.size {
		s := x.state(row)
		if s == statePending {
			pending++
		}
		if s != stateLinked && s != stateDead && s != stateRetired {
			continue
		}
		for level := range x.level(row) + 1 {
			to := slices.Sorted(slices.Values(x.neighbors(row, level, new(linkList))))
			if len(slices.Compact(slices.Clone(to))) != len(to) || slices.Contains(to, row) || len(to) > maxDegree(level) {
				t.Fatalf("row %d has the neighbors %v", row, to)
			}
			for _, n := range to {
				if s := x.state(n); s != stateLinked && s != stateDead && s != stateRetired || x.level(n) < level {
					t.Fatalf("row %d links to row %d in state %d", row, n, s)
				}
			}
		}
	}
	if want := len(x.pending) - x.dropped; pending != want {
		t.Fatalf("%d rows are pending, the list has %d", pending, want)
	}
}

func TestGraphDoesNotDependOnWorkers(t *testing.T) {
	d := newData(t, testseed.Of(t), 32, 20)
	items := d.items(3000, 0)
	var snapshots [2]bytes.Buffer
	for i := range snapshots {
		x := newIndex(t, Config{Dim: 32, Metric: Cosine, GraphAt: 100})
		if i == 0 {
			upsert(t, x, items)
		} else {
			x.scratch.New = func() any { return new(scratch) }
			upsert(t, x, items)
		}
		if err := x.WriteSnapshot(&snapshots[i], nil); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(snapshots[0].Bytes(), snapshots[1].Bytes()) {
		t.Error("the same changes made different graphs")
	}
}

// source is a Source over a map.
type source struct {
	mu    sync.Mutex
	items map[string]Item
	reads atomic.Int64
}

func (s *source) Vectors(_ context.Context, ids []string, each func(i int, v []float32)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, id := range ids {
		if item, ok := s.items[id]; ok {
			s.reads.Add(1)
			each(i, slices.Clone(item.Vector))
		}
	}
	return nil
}

func (s *source) Attrs(_ context.Context, each func(id string, attr any)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, item := range s.items {
		each(id, item.Attr)
	}
	return nil
}

func TestSnapshotRestoresTheIndex(t *testing.T) {
	t.Parallel()
	d := newData(t, testseed.Of(t), 50, 20)
	items := d.items(4000, 0)
	src := &source{items: byID(items)}
	cfg := Config{Dim: 50, Metric: Cosine, GraphAt: 1000, Source: src, KeepBytes: 100 * 50 * 4}
	x := newIndex(t, cfg)
	upsert(t, x, items)
	for _, item := range items[:500] {
		delete(src.items, item.ID)
		x.Delete([]string{item.ID})
	}
	var b bytes.Buffer
	if err := x.WriteSnapshot(&b, []byte("meta")); err != nil {
		t.Fatal(err)
	}
	y, meta, err := ReadSnapshot(bytes.NewReader(b.Bytes()), cfg)
	if err != nil || string(meta) != "meta" {
		t.Fatalf("ReadSnapshot() = %q, %v", meta, err)
	}
	checkGraph(t, y)
	for range 20 {
		for _, p := range []SearchParams{{}, {Filter: modulo(2)}, {Exact: true}} {
			p.Vector = d.vector()
			if got, want := search(t, y, p), search(t, x, p); !slices.Equal(got, want) {
				t.Fatalf("the restored index returns %v, want %v", got, want)
			}
		}
	}
	if kept := y.kept.Load(); kept == 0 || kept > cfg.KeepBytes {
		t.Errorf("the index keeps %d bytes, want up to %d", kept, cfg.KeepBytes)
	}
	for _, item := range items[500:700] {
		delete(src.items, item.ID)
	}
	err = y.Retain(func(keep func(id string)) error {
		for id := range src.items {
			keep(id)
		}
		keep("missing")
		return nil
	})
	if err != nil || y.Len() != len(src.items) {
		t.Fatalf("Retain() = %v, then the index has %d items, want %d", err, y.Len(), len(src.items))
	}
	more := d.items(1000, 4000)
	for _, item := range more {
		src.items[item.ID] = item
	}
	upsert(t, y, more)
	if got := check(t, y, d, src.items, SearchParams{}, 40); got < 0.98 {
		t.Errorf("recall after more items is %.4f", got)
	}
}

func TestSnapshotRejectsDamage(t *testing.T) {
	t.Parallel()
	d := newData(t, testseed.Of(t), 8, 5)
	src := &source{}
	cfg := Config{Dim: 8, Metric: L2, GraphAt: 50, Source: src}
	x := newIndex(t, cfg)
	upsert(t, x, d.items(200, 0))
	var b bytes.Buffer
	if err := x.WriteSnapshot(&b, []byte("meta")); err != nil {
		t.Fatal(err)
	}
	for range 300 {
		damaged := slices.Clone(b.Bytes())
		if d.r.IntN(3) == 0 {
			damaged = damaged[:d.r.IntN(len(damaged))]
		} else {
			damaged[d.r.IntN(len(damaged))] ^= byte(1 + d.r.IntN(255))
		}
		if _, _, err := ReadSnapshot(bytes.NewReader(damaged), cfg); !errors.Is(err, ErrSnapshot) {
			t.Fatalf("ReadSnapshot() of damaged data = %v, want ErrSnapshot", err)
		}
	}
	for _, other := range []Config{{Dim: 9, Metric: L2, Source: src}, {Dim: 8, Metric: Dot, Source: src}} {
		if _, _, err := ReadSnapshot(bytes.NewReader(b.Bytes()), other); !errors.Is(err, ErrSnapshot) {
			t.Errorf("ReadSnapshot() with %+v = %v, want ErrSnapshot", other, err)
		}
	}
}

func FuzzReadSnapshot(f *testing.F) {
	src := &source{}
	cfg := Config{Dim: 2, Metric: L2, GraphAt: 1, Source: src}
	x := newIndex(f, cfg)
	upsert(f, x, []Item{{ID: "a", Vector: []float32{1, 2}}, {ID: "b", Vector: []float32{2, 1}}})
	var b bytes.Buffer
	if err := x.WriteSnapshot(&b, nil); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Fuzz(func(_ *testing.T, data []byte) {
		_, _, _ = ReadSnapshot(bytes.NewReader(data), cfg)
	})
}

func TestInvalidInputIsRejected(t *testing.T) {
	t.Parallel()
	for _, cfg := range []Config{{Metric: Cosine}, {Dim: MaxDim + 1, Metric: Cosine}, {Dim: 1}, {Dim: 1, Metric: 9}} {
		if _, err := New(cfg); err == nil {
			t.Errorf("New(%+v) succeeds", cfg)
		}
	}
	x := newIndex(t, Config{Dim: 2, Metric: Cosine})
	if err := x.Upsert([]Item{{ID: "a", Vector: []float32{1, 1}}, {ID: "b", Vector: []float32{1}}}); err == nil || x.Len() != 0 {
		t.Errorf("Upsert of another dimension = %v, then the index has %d items", err, x.Len())
	}
	if _, err := x.Search(t.Context(), SearchParams{Vector: []float32{1}, Limit: 1}); err == nil {
		t.Error("Search for another dimension succeeds")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := x.Search(ctx, SearchParams{Vector: []float32{1, 1}, Limit: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("Search with a canceled context = %v", err)
	}
}

// Searches during changes return existing items that their filters select.
func TestSearchDuringChanges(t *testing.T) {
	t.Parallel()
	const stable, searchers = 2000, 8
	d := newData(t, testseed.Of(t), 32, 20)
	x := newIndex(t, Config{Dim: 32, Metric: Cosine, GraphAt: 500})
	fixed := d.items(stable, 0)
	upsert(t, x, fixed)
	queries := d.items(200, 0)
	changed := make([][]Item, 60)
	for i := range changed {
		changed[i] = d.items(40, 10_000+d.r.IntN(1000))
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	for n := range searchers {
		wg.Go(func() {
			for i := n; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				f := modulo(1 + i%5)
				got := search(t, x, SearchParams{Vector: queries[i%len(queries)].Vector, Filter: f, Limit: 20})
				if len(got) < 20 {
					t.Errorf("Search() returns %d results, want 20", len(got))
				}
				for _, r := range got {
					if !f.Match(r.ID, r.Attr) {
						t.Errorf("Search() returns %s, which the filter does not select", r.ID)
					}
				}
			}
		})
	}
	var writers sync.WaitGroup
	for n := range 2 {
		writers.Go(func() {
			for i := n; i < len(changed); i += 2 {
				if err := x.Upsert(changed[i]); err != nil {
					t.Error(err)
				}
				var ids []string
				for _, item := range changed[i][:30] {
					ids = append(ids, item.ID)
				}
				x.Delete(ids)
			}
		})
	}
	writers.Wait()
	close(done)
	wg.Wait()
	checkGraph(t, x)
}
