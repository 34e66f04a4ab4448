//go:build unix

package ann

import (
	"bytes"
	"flag"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

var (
	benchRows = flag.Int("rows", 10_000, "number of vectors of BenchmarkIndex")
	benchDim  = flag.Int("dim", 384, "dimension of the vectors of BenchmarkIndex")
	benchSeed = flag.Uint64("seed", 1, "seed of the vectors of BenchmarkIndex")
)

// BenchmarkIndex measures an index of clustered vectors: queries per second on all CPUs, recall at
// 10, filters, and the time and memory to read a snapshot.
//
//	go test -run '^$' -bench Index -benchtime 3s ./internal/ann -rows 100000
func BenchmarkIndex(b *testing.B) {
	d, x, items := benchIndex(b)
	queries := benchQueries(d)
	benchSearches(b, x, items, queries)
	b.Run("snapshot", func(b *testing.B) { benchSnapshot(b, x, items) })
}

// BenchmarkChurn replaces half of the vectors, one by one, before it searches.
func BenchmarkChurn(b *testing.B) {
	d, x, items := benchIndex(b)
	start, cpu := time.Now(), cpuTime(b)
	for _, i := range rand.New(rand.NewPCG(*benchSeed, 9)).Perm(len(items))[:len(items)/2] {
		items[i].Vector = d.vector()
		if err := x.Upsert([]Item{items[i]}); err != nil {
			b.Fatal(err)
		}
	}
	b.Logf("churn: %.0f vectors/s, %.0f per second of CPU time, %+v", float64(len(items)/2)/time.Since(start).Seconds(),
		float64(len(items)/2)/(cpuTime(b)-cpu).Seconds(), x.Stats())
	queries := benchQueries(d)
	b.Run("search", func(b *testing.B) { benchSearch(b, x, items, queries, SearchParams{}) })
}

func benchIndex(b *testing.B) (*data, *Index, []Item) {
	d := newData(b, *benchSeed, *benchDim, 2000)
	items := d.items(*benchRows, 0)
	x := newIndex(b, Config{Dim: *benchDim, Metric: Cosine, GraphAt: min(DefaultGraphAt, *benchRows/2)})
	start, cpu := time.Now(), cpuTime(b)
	upsert(b, x, items)
	settle(b, x)
	b.Logf("build: %d vectors of dimension %d, %.0f vectors/s, %.0f per second of CPU time", len(items), *benchDim,
		float64(len(items))/time.Since(start).Seconds(), float64(len(items))/(cpuTime(b)-cpu).Seconds())
	return d, x, items
}

func benchQueries(d *data) [][]float32 {
	queries := make([][]float32, 200)
	for i := range queries {
		queries[i] = d.vector()
	}
	return queries
}

func benchSearches(b *testing.B, x *Index, items []Item, queries [][]float32) {
	for _, ef := range []int{40, 64, 80, 160} {
		b.Run("ef "+strconv.Itoa(ef), func(b *testing.B) { benchSearch(b, x, items, queries, SearchParams{Ef: ef}) })
	}
	for _, n := range []int{2, 10, 100} {
		b.Run("filter one of "+strconv.Itoa(n), func(b *testing.B) {
			benchSearch(b, x, items, queries, SearchParams{Filter: modulo(n)})
		})
	}
	b.Run("exact", func(b *testing.B) { benchSearch(b, x, items, queries, SearchParams{Exact: true}) })
}

// benchSearch measures recall with one search per query, then the rate of searches.
func benchSearch(b *testing.B, x *Index, items []Item, queries [][]float32, p SearchParams) {
	p.Limit = 10
	var sum float64
	for _, q := range queries[:50] {
		exact, approximate := p, p
		exact.Vector, exact.Exact, approximate.Vector = q, true, q
		got, want := search(b, x, approximate), search(b, x, exact)
		if len(got) != len(want) {
			b.Fatalf("Search() returns %d results, want %d", len(got), len(want))
		}
		sum += recall(got, want)
	}
	b.ResetTimer()
	cpu := cpuTime(b)
	var mu sync.Mutex
	next := 0
	b.RunParallel(func(pb *testing.PB) {
		mu.Lock()
		p := p
		i := next
		next += 100
		mu.Unlock()
		for pb.Next() {
			p.Vector = queries[i%len(queries)]
			i++
			search(b, x, p)
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "queries/s")
	b.ReportMetric(float64(b.N)/(cpuTime(b)-cpu).Seconds(), "queries/cpu-s")
	b.ReportMetric(sum/50, "recall@10")
}

// cpuTime returns the CPU time of the process, which does not depend on the load of the machine.
func cpuTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func benchSnapshot(b *testing.B, x *Index, items []Item) {
	var buf bytes.Buffer
	if err := x.WriteSnapshot(&buf, nil); err != nil {
		b.Fatal(err)
	}
	cfg := x.cfg
	cfg.Source = &source{items: byID(items)}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var y *Index
	for b.Loop() {
		var err error
		if y, _, err = ReadSnapshot(bytes.NewReader(buf.Bytes()), cfg); err != nil {
			b.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "MB")
	b.ReportMetric(float64(buf.Len())/1e6, "MB-snapshot")
	runtime.KeepAlive(y)
}
