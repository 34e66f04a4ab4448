// Package testseed chooses the seeds of tests with random input. By default a seed is fixed, so that a test has the same result
// in each run and go test may return a cached one. The environment variable HOLDFAST_TEST_SEED selects others:
//
//	HOLDFAST_TEST_SEED=random   a new seed for each test; the output of a failure has the command that repeats it
//	HOLDFAST_TEST_SEED=17       this seed, and only this one
//
// Use -count=1 with "random": go test does not know that the result differs.
package testseed

import (
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
)

// Env is the name of the environment variable.
const Env = "HOLDFAST_TEST_SEED"

// fixed is the seed without the environment variable.
const fixed = 1

// T is the test that uses a seed: a [testing.TB], or the test of a suite.
type T interface {
	Helper()
	Name() string
	Cleanup(f func())
	Failed() bool
	Logf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Of returns the seed of a test. If the test fails, the output has the command that repeats it.
func Of(t T) uint64 {
	t.Helper()
	seed, _ := choose(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", repeat(t, seed))
		}
	})
	return seed
}

// Each returns n consecutive seeds, or only the one of the environment variable. It ends after a seed
// with which the test has failed, and logs the command that repeats it.
func Each(t T, n int) iter.Seq[uint64] {
	t.Helper()
	first, only := choose(t)
	if only {
		n = 1
	}
	return func(yield func(uint64) bool) {
		current := first
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("%s", repeat(t, current))
			}
		})
		for i := range uint64(max(n, 0)) {
			if current = first + i; !yield(current) || t.Failed() {
				return
			}
		}
	}
}

// choose returns the first seed of a test, and whether it is the only one.
func choose(t T) (seed uint64, only bool) {
	t.Helper()
	switch text := os.Getenv(Env); text {
	case "":
		return fixed, false
	case "random":
		return rand.Uint64() >> 1, false //nolint:gosec // a seed needs no secrecy
	default:
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s is %q, want a number or random", Env, text)
		}
		return seed, true
	}
}

// repeat returns the command that runs a test with a seed.
func repeat(t T, seed uint64) string {
	parts := strings.Split(t.Name(), "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	pkg := "PACKAGE"
	if info, ok := debug.ReadBuildInfo(); ok {
		pkg = strings.TrimSuffix(info.Path, ".test")
	}
	return fmt.Sprintf("to repeat: %s=%d go test -tags services -count=1 -run '%s' %s", Env, seed, strings.Join(parts, "/"), pkg)
}

var rapid sync.Once

// Rapid sets the seed of pgregory.net/rapid, which is random by default. A test calls it before rapid.Check. The
// flag -rapid.seed of go test has precedence. Rapid logs the seed of a failure.
func Rapid(t T) {
	t.Helper()
	seed, _ := choose(t)
	rapid.Do(func() {
		given := false
		flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.seed" })
		if given {
			return
		}
		if err := flag.Set("rapid.seed", strconv.FormatUint(seed, 10)); err != nil {
			t.Fatalf("rapid: %v", err)
		}
	})
}
