package storetest

import (
	"context"
	"testing"
)

// T is what the suite needs of its surroundings. [Wrap] makes one of a
// *testing.T; a program of its own may implement it to run the suite without go
// test.
type T interface {
	Helper()
	Name() string
	// Run runs f as a part of this test, and waits for it unless f calls
	// Parallel. It reports whether f has not failed so far.
	Run(name string, f func(T)) bool
	// Parallel says that this test may run beside its siblings. It may do nothing.
	Parallel()
	// Context ends before the functions given to Cleanup run.
	Context() context.Context
	// Cleanup calls f when the test is over, the last one given first.
	Cleanup(f func())
	// TempDir returns a new directory that is removed when the test is over.
	TempDir() string
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	// Fatalf and Skipf end the test; they do not return.
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
	Failed() bool
}

// Wrap makes a T of a test or a benchmark. That of a benchmark has no parts:
// its Run fails.
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
		g.Fatalf("Run(%q) of a benchmark", name)
	}
	return g.t.Run(name, func(t *testing.T) { f(Wrap(t)) })
}

func (g goTest) Parallel() {
	if g.t != nil {
		g.t.Parallel()
	}
}
