package cputime

import (
	"syscall"
	"time"
)

// now returns the processor time of the thread. Getrusage fails only for an invalid argument.
func now() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_THREAD, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
