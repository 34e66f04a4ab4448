package cputime

import (
	"syscall"
	"time"
)

// now returns the processor time of the process. GetProcessTimes fails only for an invalid handle.
func now() time.Duration {
	process, err := syscall.GetCurrentProcess()
	if err != nil {
		return 0
	}
	var created, ended, kernel, user syscall.Filetime
	_ = syscall.GetProcessTimes(process, &created, &ended, &kernel, &user)
	return duration(kernel) + duration(user)
}

// duration converts units of 100 ns. The method Nanoseconds of Filetime is for dates.
func duration(t syscall.Filetime) time.Duration {
	return time.Duration(int64(t.HighDateTime)<<32+int64(t.LowDateTime)) * 100
}
