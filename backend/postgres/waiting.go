package postgres

import (
	"math"
	"sync"
	"time"
)

const (
	// waitingSlack is how much the clocks of replicas may differ, and how long a commit may take, before an entry
	// is found late. waitingCheckInterval is how late it may be found.
	waitingSlack         = time.Minute
	waitingCheckInterval = 15 * time.Second
)

// waitingBound is where the waiting entries of a queue start. Claims need not walk index entries of earlier ones
// that a held snapshot keeps, see eras.
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
