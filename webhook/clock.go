package webhook

import (
	"sync"
	"time"
)

// minJump is the smallest difference that counts as a jump of the clock.
const minJump = 2 * time.Second

// clock is the clock of due times and leases. It is never behind the wall clock, since due
// times are wall-clock times. If the wall clock of this machine is set back, clock continues
// with the monotonic time. It goes back only with the clock of a store, because other
// processes use that clock too. A jump is a change of clock that differs from the change of
// the monotonic time.
type clock struct {
	wall  func() time.Time
	start time.Time

	mu    sync.Mutex
	ahead time.Duration // how far this clock is ahead of start plus the monotonic time since start

	checkedAt   time.Time // time of this clock at the last call of detectJump
	checkedReal time.Time // monotonic time of that call
	jumps       []jump    // the latest maxJumps
}

// jump records that the clock was set forward to a time, by a duration.
type jump struct {
	to time.Time
	by time.Duration
}

// maxJumps is the number of jumps that a clock remembers.
const maxJumps = 8

func newClock(wall func() time.Time) *clock {
	c := &clock{wall: wall, start: wall(), checkedReal: time.Now()}
	c.checkedAt = c.start.Round(0)
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

// detectJump reports whether the clock jumped forward since the previous call.
func (c *clock) detectJump() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, real := c.read(), time.Now()
	by := now.Sub(c.checkedAt) - real.Sub(c.checkedReal)
	c.checkedAt, c.checkedReal = now, real
	if by <= -minJump {
		c.jumps = nil // times before and after the change cannot be distinguished
	}
	if by < minJump {
		return false
	}
	c.jumps = append(c.jumps, jump{now, by})
	c.jumps = c.jumps[max(0, len(c.jumps)-maxJumps):]
	return true
}

// adjust returns due, shifted by the jumps since it was recorded, so that a jump does not
// shorten the wait.
func (c *clock) adjust(due, recorded time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, j := range c.jumps {
		if before := j.to.Add(-j.by); !recorded.After(before) && due.After(before) {
			due = due.Add(j.by)
		}
	}
	return due
}
