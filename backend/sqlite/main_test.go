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

// childTask is the environment variable that makes this test binary run a child task.
// childDir has its data directory.
const (
	childTask = "HOLDFAST_SQLITE_TEST_CHILD"
	childDir  = "HOLDFAST_SQLITE_TEST_DIR"
)

// children are the tasks of child processes.
var children = map[string]func(dir string) error{
	"facts":   childSavesFacts,
	"history": childAppends,
	"graph":   childWritesGraph,
	"vectors": childWritesVectors,
	"hold":    childOpens,
	"write":   childWrites,
	"ack":     childAcks,
	"delete":  childDeletes,
	"expire":  childExpires,
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
	if underRace { // the command line overrides this
		_ = flag.Set("rapid.checks", "10")
	}
	os.Exit(m.Run())
}

// child returns a command that runs a task in its own process, inside wrapper if given.
func child(ctx context.Context, task, dir string, wrapper ...string) *exec.Cmd {
	args := append(wrapper, os.Args[0])
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), childTask+"="+task, childDir+"="+dir)
	cmd.Stderr = os.Stderr
	return cmd
}

// childOpens opens the store, prints "open" and keeps it open until its input ends.
func childOpens(dir string) error {
	s, err := Open(bg, Config{Dir: dir})
	if err != nil {
		return err
	}
	fmt.Println("open")
	bufio.NewScanner(os.Stdin).Scan()
	return s.Close()
}
