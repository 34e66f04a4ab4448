package cli

import (
	"context"
	"math"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// What a server may leave uncollected beyond Go's default, which collects a heap
// of a few megabytes dozens of times a second.
const (
	gcHeadroom = 64 << 20
	gcMost     = 400
	gcDefault  = 100
	gcEvery    = time.Second
	// A process that allocated less than quietBytes in each of quietTicks is not at work.
	quietBytes = 4 << 20
	quietTicks = 10
)

// gcHeadroomOf returns how many bytes a server with a kind of storage may leave
// uncollected. gcHeadroom costs nobody anything. Tasks in memory are a large heap
// that is read again by each collection, so an eighth of the limit may be garbage there.
func gcHeadroomOf(kind string, limit int64) uint64 {
	if kind == kindMemory {
		return max(gcHeadroom, uint64(limit)/8)
	}
	return gcHeadroom
}

// tuneGC lets a heap grow by up to headroom bytes before it is collected, until ctx is
// done. A larger heap is collected as Go does by default, and more often as the process
// nears limit bytes. What is free goes back to the system once the process has no work.
// The operator's GOGC or GOMEMLIMIT is left in force.
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
	current := gcDefault
	var quiet quietPeriod
	defer func() { debug.SetGCPercent(gcDefault) }()
	tick := time.NewTicker(gcEvery)
	defer tick.Stop()
	for {
		metrics.Read(sample)
		if percent := gcPercent(sample[0].Value.Uint64(), headroom); percent != current {
			debug.SetGCPercent(percent)
			current = percent
		}
		if quiet.starts(sample[1].Value.Uint64()) {
			debug.FreeOSMemory()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// quietPeriod finds out when a process has no work. Go's runtime keeps the memory of a heap
// that was large, some twice to five times what is in use, because a busy process needs it again.
type quietPeriod struct {
	allocated uint64 // at the last tick
	ticks     int    // since it allocated much
}

// starts receives the number of bytes that the process has allocated since its start, once per tick. It reports
// true once in each period without work.
func (q *quietPeriod) starts(allocated uint64) bool {
	q.ticks++
	if allocated-q.allocated >= quietBytes {
		q.ticks = 0
	}
	q.allocated = allocated
	return q.ticks == quietTicks
}

// gcPercent is the GOGC value for a live heap that may grow by headroom, in steps, so
// that it seldom changes.
func gcPercent(live, headroom uint64) int {
	const step = 50
	percent := gcMost
	if live > 0 {
		percent = int(min(headroom*100/live, gcMost))
	}
	return max(percent/step*step, gcDefault)
}
