package postgres

import (
	"math"
	"sync"
	"time"
)

const (
	// A claim may miss a due waiting entry if the clocks of two replicas differ by more than waitingSlack, or if the
	// entry's commit took longer than waitingSlack. A later claim finds it within waitingCheckInterval.
	waitingSlack         = time.Minute
	waitingCheckInterval = 15 * time.Second
)

// waitingBound is the due time from which claims read the waiting entries of a queue. So they do not walk the index
// entries of earlier waiting entries, which PostgreSQL keeps while a session holds a snapshot.
type waitingBound struct {
	mu    sync.Mutex
	from  int64     // entries due before were made ready
	full  time.Time // when a claim read the entries due before
	early int       // number of entries that were added before from
}

// start returns the due time from which the next claim reads entries, and the value early for promoted.
func (b *waitingBound) start() (from int64, early int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.full) >= waitingCheckInterval {
		return math.MinInt64, b.early
	}
	return b.from, b.early
}

// promoted records that a claim has made all entries ready that were due from a time until now.
func (b *waitingBound) promoted(from int64, early int, now int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.from = now - waitingSlack.Milliseconds()
	if from == math.MinInt64 && early == b.early {
		b.full = time.Now()
	}
}

// added records an entry that this process has added.
func (b *waitingBound) added(due int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if due < b.from {
		b.early++
		b.full = time.Time{}
	}
}
