package webhook

import (
	"container/heap"
	"time"
)

// maxDueTimes is the maximum number of due times. Lanes beyond it are found by polling.
const maxDueTimes = 4096

// dueTimes is a priority queue of the times at which lanes become due without a notification
// of the store, in steps of dueStep. It is not safe for concurrent use.
type dueTimes struct {
	times  timeHeap
	queued map[int64]bool
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

// add adds a time, and reports whether it is now the earliest.
func (d *dueTimes) add(due time.Time) (first bool) {
	step := (due.UnixNano() + int64(dueStep) - 1) / int64(dueStep)
	if d.queued[step] || len(d.times) >= maxDueTimes {
		return false
	}
	if d.queued == nil {
		d.queued = make(map[int64]bool)
	}
	d.queued[step] = true
	heap.Push(&d.times, step)
	return d.times[0] == step
}

// next removes past times and returns the time until the next one, at most limit.
func (d *dueTimes) next(now time.Time, limit time.Duration) time.Duration {
	for len(d.times) > 0 {
		wait := time.Duration(d.times[0]*int64(dueStep) - now.UnixNano())
		if wait > 0 {
			return min(wait, limit)
		}
		delete(d.queued, heap.Pop(&d.times).(int64))
	}
	return limit
}
