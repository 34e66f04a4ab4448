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

// cage is a control group with a memory limit, below the group of this process. The kernel kills
// a process that exceeds the limit; the server reads the limit by itself.
type cage struct {
	dir   string // directory of the control group
	limit int64  // bytes
	v2    bool
	// processors is the directory of the group that limits processor time, "" without a limit.
	processors string
}

// limitProcessors gives the group a quota of processor time.
func (c *cage) limitProcessors(t *testing.T, n int) {
	t.Helper()
	const period = 100_000 // microseconds
	if c.v2 {
		c.processors = c.dir
		if err := os.WriteFile(filepath.Join(c.dir, "cpu.max"), fmt.Appendf(nil, "%d %d", n*period, period), 0o644); err != nil {
			t.Fatalf("a limit on processor time needs the controller cpu: %v", err)
		}
		return
	}
	c.processors = filepath.Join("/sys/fs/cgroup/cpu", filepath.Base(c.dir))
	if err := os.Mkdir(c.processors, 0o755); err != nil {
		t.Fatalf("a limit on processor time needs a control group: %v", err)
	}
	t.Cleanup(func() { removeGroup(c.processors) })
	if err := os.WriteFile(filepath.Join(c.processors, "cpu.cfs_quota_us"), strconv.AppendInt(nil, int64(n*period), 10), 0o644); err != nil {
		t.Fatal(err)
	}
}

// newCage creates a control group. This requires root on a machine, or in a container with
// delegated groups.
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

// remove removes the group, after its processes have ended.
func (c *cage) remove() { removeGroup(c.dir) }

func removeGroup(dir string) {
	for range 100 {
		if err := os.Remove(dir); err == nil || errors.Is(err, os.ErrNotExist) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// command returns a command that runs cmd in the group: a shell joins the group and executes cmd.
func (c *cage) command(cmd *exec.Cmd) *exec.Cmd {
	join := `echo $$ > "$0" && `
	if c.processors != "" {
		join += "echo $$ > '" + filepath.Join(c.processors, "cgroup.procs") + "' && "
	}
	args := append([]string{"-c", join + `exec "$@"`, filepath.Join(c.dir, "cgroup.procs")}, cmd.Args...)
	inside := exec.Command("sh", args...)
	inside.Env = cmd.Env
	inside.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return inside
}

// peak returns the maximum memory use of the group, including the page cache.
func (c *cage) peak() int64 {
	name := "memory.max_usage_in_bytes"
	if c.v2 {
		name = "memory.peak"
	}
	raw, _ := os.ReadFile(filepath.Join(c.dir, name))
	n, _ := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
	return n
}

// usedMemory returns the current memory use of a process.
func usedMemory(pid int) int64 {
	kb, _ := strconv.ParseInt(processField(pid, "VmRSS"), 10, 64)
	return kb << 10
}
