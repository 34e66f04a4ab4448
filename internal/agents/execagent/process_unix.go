//go:build unix

package execagent

import (
	"os/exec"
	"syscall"
)

// terminate asks the command's process group to end.
func terminate(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }

// kill ends the command's process group. That it is gone already is no error.
func kill(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
