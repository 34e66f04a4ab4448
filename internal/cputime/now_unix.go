//go:build unix && !linux

package cputime

import (
	"syscall"
	"time"
)

// now returns the processor time of the process. Getrusage fails only for an invalid argument.
func now() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
