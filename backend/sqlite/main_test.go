package sqlite

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"testing"
)

// childTask is the environment variable that turns this test binary into a
// child process of a test; childDir is the data directory that it works on.
const (
	childTask = "HOLDFAST_SQLITE_TEST_CHILD"
	childDir  = "HOLDFAST_SQLITE_TEST_DIR"
)

// children are what a child process can be asked to do.
var children = map[string]func(dir string) error{
	"hold":   childHolds,
	"write":  childWrites,
	"ack":    childAcks,
	"delete": childDeletes,
	"expire": childExpires,
}

func TestMain(m *testing.M) {
	if task := os.Getenv(childTask); task != "" {
		maps.Copy(children, platformChildren)
		if err := children[task](os.Getenv(childDir)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if underRace { // what the command line says comes later and wins
		_ = flag.Set("rapid.checks", "10")
	}
	os.Exit(m.Run())
}

// child returns a command that runs a task in a process of its own, in wrapper
// if there is one.
func child(ctx context.Context, task, dir string, wrapper ...string) *exec.Cmd {
	args := append(wrapper, os.Args[0])
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), childTask+"="+task, childDir+"="+dir)
	cmd.Stderr = os.Stderr
	return cmd
}

// childHolds opens the store, says so, and keeps it until its input ends.
func childHolds(dir string) error {
	s, err := Open(bg, Config{Dir: dir})
	if err != nil {
		return err
	}
	fmt.Println("open")
	bufio.NewScanner(os.Stdin).Scan()
	return s.Close()
}
