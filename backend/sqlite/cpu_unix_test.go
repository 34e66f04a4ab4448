//go:build unix

package sqlite

import (
	"syscall"
	"time"
)

// processorTime returns the CPU time of this process. Unlike wall-clock time, it does
// not depend on the load of the machine.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
