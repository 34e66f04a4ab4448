// Package suite is the kit of the conformance suites of the storage contracts. A suite has the cases and the
// model of its contract; what all suites do is here:
//
//   - [T] is a test, of go test or of a program. [Each] runs the cases of a suite.
//   - [Call] and [Do] check what a call returned, in one line.
//   - [Clock] is the time of a test, [Concurrently] and [Winners] are races.
//   - [Mutants] checks that a suite fails for broken stores, with a [Recorder].
//   - [Kill] runs a test in a process that it kills.
//   - [Compare] measures a store beside a reference.
package suite

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Each runs each case as a subtest. The subtests run in parallel.
func Each[C any](t T, cases []C, name func(C) string, run func(t T, c C)) {
	t.Helper()
	for _, c := range cases {
		t.Run(name(c), func(t T) {
			t.Parallel()
			run(t, c)
		})
	}
}

// Mutants runs a suite on each mutant, a way to break a store, and fails for each one that passes.
func Mutants[M any](t *testing.T, mutants map[string]M, run func(t T, m M)) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(mutants)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := NewRecorder(t.Context())
			if r.Run(name, func(t T) { run(t, mutants[name]) }) {
				t.Error("no test of the suite failed")
			}
		})
	}
}

// Mutate calls change, if there is one, with v. A mutant has a change for each thing that it breaks.
func Mutate[V any](change func(*V), v *V) {
	if change != nil {
		change(v)
	}
}

// Optional returns a store as an optional interface. It skips the test if the store does not implement it.
func Optional[I any](t T, s any) I {
	t.Helper()
	i, ok := s.(I)
	if !ok {
		t.Skipf("the store does not implement %T", (*I)(nil))
	}
	return i
}

// Clock is a clock that a test moves. Goroutines may share it.
type Clock struct {
	mu sync.Mutex
	at time.Time
}

// NewClock returns a clock that stands at a time.
func NewClock(at time.Time) *Clock { return &Clock{at: at} }

// Now returns the time of the clock.
func (c *Clock) Now() time.Time { return c.Add(0) }

// Add moves the clock and returns its time.
func (c *Clock) Add(d time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
	return c.at
}

// Concurrently starts n goroutines that call fn at the same time, and waits for them.
func Concurrently(n int, fn func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			fn(i)
		})
	}
	close(start)
	wg.Wait()
}

// Winners makes n calls at the same time and returns how many have succeeded. An error of the others that is
// not lost fails the test.
func Winners(t Reporter, n int, lost error, call func(i int) error) int64 {
	t.Helper()
	var won atomic.Int64
	Concurrently(n, func(i int) {
		switch err := call(i); {
		case err == nil:
			won.Add(1)
		case !errors.Is(err, lost):
			t.Errorf("call %d = %v, want nil or %v", i, err, lost)
		}
	})
	return won.Load()
}
