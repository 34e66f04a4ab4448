//go:build faults

package faults_test

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// processState is the letter of a process's state, "" when there is none of this
// pid.
func processState(pid int) string { return processField(pid, "State") }

// peakMemory is the most memory a process has had, in bytes.
func peakMemory(t *testing.T, pid int) int64 {
	t.Helper()
	kb, err := strconv.ParseInt(processField(pid, "VmHWM"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kb << 10
}

// processField returns the first word of a field of /proc/PID/status.
func processField(pid int, name string) string {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			if words := strings.Fields(value); len(words) > 0 {
				return words[0]
			}
		}
	}
	return ""
}
