package webhook

import (
	"sync/atomic"
	"time"
	"unsafe"
)

// setClock is a wall clock that can be set, as by an operator or NTP. The monotonic part of
// its readings is not affected.
type setClock struct {
	started time.Time
	offset  atomic.Int64
}

func newSetClock() *setClock { return &setClock{started: time.Now()} }

func (c *setClock) jump(d time.Duration) { c.offset.Add(int64(d)) }

// now returns the time with a monotonic reading. Package time has no constructor for it, so
// now sets the fields of time.Time: a flag, 33 bits of seconds since 1885 and 30 bits of
// nanoseconds, and the monotonic reading.
func (c *setClock) now() time.Time {
	passed := time.Since(c.started)
	wall := c.started.Round(0).Add(passed + time.Duration(c.offset.Load()))
	t := wall
	parts := (*struct {
		wall    uint64
		counted int64
	})(unsafe.Pointer(&t))
	since1885 := wall.Unix() - time.Date(1885, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	parts.wall, parts.counted = 1<<63|uint64(since1885)<<30|uint64(wall.Nanosecond()), int64(passed)+1
	return t
}

// storeClock is the clock of a store that can be set. Its readings have no monotonic part.
type storeClock struct{ offset atomic.Int64 }

func (c *storeClock) jump(d time.Duration) { c.offset.Add(int64(d)) }

func (c *storeClock) now() time.Time {
	return time.Now().Round(0).Add(time.Duration(c.offset.Load()))
}
