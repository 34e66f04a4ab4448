package push

import (
	"sync/atomic"
	"time"
	"unsafe"
)

// setClock is a wall clock that can be set, as an operator or NTP does: the steady part
// of its readings does not notice.
type setClock struct {
	started time.Time
	offset  atomic.Int64
}

func newSetClock() *setClock { return &setClock{started: time.Now()} }

func (c *setClock) jump(d time.Duration) { c.offset.Add(int64(d)) }

// now is the time with a steady part. Package time has no way to make one, so it is made
// in place: a flag, 33 bits of seconds since 1885 and 30 of nanoseconds, then what has
// been counted.
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

// storeClock is the clock of a store that can be set: its readings have no steady part.
type storeClock struct{ offset atomic.Int64 }

func (c *storeClock) jump(d time.Duration) { c.offset.Add(int64(d)) }

func (c *storeClock) now() time.Time {
	return time.Now().Round(0).Add(time.Duration(c.offset.Load()))
}
