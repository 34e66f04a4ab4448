//go:build !unix

package execagent

import "os/exec"

func isolate(*exec.Cmd) {}

func awaitExit(int) bool { return false }

// terminate and kill end only the program; this system has no process groups.
func terminate(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

func kill(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
