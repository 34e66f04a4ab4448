package ann

import (
	"math"
	"sync/atomic"
	"unsafe"
)

const (
	blockBits = 12
	blockRows = 1 << blockBits
	blockMask = blockRows - 1
)

// state is the state of a row.
type state uint8

const (
	stateFree    state = iota
	statePending       // can be found, is not in the graph
	stateLinked        // can be found, is in the graph
	stateDropped       // removed before it was linked
	stateDead          // removed, is a waypoint in the graph
	stateRetired       // dead; the current repair removes all links to it
)

// block has the memory of up to blockRows rows, so that a large index grows without copying.
type block struct {
	memory *region // of the next slices without pointers
	codes  []int8
	ids    names
	state  []state
	// scale is the value of a code of 1; under Cosine, of the vector divided by its norm.
	scale []float32
	norm  []float32 // Euclidean norm of the vector
	// vectors points to the components of kept vectors. Searches fill it from the source. It is nil
	// if the index keeps none.
	vectors []atomic.Pointer[float32]
	attrs   []any // nil if there is a source
	links   blockLinks
}

// table has the rows of an index.
type table struct {
	cfg    Config
	stride int // bytes between codes, a multiple of 64
	kept   atomic.Int64
	blocks []*block
	size   uint32 // rows in use, including removed ones
	// idBytes is the size of the ids of these rows.
	idBytes int64
}

// room allocates memory for a row. The first block grows, so that a small index is small.
func (x *table) room(row uint32) {
	if int(row>>blockBits) == len(x.blocks) {
		x.blocks = append(x.blocks, &block{links: blockLinks{limit: baseDegree}})
	}
	b, i := x.block(row)
	if i < len(b.state) {
		return
	}
	n := blockRows
	if len(x.blocks) == 1 {
		n = min(blockRows, max(16, 2*len(b.state)))
	}
	old := *b
	memory := allocate(n * x.rowBytes())
	m := memory.bytes
	b.codes, b.scale, b.norm = carve[int8](&m, n*x.stride), carve[float32](&m, n), carve[float32](&m, n)
	spans := carve[span](&m, n)
	b.state = carve[state](&m, n)
	copy(spans, old.ids.spans)
	b.ids.spans = spans
	copy(b.codes, old.codes)
	copy(b.scale, old.scale)
	copy(b.norm, old.norm)
	copy(b.state, old.state)
	b.memory = memory // releases the old one
	if x.cfg.Source == nil || x.cfg.KeepBytes > 0 {
		b.vectors = grown(b.vectors, n)
	}
	if x.cfg.Source == nil {
		b.attrs = grown(b.attrs, n)
	}
}

// rowBytes returns the number of bytes of a row that room allocates in one piece.
func (x *table) rowBytes() int { return x.stride + 4 + 4 + 8 + 1 }

// bytes returns about the memory of the blocks and of kept vectors.
func (x *table) bytes() int64 {
	if len(x.blocks) == 0 {
		return 0
	}
	b := x.blocks[0]
	row := x.rowBytes()
	if b.vectors != nil {
		row += 8
	}
	if b.attrs != nil {
		row += 16
	}
	return x.kept.Load() + x.idBytes + int64(row*len(b.state)*len(x.blocks))
}

// grown returns a copy of s with n elements.
func grown[E any](s []E, n int) []E {
	g := make([]E, n)
	copy(g, s)
	return g
}

// region is memory without pointers. If it is large, it is outside of the heap of Go where that is
// possible, so that the garbage collector does not let the heap grow by as much again. It is released when
// nothing refers to the region: whoever uses the bytes must hold a reference to it, as all methods of an
// index do by its locks.
type region struct{ bytes []byte }

// minRegion is the size from which memory is outside of the heap.
const minRegion = 32 << 10

// allocate returns zeroed memory.
func allocate(n int) *region {
	r := new(region)
	if n >= minRegion {
		r.bytes = mapMemory(r, n)
	}
	if r.bytes == nil {
		r.bytes = make([]byte, n)
	}
	return r
}

// carve takes n elements without pointers from the start of m.
func carve[E int8 | uint8 | uint32 | float32 | state | span](m *[]byte, n int) []E {
	var e E
	part := (*m)[:n*int(unsafe.Sizeof(e))]
	*m = (*m)[len(part):]
	return unsafe.Slice((*E)(unsafe.Pointer(&part[0])), n)
}

func (x *table) block(row uint32) (*block, int) {
	return x.blocks[row>>blockBits], int(row & blockMask)
}

