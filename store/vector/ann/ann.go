package ann

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"
)

// Metric is the measure by which vectors are close.
type Metric uint8

// The metrics.
const (
	Cosine Metric = 1 + iota // cosine of the angle, from -1 to 1
	Dot                      // inner product
	L2                       // Euclidean distance; the score is 1/(1+distance)
)

// Limits of a configuration.
const (
	MaxDim = 16384
	// DefaultGraphAt is the number of vectors from which scans take longer than a millisecond.
	DefaultGraphAt = 50_000
)

const (
	degree      = 16         // links of a row in an upper level, and links that a new row makes
	baseDegree  = 2 * degree // links of a row in level 0
	efBuild     = 100        // candidates for the links of a new row
	defaultEf   = 64         // candidates of a search
	smallEf     = 48         // candidates of a search without a filter in up to smallGraph vectors
	smallGraph  = 250_000
	maxAdapt    = 1000       // candidates from which a search adds no more
	scanBroad   = 10_000     // number of rows up to which those that a filter selects are scanned
	scanFloat   = 256        // number of rows up to which a scan reads float32 vectors if they are kept
	batchRows   = 128        // rows that are linked at the same time
	maxFilters  = 64         // filters with a selection that is kept
	levelFactor = 0.36067376 // 1/ln(degree)
)

// Source reads what an index does not keep.
type Source interface {
	// Vectors calls each with the vectors of ids; i is the position in ids. It omits ids that do
	// not exist any more.
	Vectors(ctx context.Context, ids []string, each func(i int, v []float32)) error
	// Attrs calls each with all ids and their attributes.
	Attrs(ctx context.Context, each func(id string, attr any)) error
}

// Config describes an index.
type Config struct {
	// Dim is the number of components, 1 to [MaxDim].
	Dim    int
	Metric Metric
	// GraphAt is the number of vectors from which the index has a graph. 0 means
	// [DefaultGraphAt].
	GraphAt int
	// Source reads float32 vectors and attributes. If it is nil, the index keeps them.
	Source Source
	// KeepBytes is the memory for float32 vectors that were read from Source.
	KeepBytes int64
}

// Item is an entry of an index.
type Item struct {
	ID string
	// Vector belongs to the index. It must be finite, and under [Cosine] it must not be zero.
	Vector []float32
	// Attr is passed to filters. Results have it if the index has no Source.
	Attr any
}

// Index is a set of vectors.
type Index struct {
	changes sync.Mutex // is held by a change from start to end

	// mu guards the following. A change holds it to write; it reads without.
	mu      sync.RWMutex
	version uint64 // number of changes
	*graph
	rows    idTable
	free    []uint32 // rows to use again
	pending []uint32 // rows without links; some of them may be removed
	dropped int      // removed rows in pending
	dead    int      // removed rows in the graph
	linked  int      // rows in the graph, including removed ones
	filters filterCache
	repair  repair
}

// New returns an empty index.
func New(cfg Config) (*Index, error) {
	if cfg.Dim < 1 || cfg.Dim > MaxDim {
		return nil, fmt.Errorf("ann: dimension is %d, want 1 to %d", cfg.Dim, MaxDim)
	}
	if cfg.Metric < Cosine || cfg.Metric > L2 {
		return nil, fmt.Errorf("ann: unknown metric %d", cfg.Metric)
	}
	if cfg.GraphAt == 0 {
		cfg.GraphAt = DefaultGraphAt
	}
	g := &graph{table: &table{cfg: cfg, stride: (cfg.Dim + 63) &^ 63}, upper: upperLinks{slots: make(map[place]uint32)}}
	x := &Index{graph: g, rows: idTable{seed: maphash.MakeSeed()}}
	x.filters.byKey = make(map[string]*selection)
	x.scratch.New = func() any { return new(scratch) }
	return x, nil
}

// Len returns the number of vectors.
func (x *Index) Len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.rows.count
}

// Stats describes the rows of an index.
type Stats struct {
	Vectors int // vectors that searches can return
	Linked  int // of these, vectors in the graph
	Removed int // removed vectors that still have a row
	Rows    int // rows in use
}

// Stats returns the state of the index.
func (x *Index) Stats() Stats {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return Stats{Vectors: x.rows.count, Linked: x.linked - x.dead, Removed: x.dead + x.dropped, Rows: int(x.size) - len(x.free)}
}

// Bytes returns about the memory of the index, without attributes.
func (x *Index) Bytes() int64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	all := x.bytes() + int64(4*len(x.rows.slots)+linkedBytes*x.count+upperBytes*len(x.upper.slots))
	for _, s := range x.filters.byKey {
		all += int64(8 * len(s.rows))
	}
	return all
}
