package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	chromem "github.com/philippgille/chromem-go"

	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/bench/internal/vecdata"
	"github.com/holdfast-dev/holdfast/store/vector"
	"github.com/holdfast-dev/holdfast/store/vector/ann"
)

const k = 10 // results of a search

// world is the data of a comparison, with the closest ids to each query.
type world struct {
	*options
	g        *vecdata.Generator
	items    []ann.Item
	clusters []int
	queries  [][]float32
	of       []int // clusters of queries
}

func newWorld(o *options) *world {
	w := &world{options: o, g: vecdata.New(o.seed, o.dim, o.clusters)}
	w.items, w.clusters = make([]ann.Item, o.rows), make([]int, o.rows)
	for i := range w.items {
		v, cluster := w.g.Vector()
		w.items[i], w.clusters[i] = ann.Item{ID: vecdata.ID(i), Vector: v, Attr: i}, cluster
	}
	for range o.queries {
		v, cluster := w.g.Vector()
		w.queries, w.of = append(w.queries, v), append(w.of, cluster)
	}
	return w
}

// nearest returns the scores of the closest selected items to each query, by all float32 vectors.
func (w *world) nearest(selects func(query, item int) bool) [][]float64 {
	all := make([][]float64, len(w.queries))
	parallel(len(all), func(q int) {
		for i := range w.items {
			if selects == nil || selects(q, i) {
				all[q] = append(all[q], dot(w.queries[q], w.items[i].Vector))
			}
		}
		slices.SortFunc(all[q], func(a, b float64) int { return cmp.Compare(b, a) })
		all[q] = slices.Clone(all[q][:min(k, len(all[q]))])
	})
	return all
}

func dot(a, b []float32) (sum float64) {
	for i, x := range a {
		sum += float64(x) * float64(b[i])
	}
	return sum
}

// outcome is the quality and the cost of searches.
type outcome struct {
	recall float64
	fewest int     // results of a search that has k
	rate   float64 // searches per second
	cpu    float64 // searches per second of processor time
}

// measure runs a search per query, at least once and for about a second of processor time, on all
// processors if several is set. search returns scores.
func (w *world) measure(want [][]float64, several bool, search func(q int) ([]float64, error)) (outcome, error) {
	result := outcome{fewest: k}
	var sum float64
	var mu sync.Mutex
	var failed error
	once := func(q int) {
		scores, err := search(q)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			failed = err
			return
		}
		if len(scores) < len(want[q]) {
			result.fewest = min(result.fewest, len(scores))
		}
		found := 0
		for _, s := range scores {
			if len(want[q]) > 0 && s >= want[q][len(want[q])-1]-1e-6 {
				found++
			}
		}
		if len(want[q]) > 0 {
			sum += min(1, float64(found)/float64(len(want[q])))
		} else {
			sum++
		}
	}
	for q := range w.queries {
		once(q)
	}
	result.recall = sum / float64(len(w.queries))
	start, busy, searches := time.Now(), processorTime(), 0
	for processorTime()-busy < w.duration && failed == nil {
		n := min(len(w.queries), max(1, searches))
		if several {
			parallel(n, once)
		} else {
			for q := range n {
				once(q)
			}
		}
		searches += n
	}
	result.rate = float64(searches) / time.Since(start).Seconds()
	result.cpu = float64(searches) / (processorTime() - busy).Seconds()
	return result, failed
}

func scores(found []ann.Result, err error) ([]float64, error) {
	all := make([]float64, len(found))
	for i, r := range found {
		all[i] = r.Score
	}
	return all, err
}

func (w *world) search(ctx context.Context, x *ann.Index, p ann.SearchParams) func(q int) ([]float64, error) {
	return func(q int) ([]float64, error) {
		p := p
		p.Vector, p.Limit = w.queries[q], k
		return scores(x.Search(ctx, p))
	}
}

func (w *world) build(ctx context.Context, out io.Writer, graphAt int) (*ann.Index, error) {
	x, err := ann.New(ann.Config{Dim: w.dim, Metric: ann.Cosine, GraphAt: graphAt})
	if err != nil {
		return nil, err
	}
	start, busy := time.Now(), processorTime()
	for part := range slices.Chunk(w.items, 1000) {
		if err := x.Upsert(slices.Clone(part)); err != nil {
			return nil, err
		}
	}
	if err := x.Settle(ctx); err != nil {
		return nil, err
	}
	fmt.Fprintf(out, "built: %d vectors, %.0f per second, %.0f per second of processor time\n", len(w.items),
		float64(len(w.items))/time.Since(start).Seconds(), float64(len(w.items))/(processorTime()-busy).Seconds())
	return x, nil
}

