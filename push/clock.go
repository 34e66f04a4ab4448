package push

import (
	"sync"
	"time"
)

// jumpLeast is how far the clock must be set forward for it to be a jump.
const jumpLeast = 2 * time.Second

// clock is the clock of due times and leases. When the wall clock is set back it just
// counts on; only that of a store, which others go by too, can take it back. It is never
// behind the wall clock, since lanes become due at times of that. What it gains on the
// time that really passes is a jump.
type clock struct {
	wall  func() time.Time
	start time.Time

	mu    sync.Mutex
	ahead time.Duration // of start and what has been counted since

	seen  time.Time // by the clock, when it was last looked at for jumps
	real  time.Time // what it really was then
	jumps []jump    // the last few
}

// jump says that the clock went to a time from one earlier by more than had passed.
type jump struct {
	to time.Time
	by time.Duration
}

// jumpsKept is how many jumps are remembered.
const jumpsKept = 8

func newClock(wall func() time.Time) *clock {
	c := &clock{wall: wall, start: wall(), real: time.Now()}
	c.seen = c.start.Round(0)
	return c
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read()
}

func (c *clock) read() time.Time {
	wall := c.wall()
	counted := c.start.Round(0).Add(wall.Sub(c.start))
	c.ahead = max(c.ahead, wall.Round(0).Sub(counted))
	return counted.Add(c.ahead)
}

// jumped looks for a jump since it was last called, and reports whether there was one.
func (c *clock) jumped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, real := c.read(), time.Now()
	by := now.Sub(c.seen) - real.Sub(c.real)
	c.seen, c.real = now, real
	if by <= -jumpLeast {
		c.jumps = nil // times from before it cannot be told from those after it
	}
	if by < jumpLeast {
		return false
	}
	c.jumps = append(c.jumps, jump{now, by})
	c.jumps = c.jumps[max(0, len(c.jumps)-jumpsKept):]
	return true
}

// shifted returns due moved by the jumps there have been since it was noted: it stays as
// far away as it was meant to be.
func (c *clock) shifted(due, noted time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, j := range c.jumps {
		if before := j.to.Add(-j.by); !noted.After(before) && due.After(before) {
			due = due.Add(j.by)
		}
	}
	return due
}
