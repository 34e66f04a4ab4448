//go:build linux && !race

package ann

import (
	"fmt"
	"os"
	"runtime"
	"testing"
)

// TestRegionsAreReleased needs address space only: no region is written.
func TestRegionsAreReleased(t *testing.T) {
	const regions, size = 100, 64 << 20
	before := addressSpace(t)
	all := make([]*region, regions)
	for i := range all {
		all[i] = allocate(size)
	}
	if got := addressSpace(t) - before; got < regions*size/2 {
		t.Fatalf("the address space has grown by %d, want %d", got, regions*size)
	}
	runtime.KeepAlive(all)
	clear(all)
	for addressSpace(t)-before > regions*size/2 {
		runtime.GC() // until the test times out
	}
}

func addressSpace(t *testing.T) int {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var pages int
	if _, err := fmt.Sscan(string(text), &pages); err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}
