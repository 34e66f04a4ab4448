package cli

import (
	"context"
	"math"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Parameters of the garbage collector. With Go's default a heap of a few megabytes is collected
// dozens of times per second.
const (
	gcHeadroom       = 64 << 20
	gcMaxPercent     = 400
	gcDefaultPercent = 100
	gcInterval       = time.Second
	// A process is idle if it allocated less than idleBytes in each of idleTicks ticks.
	idleBytes = 4 << 20
	idleTicks = 10
)

// gcHeadroomOf returns the number of bytes of garbage that a server with the given storage may keep
// uncollected. With storage in memory each collection scans a large heap, so an eighth of the
// limit may be garbage.
func gcHeadroomOf(inMemory bool, limit int64) uint64 {
	if inMemory {
		return max(gcHeadroom, uint64(limit)/8)
	}
	return gcHeadroom
}

// tuneGC lets the heap grow by up to headroom bytes between collections until ctx is done. Larger
// heaps use Go's default, with more frequent collections near limit bytes. tuneGC returns free
// memory to the system when the process becomes idle. It does not change what the variables GOGC
// and GOMEMLIMIT set.
func (a *app) tuneGC(ctx context.Context, limit int64, headroom uint64) {
	if a.env.values["GOMEMLIMIT"] != "" {
		return
	}
	debug.SetMemoryLimit(limit)
	defer debug.SetMemoryLimit(math.MaxInt64)
	if a.env.values["GOGC"] != "" {
		<-ctx.Done()
		return
	}
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	current := gcDefaultPercent
	var idle idleDetector
	defer func() { debug.SetGCPercent(gcDefaultPercent) }()
	tick := time.NewTicker(gcInterval)
	defer tick.Stop()
	for {
		metrics.Read(sample)
		if percent := gcPercent(sample[0].Value.Uint64(), headroom); percent != current {
			debug.SetGCPercent(percent)
			current = percent
		}
		if idle.becameIdle(sample[1].Value.Uint64()) {
			debug.FreeOSMemory()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// idleDetector detects when a process becomes idle. Until its memory is released, the Go runtime
// keeps two to five times the memory in use after the heap was large.
type idleDetector struct {
	allocated uint64 // at the last tick
	ticks     int    // since it allocated much
}

// becameIdle receives the number of bytes allocated since the start of the process, once per tick. It
// returns true once per idle period.
func (q *idleDetector) becameIdle(allocated uint64) bool {
	q.ticks++
	if allocated-q.allocated >= idleBytes {
		q.ticks = 0
	}
	q.allocated = allocated
	return q.ticks == idleTicks
}

// gcPercent returns the GOGC value for a live heap that may grow by headroom. It is rounded to steps,
// because changing it has a cost.
func gcPercent(live, headroom uint64) int {
	const step = 50
	percent := gcMaxPercent
	if live > 0 {
		percent = int(min(headroom*100/live, gcMaxPercent))
	}
	return max(percent/step*step, gcDefaultPercent)
}