func (x *table) id(row uint32) string {
	b, i := x.block(row)
	return b.ids.id(i)
}

func (x *table) state(row uint32) state {
	b, i := x.block(row)
	return b.state[i]
}

func (x *table) setState(row uint32, s state) {
	b, i := x.block(row)
	b.state[i] = s
}

func (s state) live() bool { return s == statePending || s == stateLinked }

func (x *table) live(row uint32) bool { return x.state(row).live() }

func (x *table) code(row uint32) []int8 {
	b, i := x.block(row)
	return b.codes[i*x.stride:][:x.stride:x.stride]
}

// vector returns the kept vector of a row, or nil.
func (x *table) vector(row uint32) []float32 {
	b, i := x.block(row)
	if b.vectors == nil {
		return nil
	}
	p := b.vectors[i].Load()
	if p == nil {
		return nil
	}
	return unsafe.Slice(p, x.cfg.Dim)
}

// keep keeps the vector of a row if there is memory for it.
func (x *table) keep(row uint32, v []float32) {
	b, i := x.block(row)
	if b.vectors == nil {
		return
	}
	size := int64(4 * x.cfg.Dim)
	if x.kept.Add(size) > x.cfg.KeepBytes && x.cfg.Source != nil || !b.vectors[i].CompareAndSwap(nil, &v[0]) {
		x.kept.Add(-size)
	}
}

// forget releases the vector of a row.
func (x *table) forget(row uint32) {
	b, i := x.block(row)
	if b.vectors != nil && b.vectors[i].Swap(nil) != nil {
		x.kept.Add(int64(-4 * x.cfg.Dim))
	}
}

// query is a vector that rows are compared with: its code as in a block, and the vector itself.
type query struct {
	code        []int8
	scale, norm float32
	vector      []float32 // nil for a row
}

// encode writes the code of v and returns its scale and norm.
func (x *table) encode(code []int8, v []float32) (scale, norm float32) {
	var sum, largest float64
	for _, c := range v {
		sum += float64(c) * float64(c)
		largest = max(largest, math.Abs(float64(c)))
	}
	root := math.Sqrt(sum)
	if largest == 0 {
		clear(code)
		return 0, 0
	}
	step := 127 / largest
	for i, c := range v {
		code[i] = int8(math.RoundToEven(float64(c) * step))
	}
	clear(code[len(v):])
	if x.cfg.Metric == Cosine {
		return float32(1 / (step * root)), float32(root)
	}
	return float32(1 / step), float32(root)
}

func (x *table) query(v []float32) query {
	q := query{code: make([]int8, x.stride), vector: v}
	q.scale, q.norm = x.encode(q.code, v)
	return q
}

// rowQuery returns a row as a query.
func (x *table) rowQuery(row uint32) query {
	b, i := x.block(row)
	return query{code: x.code(row), scale: b.scale[i], norm: b.norm[i]}
}

// closeness estimates how close a row is by its code. It is larger for closer rows.
func (x *table) closeness(q *query, row uint32) float32 {
	b, i := x.block(row)
	code := b.codes[i*x.stride:][:x.stride:x.stride]
	product := float32(dotInt8(q.code, code)) * q.scale * b.scale[i]
	if x.cfg.Metric == L2 {
		return 2*product - q.norm*q.norm - b.norm[i]*b.norm[i]
	}
	return product
}

// precise returns the score of a vector. Under Cosine, vectors in the same direction have the same
// score.
func (x *table) precise(query, v []float32) float64 {
	var dot, a, b, squares float64
	switch x.cfg.Metric {
	case Cosine:
		for i := range query {
			x, y := float64(query[i]), float64(v[i])
			dot, a, b = dot+x*y, a+x*x, b+y*y
		}
		return max(-1, min(1, float64(float32(dot/math.Sqrt(a*b)))))
	case Dot:
		for i := range query {
			dot += float64(query[i]) * float64(v[i])
		}
		return dot
	default:
		for i := range query {
			d := float64(query[i]) - float64(v[i])
			squares += d * d
		}
		return 1 / (1 + math.Sqrt(squares))
	}
}

// score computes the score of a vector with a norm, with the precision of float32.
func (x *table) score(q *query, v []float32, norm float32) float64 {
	switch x.cfg.Metric {
	case Cosine:
		cosine := float64(dotFloat(q.vector, v)) / (float64(q.norm) * float64(norm))
		return max(-1, min(1, cosine))
	case Dot:
		return float64(dotFloat(q.vector, v))
	default:
		return 1 / (1 + math.Sqrt(float64(squaredDistance(q.vector, v))))
	}
}
