//go:build unix && !linux

package execagent

import (
	"os/exec"
	"syscall"
)

// isolate gives the command a process group of its own.
func isolate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func awaitExit(int) bool { return false }
