package postgres

import (
	"math"
	"sync"
	"time"
)

const (
	// Claims find a waiting entry late if the clocks of two replicas differ, or its commit takes longer, by more
	// than waitingSlack, and then within waitingCheckInterval.
	waitingSlack         = time.Minute
	waitingCheckInterval = 15 * time.Second
)

// waitingBound is the due time from which on claims read the waiting entries of a queue. So they do not walk index
// entries of earlier ones, which PostgreSQL keeps while a session holds a snapshot.
type waitingBound struct {
	mu    sync.Mutex
	from  int64     // entries due before were made ready
	full  time.Time // when a claim read the entries due before
	early int       // number of entries that were added before from
}

// start returns the due time from which on the next claim reads entries, and what it passes to promoted.
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
