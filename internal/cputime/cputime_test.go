package cputime_test

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/cputime"
)

func TestSleepUsesNoProcessorTime(t *testing.T) {
	if used := cputime.Of(func() { time.Sleep(200 * time.Millisecond) }); used > 100*time.Millisecond {
		t.Errorf("Of(a sleep of 200ms) = %s, want almost 0", used)
	}
}

func TestWorkUsesProcessorTime(t *testing.T) {
	var sum int
	work := func(n int) func() {
		return func() {
			for i := range n {
				sum += i % 7
			}
		}
	}
	const n = 10_000_000
	for { // until the clock of the system shows the work
		few, many := cputime.Of(work(n)), cputime.Of(work(4*n))
		if few > 0 && many > 2*few && many < 8*few {
			return
		}
		t.Logf("n: %s, 4 n: %s", few, many)
	}
}
