//go:build unix

package ann

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
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
//	go test -run '^$' -bench Index -benchtime 3s ./store/vector/ann -rows 100000
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

// BenchmarkOpen measures the time and the memory to read the snapshot of an index with random links,
// because a graph of a million vectors takes minutes to build and has the same size.
//
//	go test -run '^$' -bench Open ./store/vector/ann -rows 1000000
func BenchmarkOpen(b *testing.B) {
	file, err := os.Create(filepath.Join(b.TempDir(), "snapshot"))
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	if err := randomIndex(b, *benchRows, *benchDim).WriteSnapshot(file, nil); err != nil {
		b.Fatal(err)
	}
	var x *Index
	var rss, heap int64
	var busy time.Duration
	for b.Loop() {
		b.StopTimer()
		x = nil
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			b.Fatal(err)
		}
		rssBefore, heapBefore := residentMemory(b)
		cpu := cpuTime(b)
		b.StartTimer()
		if x, _, err = ReadSnapshot(file, Config{Dim: *benchDim, Metric: Cosine, Source: &source{}}); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		busy += cpuTime(b) - cpu
		rss, heap = residentMemory(b)
		rss, heap = rss-rssBefore, heap-heapBefore
		b.StartTimer()
	}
	b.ReportMetric(float64(*benchRows**benchDim)/1e6, "MB-codes")
	b.ReportMetric(busy.Seconds()/float64(b.N), "cpu-s/op")
	b.ReportMetric(float64(x.Bytes())/1e6, "MB-index")
	b.ReportMetric(float64(rss)/1e6, "MB-resident")
	b.ReportMetric(float64(heap)/1e6, "MB-heap")
}

// residentMemory returns the memory of the process and its heap after a garbage collection.
func residentMemory(b *testing.B) (rss, heap int64) {
	b.Helper()
	for range 3 { // cleanups of what is unreachable run after a collection
		debug.FreeOSMemory()
		time.Sleep(100 * time.Millisecond)
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	status, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Fatalf("the benchmark needs Linux: %v", err)
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(status), &size, &pages); err != nil {
		b.Fatal(err)
	}
	return pages * int64(os.Getpagesize()), int64(stats.HeapAlloc)
}

// randomIndex returns an index with random links. The number of links is the same as for
// clustered data.
func randomIndex(b *testing.B, rows, dim int) *Index {
	b.Helper()
	const links = 26
	r := rand.New(rand.NewPCG(*benchSeed, 3))
	x := newIndex(b, Config{Dim: dim, Metric: Cosine, Source: &source{}})
	v := make([]float32, dim)
	for row := range rows {
		for i := range v {
			v[i] = float32(int8(r.Uint32()))
		}
		if err := x.Load([]Item{{ID: fmt.Sprintf("d%07d", row), Vector: v}}); err != nil {
			b.Fatal(err)
		}
	}
	x.pending = nil
	var levels [16][]uint32
	for row := range x.size {
		top := levelOf(x.id(row))
		x.insert(placement{row, make([][]uint32, top+1)})
		for level := range top + 1 {
			levels[level] = append(levels[level], row)
		}
		x.setState(row, stateLinked)
		x.linked++
	}
	for level, of := range levels {
		for _, row := range of {
			to := make([]uint32, min(links, maxDegree(level)))
			for i := range to {
				to[i] = of[r.IntN(len(of))]
			}
			x.setNeighbors(row, level, to)
		}
	}
	return x
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
