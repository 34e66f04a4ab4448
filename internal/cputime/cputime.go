// Package cputime lets tests measure processor time. Other processes do not add to the processor time of a thread, unlike
// to wall time. A test that can count calls, rows or allocations counts them instead.
package cputime

import (
	"runtime"
	"time"
)

// Of calls f and returns the processor time that f used in its goroutine. Time of other goroutines does not count.
// Systems without processor times of threads count the whole process.
func Of(f func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := now()
	f()
	return now() - before
}
