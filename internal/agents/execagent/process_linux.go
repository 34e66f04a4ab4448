package execagent

import (
	"errors"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// isolate gives the command a process group of its own, and has the kernel end
// it when the server dies.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit waits until a child has exited and leaves it to be waited for. It
// reports false when the kernel can't do that.
func awaitExit(pid int) bool {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err == nil
		}
	}
}
