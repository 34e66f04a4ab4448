package suite

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Comparison is an operation and the reference for its speed.
type Comparison struct {
	// Callers is the number of goroutines that make calls. Default 1.
	Callers int
	// Calls is the number of calls of one round, by all callers. Default 1.
	Calls int
	// Reference and Measured make call n of a caller. Calls of one function are numbered from 0.
	Reference, Measured func(caller, n int) error
}

// Compare measures both functions of a comparison in alternating rounds, one pair for each
// iteration of b, so that other load of the machine affects both. For the median round it reports
// the time of a call of each, and the speed of the measured function in percent of the reference
// of the same pair, with its quartiles.
func Compare(b *testing.B, c Comparison) {
	b.Helper()
	var reference, measured round
	var speeds []float64
	pair := func(i int) {
		rounds := []func() time.Duration{
			func() time.Duration { return reference.run(b, &c, c.Reference) },
			func() time.Duration { return measured.run(b, &c, c.Measured) },
		}
		var took [2]time.Duration
		for _, k := range []int{i % 2, 1 - i%2} {
			took[k] = rounds[k]()
		}
		speeds = append(speeds, 100*took[0].Seconds()/took[1].Seconds())
	}
	pair(0) // prepares statements and fills caches
	reference.times, measured.times, speeds = nil, nil, nil
	for i := 0; b.Loop(); i++ {
		pair(i)
	}
	slices.Sort(speeds)
	b.ReportMetric(0, "ns/op") // of a pair of rounds
	b.ReportMetric(reference.median(&c), "reference-us")
	b.ReportMetric(measured.median(&c), "us")
	b.ReportMetric(speeds[len(speeds)/4], "%low")
	b.ReportMetric(speeds[len(speeds)/2], "%speed")
	b.ReportMetric(speeds[(len(speeds)*3)/4], "%high")
}

// round makes the calls of one function, round by round.
type round struct {
	calls atomic.Int64
	times []time.Duration
}

func (r *round) run(b *testing.B, c *Comparison, call func(caller, n int) error) time.Duration {
	var left atomic.Int64
	left.Store(int64(max(c.Calls, 1)))
	var callers sync.WaitGroup
	start := time.Now()
	for caller := range max(c.Callers, 1) {
		callers.Go(func() {
			for left.Add(-1) >= 0 {
				if err := call(caller, int(r.calls.Add(1))-1); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	callers.Wait()
	took := time.Since(start)
	r.times = append(r.times, took)
	return took
}

// median returns the time of a call in the median round, in microseconds.
func (r *round) median(c *Comparison) float64 {
	slices.Sort(r.times)
	return float64(r.times[len(r.times)/2].Nanoseconds()) / 1000 / float64(max(c.Calls, 1))
}
