package testseed_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/testseed"
)

// recorder is a test that records its log.
type recorder struct {
	testing.TB
	failed   bool
	log      []string
	cleanups []func()
}

func (r *recorder) Helper()                      {}
func (r *recorder) Name() string                 { return "TestStore/random calls" }
func (r *recorder) Failed() bool                 { return r.failed }
func (r *recorder) Cleanup(f func())             { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Logf(f string, args ...any)   { r.log = append(r.log, fmt.Sprintf(f, args...)) }
func (r *recorder) Fatalf(f string, args ...any) { panic(fmt.Sprintf(f, args...)) }

func (r *recorder) end() string {
	for _, f := range r.cleanups {
		f()
	}
	return strings.Join(r.log, "\n")
}

func TestSeedsAreFixedUnlessRequested(t *testing.T) {
	t.Setenv(testseed.Env, "")
	if first, second := testseed.Of(new(recorder)), testseed.Of(new(recorder)); first != second {
		t.Errorf("Of() = %d and %d, want the same seed", first, second)
	}
	if got, want := slices.Collect(testseed.Each(new(recorder), 3)), []uint64{1, 2, 3}; !slices.Equal(got, want) {
		t.Errorf("Each(3) = %d, want %d", got, want)
	}
	t.Setenv(testseed.Env, "random")
	if first, second := testseed.Of(new(recorder)), testseed.Of(new(recorder)); first == second {
		t.Errorf("Of() = %d twice, want different seeds", first)
	}
	t.Setenv(testseed.Env, "17")
	if got := testseed.Of(new(recorder)); got != 17 {
		t.Errorf("Of() = %d, want 17", got)
	}
	if got, want := slices.Collect(testseed.Each(new(recorder), 3)), []uint64{17}; !slices.Equal(got, want) {
		t.Errorf("Each(3) = %d, want %d", got, want)
	}
	t.Setenv(testseed.Env, "x")
	defer func() {
		if got, want := recover(), `HOLDFAST_TEST_SEED is "x", want a number or random`; got != want {
			t.Errorf("Of() failed with %v, want %s", got, want)
		}
	}()
	testseed.Of(new(recorder))
}

func TestFailuresNameTheCommandThatRepeatsThem(t *testing.T) {
	t.Setenv(testseed.Env, "")
	var passed recorder
	testseed.Of(&passed)
	if got := passed.end(); got != "" {
		t.Errorf("log of a passing test = %q, want none", got)
	}
	var failing recorder
	for seed := range testseed.Each(&failing, 10) {
		failing.failed = seed == 3
	}
	want := `to repeat: HOLDFAST_TEST_SEED=3 go test -tags services -count=1 -run '^TestStore$/^random calls$' github.com/holdfast-dev/holdfast/internal/testseed`
	if got := failing.end(); got != want {
		t.Errorf("log of a failing test = %q, want %q", got, want)
	}
}
