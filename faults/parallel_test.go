//go:build faults

package faults_test

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// starting lets one test start after the other. running has the names of those that have started,
// except those that only wait for their subtests.
var (
	starting sync.Mutex
	running  sync.Map
)

// parallel runs a test beside others, once the machine has time for it: no other test runs, or
// processors are free again and again. Timeouts and leases of these tests are short. On a slow
// machine that runs eight of them at once, they expire without any fault.
func parallel(t *testing.T) {
	t.Helper()
	t.Parallel()
	name := t.Name()
	if i := strings.LastIndex(name, "/"); i >= 0 {
		running.Delete(name[:i]) // at once: the test with the lock may wait for it
	}
	starting.Lock()
	defer starting.Unlock()
	for othersRun() && starved(t) {
	}
	running.Store(name, true)
	t.Cleanup(func() { running.Delete(name) })
}

func othersRun() (found bool) {
	running.Range(func(any, any) bool {
		found = true
		return false
	})
	return found
}

// starved measures for half a second. It reports whether some process waited for a processor in
// more than three quarters of that time.
func starved(t *testing.T) bool {
	const interval = 500 * time.Millisecond
	before, measured := stalled(t)
	time.Sleep(interval)
	after, _ := stalled(t)
	return measured && after-before > interval*3/4
}

var stallTotal = regexp.MustCompile(`some .* total=(\d+)`)

// stalled returns for how long some process has waited for a processor since the machine started,
// if the kernel measures this.
func stalled(t *testing.T) (total time.Duration, measured bool) {
	t.Helper()
	text, err := os.ReadFile("/proc/pressure/cpu")
	if err != nil {
		return 0, false
	}
	found := stallTotal.FindSubmatch(text)
	if found == nil {
		t.Fatalf("/proc/pressure/cpu = %q, want a total", text)
	}
	microseconds, err := strconv.ParseInt(string(found[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(microseconds) * time.Microsecond, true
}
