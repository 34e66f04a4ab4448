package suite

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Environment variables of the process to kill.
const (
	killDir   = "HOLDFAST_SUITE_KILL_DIR"
	killRound = "HOLDFAST_SUITE_KILL_ROUND"
)

// Killed returns the directory and the number of the round if this process is one that [Kill] runs.
func Killed() (dir string, round int, ok bool) {
	round, _ = strconv.Atoi(os.Getenv(killRound))
	dir = os.Getenv(killDir)
	return dir, round, dir != ""
}

// Kill runs this test alone in another process and kills it with SIGKILL some time after its first report.
// report gets the fields of each complete line of the output, and returns false for a line that is no report.
// The test fails if the process ends by itself.
func Kill(t *testing.T, dir string, round int, after time.Duration, report func(fields []string) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run="+exactPattern(t.Name()), "-test.count=1")
	cmd.Env = append(os.Environ(), killDir+"="+dir, fmt.Sprint(killRound, "=", round))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	Do(err).Must(t, "pipe")
	Do(cmd.Start()).Must(t, "start")
	var timer *time.Timer
	var output strings.Builder
	for r := bufio.NewReader(out); ; {
		line, err := r.ReadString('\n')
		if err != nil { // an incomplete last line reports nothing
			break
		}
		if !report(strings.Fields(line)) {
			output.WriteString(line)
			continue
		}
		if timer == nil { // the process works
			timer = time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		}
	}
	err = cmd.Wait()
	if timer == nil || cmd.ProcessState.Exited() {
		t.Fatalf("process of round %d exited before it was killed: %v\n%s", round, err, output.String())
	}
}

// exactPattern returns the -test.run pattern that matches only the named test.
func exactPattern(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}
