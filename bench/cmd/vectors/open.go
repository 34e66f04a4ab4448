package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/bench/internal/vecdata"
	"github.com/holdfast-dev/holdfast/store/vector"
)

var collection = vector.Key{Owner: "bench", Collection: "vectors"}

func openStore(o *options) (*sqlite.Store, error) {
	return sqlite.Open(context.Background(), sqlite.Config{
		Dir: o.dir, Synchronous: "NORMAL", Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
}

// build stores documents in a data directory, and the snapshot of their index when it closes the
// store.
func build(ctx context.Context, w io.Writer, o *options) error {
	s, err := openStore(o)
	if err != nil {
		return err
	}
	documents, g, start := s.Vectors(vector.Config{}), vecdata.New(o.seed, o.dim, o.clusters), time.Now()
	for first := 0; first < o.rows; first += 1000 {
		part := make([]vector.Document, min(1000, o.rows-first))
		for i := range part {
			v, cluster := g.Vector()
			part[i] = vector.Document{ID: vecdata.ID(first + i), Embedding: v, Metadata: map[string]any{"cluster": float64(cluster), "n": float64((first + i) % 1000)}}
		}
		if _, err := documents.Upsert(ctx, collection, vector.WriteParams{Documents: part}); err != nil {
			return err
		}
		if (first+len(part))%100_000 == 0 {
			fmt.Fprintf(w, "%d documents after %.0f s\n", first+len(part), time.Since(start).Seconds())
		}
	}
	if err := s.Close(); err != nil {
		return err
	}
	fmt.Fprintf(w, "%d documents of dimension %d stored in %.0f s, with their index (seed %d)\n", o.rows, o.dim, time.Since(start).Seconds(), o.seed)
	return nil
}

// open measures the time from the start of the process's store to the first answer, and its memory.
func open(ctx context.Context, w io.Writer, o *options) error {
	debug.SetGCPercent(o.gogc)
	start := time.Now()
	s, err := openStore(o)
	if err != nil {
		return err
	}
	defer s.Close()
	opened := time.Since(start)
	documents := s.Vectors(vector.Config{})
	all, err := documents.Collections(ctx, collection.Owner)
	if err != nil || len(all) == 0 {
		return fmt.Errorf("data directory %s has no collection: %w", o.dir, err)
	}
	g := vecdata.New(o.seed+1, all[0].Dimension, o.clusters)
	search := func() error {
		v, _ := g.Vector()
		_, err := documents.Search(ctx, collection, vector.SearchParams{Queries: []vector.Query{{Embedding: v}}, Limit: 10})
		return err
	}
	if err := search(); err != nil {
		return err
	}
	first := time.Since(start)
	codes := all[0].Documents * int64(all[0].Dimension)
	fmt.Fprintf(w, "%d documents of dimension %d: codes alone are %d MB\n", all[0].Documents, all[0].Dimension, codes/1e6)
	fmt.Fprintf(w, "store opened after %.2f s, first search answered after %.2f s\n", opened.Seconds(), first.Seconds())
	printMemory(w, "after the first search")
	times := make([]time.Duration, o.searches)
	for i := range times {
		begin := time.Now()
		if err := search(); err != nil {
			return err
		}
		times[i] = time.Since(begin)
	}
	slices.Sort(times)
	printMemory(w, fmt.Sprintf("after %d searches", o.searches))
	fmt.Fprintf(w, "search p50 %.2f ms, p95 %.2f ms\n", ms(times[len(times)/2]), ms(times[len(times)*95/100]))
	runtime.GC()
	printMemory(w, "after a garbage collection")
	return nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// printMemory prints the resident memory of the process, its maximum, and the heap of Go.
func printMemory(w io.Writer, when string) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	status, _ := os.ReadFile("/proc/self/status")
	field := func(name string) int {
		_, rest, _ := strings.Cut(string(status), name+":")
		text, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
		kb, _ := strconv.Atoi(text)
		return kb * 1024 / 1e6
	}
	fmt.Fprintf(w, "%s: RSS %d MB (maximum %d MB), of which anonymous %d MB; Go heap %d MB\n", when, field("VmRSS"), field("VmHWM"), field("RssAnon"), m.HeapAlloc/1e6)
}
