//go:build unix

package sqlite

import (
	"syscall"
	"time"
)

// processorTime is what this process has used of the processors: unlike the
// time on the wall it does not depend on what else the machine does.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
