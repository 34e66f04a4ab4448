package storetest

import (
	"testing"

	"github.com/holdfast-dev/holdfast/store/suite"
)

// T is the part of testing.T that the suites use. [Wrap] returns one for a *testing.T. A
// program can implement it to run a suite without go test.
type T = suite.T

// Wrap returns a T for a test or a benchmark. The T of a benchmark has no subtests: its Run
// fails.
func Wrap(t testing.TB) T { return suite.Wrap(t) }
