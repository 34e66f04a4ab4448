//go:build unix && !linux

package execagent

import (
	"os/exec"
	"syscall"
)

// isolate starts the command in a new process group.
func isolate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func awaitExit(int) bool { return false }
