//go:build faults

package faults_test

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// processState returns the letter of the process state, "" if the process does not exist.
func processState(pid int) string { return processField(pid, "State") }

// peakMemory returns the maximum memory use of a process in bytes.
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
