package push

import (
	"container/heap"
	"time"
)

// duesMost is how many due times are kept; what is due later than those is found by
// polling.
const duesMost = 4096

// dues are the times, in steps of 10 ms, at which lanes will be due that nobody else
// announces. They are not safe for concurrent use.
type dues struct {
	times timeHeap
	known map[int64]bool
}

type timeHeap []int64

func (h timeHeap) Len() int           { return len(h) }
func (h timeHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h timeHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *timeHeap) Push(x any)        { *h = append(*h, x.(int64)) }
func (h *timeHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

const dueStep = 10 * time.Millisecond

// add notes a time, and reports whether it is before all others.
func (d *dues) add(due time.Time) (first bool) {
	step := (due.UnixNano() + int64(dueStep) - 1) / int64(dueStep)
	if d.known[step] || len(d.times) >= duesMost {
		return false
	}
	if d.known == nil {
		d.known = make(map[int64]bool)
	}
	d.known[step] = true
	heap.Push(&d.times, step)
	return d.times[0] == step
}

// next removes what has come and returns how long it is to the next, or most if there
// is none before.
func (d *dues) next(now time.Time, most time.Duration) time.Duration {
	for len(d.times) > 0 {
		wait := time.Duration(d.times[0]*int64(dueStep) - now.UnixNano())
		if wait > 0 {
			return min(wait, most)
		}
		delete(d.known, heap.Pop(&d.times).(int64))
	}
	return most
}
