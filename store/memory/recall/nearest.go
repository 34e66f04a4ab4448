package recall

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/store/memory"
)

// Nearest keeps the n facts with the greatest cosine, of equal ones the newest, then by id.
type Nearest struct {
	n     int
	worst nearHeap
}

type nearFact struct {
	cosine    float64
	updatedAt time.Time
	id        string
	read      memory.Memory
}

// NewNearest returns a Nearest for n facts, at least 1.
func NewNearest(n int) *Nearest { return &Nearest{n: n} }

// Add adds a fact. It calls read only if the fact is one of the nearest so far.
func (x *Nearest) Add(cosine float64, updatedAt time.Time, id string, read func() memory.Memory) {
	f := nearFact{cosine: cosine, updatedAt: updatedAt, id: id}
	if len(x.worst) == x.n {
		if compareNear(&f, &x.worst[0]) > 0 {
			return
		}
		heap.Pop(&x.worst)
	}
	f.read = read()
	heap.Push(&x.worst, f)
}

// Found returns the nearest facts, best first.
func (x *Nearest) Found() []Near {
	slices.SortFunc(x.worst, func(a, b nearFact) int { return compareNear(&a, &b) })
	found := make([]Near, len(x.worst))
	for i := range x.worst {
		found[i] = Near{x.worst[i].read, x.worst[i].cosine}
	}
	return found
}

func compareNear(a, b *nearFact) int {
	return cmp.Or(cmp.Compare(b.cosine, a.cosine), compareEqual(a.updatedAt, b.updatedAt, a.id, b.id))
}

// nearHeap has the worst fact first.
type nearHeap []nearFact

func (h nearHeap) Len() int           { return len(h) }
func (h nearHeap) Less(i, j int) bool { return compareNear(&h[i], &h[j]) > 0 }
func (h nearHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *nearHeap) Push(x any)        { *h = append(*h, x.(nearFact)) }

func (h *nearHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
