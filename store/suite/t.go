package suite

import (
	"context"
	"testing"
)

// T is the part of testing.T that the suite uses. [Wrap] returns one for a *testing.T. A
// program can implement it to run the suite without go test.
type T interface {
	Helper()
	Name() string
	// Run runs f as a subtest and waits for it unless f calls Parallel. It reports whether f has
	// not failed so far.
	Run(name string, f func(T)) bool
	// Parallel permits running this test in parallel with its siblings. It may do nothing.
	Parallel()
	// Context returns a context that is canceled before the Cleanup functions run.
	Context() context.Context
	// Cleanup registers f to be called after the test, the last one first.
	Cleanup(f func())
	// TempDir returns a new directory that is removed after the test.
	TempDir() string
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	// Fatalf and Skipf end the test; they do not return.
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
	Failed() bool
}

// Wrap returns a T for a test or a benchmark. The T of a benchmark has no subtests: its Run
// fails.
func Wrap(t testing.TB) T {
	if t, ok := t.(*testing.T); ok {
		return goTest{TB: t, t: t}
	}
	return goTest{TB: t}
}

type goTest struct {
	testing.TB
	t *testing.T
}

func (g goTest) Run(name string, f func(T)) bool {
	if g.t == nil {
		g.Fatalf("Run(%q) is not supported in a benchmark", name)
	}
	return g.t.Run(name, func(t *testing.T) { f(Wrap(t)) })
}

func (g goTest) Parallel() {
	if g.t != nil {
		g.t.Parallel()
	}
}
