//go:build unix

package execagent

import (
	"os/exec"
	"syscall"
)

// terminate sends SIGTERM to the command's process group.
func terminate(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }

// kill kills the command's process group. It ignores a group that has ended.
func kill(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
