package push

import (
	"sync/atomic"
	"time"
	"unsafe"
)

// setClock is a wall clock that can be set, as an operator or NTP does: the steady part
// of its readings does not notice.
type setClock struct{ offset atomic.Int64 } // in seconds

func newSetClock() *setClock { return new(setClock) }

func (c *setClock) jump(d time.Duration) { c.offset.Add(int64(d / time.Second)) }

// now is time.Now with another wall time. Package time has no way to make one, so the
// seconds are changed in place: they are 33 bits above the nanoseconds of a reading that
// is both.
func (c *setClock) now() time.Time {
	t := time.Now()
	seconds := (*uint64)(unsafe.Pointer(&t))
	*seconds = uint64(int64(*seconds) + c.offset.Load()<<30)
	return t
}

// storeClock is the clock of a store that can be set: its readings have no steady part.
type storeClock struct{ offset atomic.Int64 }

func (c *storeClock) jump(d time.Duration) { c.offset.Add(int64(d)) }

func (c *storeClock) now() time.Time {
	return time.Now().Round(0).Add(time.Duration(c.offset.Load()))
}