// compare measures all contenders with the same vectors and writes the results and the plots.
func compare(ctx context.Context, out io.Writer, o *options) error {
	r, err := readResults(o.out)
	if err != nil {
		return err
	}
	w := newWorld(o)
	fmt.Fprintf(out, "%d vectors of dimension %d in %d clusters, %d queries, seed %d, %d processors\n", o.rows, o.dim, o.clusters, o.queries, o.seed, runtime.GOMAXPROCS(0))
	want := w.nearest(nil)
	if err := w.references(ctx, out, r, want); err != nil {
		return err
	}
	x, err := w.build(ctx, out, o.rows/2)
	if err != nil {
		return err
	}
	if err := w.graph(ctx, out, r, x, want); err != nil {
		return err
	}
	if err := w.filters(ctx, out, r, x); err != nil {
		return err
	}
	if err := w.churn(ctx, out, r, x); err != nil {
		return err
	}
	r.Note = fmt.Sprintf("%d vectors of %d components, seed %d", o.rows, o.dim, o.seed)
	return r.write(o.out)
}

func report(out io.Writer, name string, o outcome) {
	fmt.Fprintf(out, "%-34s recall %.4f  %9.1f searches/s  %9.1f per second of processor time  at least %d results\n", name, o.recall, o.rate, o.cpu, o.fewest)
}

// references measures chromem-go and scans.
func (w *world) references(ctx context.Context, out io.Writer, r *results, want [][]float64) error {
	loop, err := w.measure(want, true, func(q int) ([]float64, error) {
		all := make([]float64, len(w.items))
		for i := range w.items {
			all[i] = dot(w.queries[q], w.items[i].Vector)
		}
		slices.SortFunc(all, func(a, b float64) int { return cmp.Compare(b, a) })
		return all[:k], nil
	})
	if err != nil {
		return err
	}
	report(out, "loop over float32", loop)
	r.Recall.set("loop over float32", point{loop.recall, loop.cpu, ""})
	collection, err := w.chromem(ctx)
	if err != nil {
		return err
	}
	peer, err := w.measure(want, false, func(q int) ([]float64, error) { // a query uses all processors
		found, err := collection.QueryEmbedding(ctx, w.queries[q], k, nil, nil)
		all := make([]float64, len(found))
		for i, f := range found {
			all[i] = float64(f.Similarity)
		}
		return all, err
	})
	if err != nil {
		return err
	}
	report(out, "chromem-go", peer)
	r.Recall.set("chromem-go", point{peer.recall, peer.cpu, ""})
	r.chromem = peer
	scan, err := w.build(ctx, out, math.MaxInt)
	if err != nil {
		return err
	}
	for name, p := range map[string]ann.SearchParams{"holdfast, scan of codes": {}, "holdfast, exact": {Exact: true}} {
		o, err := w.measure(want, true, w.search(ctx, scan, p))
		if err != nil {
			return err
		}
		report(out, name, o)
		r.Recall.set(name, point{o.recall, o.cpu, ""})
	}
	return nil
}

func (w *world) chromem(ctx context.Context) (*chromem.Collection, error) {
	none := func(context.Context, string) ([]float32, error) { return nil, fmt.Errorf("no model") }
	collection, err := chromem.NewDB().CreateCollection("vectors", nil, none)
	if err != nil {
		return nil, err
	}
	documents := make([]chromem.Document, len(w.items))
	for i, item := range w.items {
		documents[i] = chromem.Document{ID: item.ID, Content: item.ID, Embedding: slices.Clone(item.Vector)}
	}
	return collection, collection.AddDocuments(ctx, documents, runtime.GOMAXPROCS(0))
}

// graph measures the index by the number of candidates, and the store that returns documents.
func (w *world) graph(ctx context.Context, out io.Writer, r *results, x *ann.Index, want [][]float64) error {
	var line []point
	for _, ef := range []int{12, 16, 24, 32, 48, 64, 96, 128, 192} {
		o, err := w.measure(want, true, w.search(ctx, x, ann.SearchParams{Ef: ef}))
		if err != nil {
			return err
		}
		report(out, fmt.Sprintf("holdfast, graph, %d candidates", ef), o)
		label := ""
		if ef == 48 {
			label = "default"
		}
		line = append(line, point{o.recall, o.cpu, label})
	}
	r.Recall.set("holdfast, graph", line...)
	documents, err := w.store(ctx)
	if err != nil {
		return err
	}
	key := vector.Key{Owner: "bench", Collection: "vectors"}
	o, err := w.measure(want, true, func(q int) ([]float64, error) {
		found, err := documents.Search(ctx, key, vector.SearchParams{Queries: []vector.Query{{Embedding: w.queries[q]}}, Limit: k})
		if err != nil {
			return nil, err
		}
		all := make([]float64, len(found[0].Hits))
		for i, h := range found[0].Hits {
			all[i] = h.Score
		}
		return all, nil
	})
	if err != nil {
		return err
	}
	report(out, "holdfast, store in memory", o)
	fmt.Fprintf(out, "%34s %.0f times chromem-go by processor time, %.0f times by time; goal 100\n", "", o.cpu/r.chromem.cpu, o.rate/r.chromem.rate)
	r.Recall.set("holdfast, store in memory", point{o.recall, o.cpu, ""})
	return nil
}

