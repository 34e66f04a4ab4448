package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// sysProcAttr protects the servers from Ctrl-C at the terminal, because they are stopped after the
// last measurement, and ends them if this process is killed. The kernel sends that signal when the
// thread that started the server ends; the Go runtime ends only threads that a goroutine has
// locked.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// cpu returns the processor time of the server.
func (s *server) cpu() time.Duration {
	_, own, _ := processCPU(s.cmd.Process.Pid)
	return own
}

// memory returns the current and the maximum resident memory of the server.
func (s *server) memory() (now, peak int64) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0, 0
	}
	kilobytes := func(name string) int64 {
		fields := strings.Fields(string(between(status, name, '\n')))
		if len(fields) == 0 {
			return 0
		}
		n, _ := strconv.ParseInt(fields[0], 10, 64)
		return n << 10
	}
	return kilobytes("VmRSS:"), kilobytes("VmHWM:")
}

// familyCPU returns the processor time of a process and its children, including those that have
// ended.
func familyCPU(pid int) time.Duration {
	_, own, ended := processCPU(pid)
	sum := own + ended
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return sum
	}
	for _, name := range all {
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil {
			continue
		}
		if parent, own, _ := processCPU(child); parent == pid {
			sum += own
		}
	}
	return sum
}

// processCPU returns the parent of a process, its processor time, and the processor time of its
// children that have ended. It returns zeros if the process does not exist.
func processCPU(pid int) (parent int, own, ended time.Duration) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, 0
	}
	// The second field is a name in parentheses, which may contain any character.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 15 {
		return 0, 0, 0
	}
	number := func(i int) int {
		n, _ := strconv.Atoi(string(fields[i]))
		return n
	}
	const tick = time.Second / 100 // USER_HZ, the same on all platforms Go runs on
	return number(1), time.Duration(number(11)+number(12)) * tick, time.Duration(number(13)+number(14)) * tick
}

func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
