//go:build faults

package faults_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// cage is a limit on the memory of the processes in it: a control group of this
// process's own group. The kernel ends a process that needs more, and the server reads the
// limit by itself.
type cage struct {
	dir   string // of the control group
	limit int64  // bytes
	v2    bool
}

// newCage makes one. Only root of a machine, or of a container with delegated groups, may.
func newCage(t *testing.T, limit int64) *cage {
	t.Helper()
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatalf("a limit on memory needs control groups: %v", err)
	}
	var tried []error
	for line := range strings.Lines(string(groups)) {
		id, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, own, _ := strings.Cut(rest, ":")
		c := &cage{limit: limit}
		switch {
		case controllers == "memory":
			c.dir = filepath.Join("/sys/fs/cgroup/memory", own)
		case id == "0" && controllers == "":
			c.dir, c.v2 = filepath.Join("/sys/fs/cgroup", own), true
		default:
			continue
		}
		c.dir = filepath.Join(c.dir, fmt.Sprintf("holdfast-faults-%d-%d", os.Getpid(), time.Now().UnixNano()))
		if err := c.make(); err != nil {
			tried = append(tried, err)
			continue
		}
		t.Cleanup(c.remove)
		t.Logf("memory is limited to %d MiB by %s", limit>>20, c.dir)
		return c
	}
	t.Fatalf("a limit on memory needs a control group that can be made here: %v", errors.Join(tried...))
	return nil
}

func (c *cage) make() error {
	if err := os.Mkdir(c.dir, 0o755); err != nil {
		return err
	}
	name := "memory.limit_in_bytes"
	if c.v2 {
		name = "memory.max"
	}
	if err := os.WriteFile(filepath.Join(c.dir, name), []byte(strconv.FormatInt(c.limit, 10)), 0o644); err != nil {
		c.remove()
		return err
	}
	if c.v2 {
		_ = os.WriteFile(filepath.Join(c.dir, "memory.swap.max"), []byte("0"), 0o644)
	}
	return nil
}

// remove removes the group, whose processes have ended.
func (c *cage) remove() {
	for range 100 {
		if err := os.Remove(c.dir); err == nil || errors.Is(err, os.ErrNotExist) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// command returns cmd as it is run inside: the shell joins the group and becomes it.
func (c *cage) command(cmd *exec.Cmd) *exec.Cmd {
	args := append([]string{"-c", `echo $$ > "$0" && exec "$@"`, filepath.Join(c.dir, "cgroup.procs")}, cmd.Args...)
	inside := exec.Command("sh", args...)
	inside.Env = cmd.Env
	inside.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return inside
}

// peak is the most memory that was in use in the group, with what the kernel kept of files.
func (c *cage) peak() int64 {
	name := "memory.max_usage_in_bytes"
	if c.v2 {
		name = "memory.peak"
	}
	raw, _ := os.ReadFile(filepath.Join(c.dir, name))
	n, _ := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
	return n
}

// usedMemory is what a process has in memory now.
func usedMemory(pid int) int64 {
	kb, _ := strconv.ParseInt(processField(pid, "VmRSS"), 10, 64)
	return kb << 10
}
