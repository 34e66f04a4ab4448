package testport

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// Processes that run at the same time get different ports, below the range for outgoing connections.
func TestProcessesGetDifferentPorts(t *testing.T) {
	t.Parallel()
	if os.Getenv("TESTPORT_CHILD") != "" {
		logPorts(t)
		return
	}
	seen := make(map[int]bool)
	for range 2*blockSize + 1 {
		port, err := New()
		if err != nil {
			t.Fatal(err)
		}
		seen[port] = true
	}
	if len(seen) != 2*blockSize+1 {
		t.Errorf("%d ports, want %d different ones", len(seen), 2*blockSize+1)
	}
	for range 3 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProcessesGetDifferentPorts$", "-test.v")
		cmd.Env = append(os.Environ(), "TESTPORT_CHILD=1")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		ports := strings.Count(string(out), "port=")
		for _, line := range strings.Split(string(out), "\n") {
			if _, text, found := strings.Cut(line, "port="); found {
				port, err := strconv.Atoi(text)
				if err != nil || port <= first || port >= first+blocks*blockSize || seen[port] {
					t.Errorf("port of another process = %q, %v: want an unused one from %d", text, err, first)
				}
			}
		}
		if ports != blockSize {
			t.Errorf("another process got %d ports, want %d", ports, blockSize)
		}
	}
}

func logPorts(t *testing.T) {
	for range blockSize {
		port, err := New()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("port=%d", port)
	}
}