func (w *world) store(ctx context.Context) (vector.Store, error) {
	documents := inmem.New().Vectors(vector.Config{})
	for part := range slices.Chunk(w.items, vector.MaxWrite) {
		p := vector.WriteParams{Documents: make([]vector.Document, len(part))}
		for i, item := range part {
			p.Documents[i] = vector.Document{ID: item.ID, Text: item.ID, Embedding: item.Vector}
		}
		if _, err := documents.Upsert(ctx, vector.Key{Owner: "bench", Collection: "vectors"}, p); err != nil {
			return nil, err
		}
	}
	return documents, nil
}

// filters measures filters that select a share of the vectors: either any vectors, or the vectors of
// the clusters that are furthest from the query.
func (w *world) filters(ctx context.Context, out io.Writer, r *results, x *ann.Index) error {
	var anywhere, far, rates []point
	for _, percent := range []float64{50, 20, 10, 5, 2, 1, 0.1} {
		random := func(_, item int) bool { return float64(rand.New(rand.NewPCG(uint64(item), 5)).IntN(1000)) < percent*10 }
		for name, selects := range map[string]func(query, item int) bool{"any": random, "far": w.farClusters(percent)} {
			want := w.nearest(selects)
			o, err := w.measure(want, true, func(q int) ([]float64, error) {
				// Far filters differ by query, but not by every query, so that their selections are kept.
				f := &ann.Filter{Key: fmt.Sprint(name, percent), Match: func(_ string, attr any) bool { return selects(q, attr.(int)) }}
				if name == "far" {
					f.Key += fmt.Sprint(w.of[q] % farFilters)
				}
				return w.search(ctx, x, ann.SearchParams{Filter: f})(q)
			})
			if err != nil {
				return err
			}
			report(out, fmt.Sprintf("filter: %g %%, %s", percent, name), o)
			if name == "any" {
				anywhere, rates = append(anywhere, point{percent, o.recall, ""}), append(rates, point{percent, o.cpu, ""})
			} else {
				far = append(far, point{percent, o.recall, ""})
			}
		}
	}
	r.Filters.set("vectors anywhere", anywhere...)
	r.Filters.set("vectors of far clusters", far...)
	r.FilterRates.set("holdfast", rates...)
	return nil
}

const farFilters = 8 // filters by the cluster of the query

// farClusters returns a filter that selects the clusters furthest from one cluster, with about a
// share of all vectors.
func (w *world) farClusters(percent float64) func(query, item int) bool {
	sizes, centers := make([]int, w.options.clusters), make([][]float32, w.options.clusters)
	for i, c := range w.clusters {
		sizes[c]++
		centers[c] = w.items[i].Vector
	}
	selected := make([]map[int]bool, farFilters)
	for f := range selected {
		selected[f] = make(map[int]bool)
		var order []int
		for c, center := range centers {
			if center != nil && c != f {
				order = append(order, c)
			}
		}
		slices.SortFunc(order, func(a, b int) int { return cmp.Compare(dot(centers[f], centers[a]), dot(centers[f], centers[b])) })
		for count := 0; len(order) > 0 && float64(count) < percent/100*float64(w.rows); order = order[1:] {
			selected[f][order[0]] = true
			count += sizes[order[0]]
		}
	}
	return func(query, item int) bool { return selected[w.of[query]%farFilters][w.clusters[item]] }
}

// churn replaces vectors one by one, and measures the recall in between.
func (w *world) churn(ctx context.Context, out io.Writer, r *results, x *ann.Index) error {
	var line []point
	order := rand.New(rand.NewPCG(w.seed, 9)).Perm(w.rows)
	const steps = 10
	for step := range steps + 1 {
		o, err := w.measure(w.nearest(nil), true, w.search(ctx, x, ann.SearchParams{}))
		if err != nil {
			return err
		}
		percent := float64(step * 100 / steps)
		report(out, fmt.Sprintf("churn: %g %% replaced", percent), o)
		line = append(line, point{percent, o.recall, ""})
		if step == steps {
			break
		}
		start := time.Now()
		part := order[step*w.rows/steps : (step+1)*w.rows/steps]
		for _, i := range part {
			v, cluster := w.g.Vector()
			w.items[i].Vector, w.clusters[i] = v, cluster
			if i%2 == 0 { // a removal and an addition instead of an upsert
				x.Delete([]string{w.items[i].ID})
			}
			if err := x.Upsert([]ann.Item{w.items[i]}); err != nil {
				return err
			}
		}
		fmt.Fprintf(out, "%34s %.0f changes/s, %+v\n", "", float64(len(part))/time.Since(start).Seconds(), x.Stats())
	}
	r.Churn.set("holdfast, graph", line...)
	return nil
}

func parallel(n int, f func(i int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// processorTime is the processor time of the process, which other work on the machine changes little.
func processorTime() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
