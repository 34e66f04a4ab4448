package storetest

import (
	"testing"

	"github.com/holdfast-dev/holdfast/store"
)

// Harness plugs a backend into the suite.
type Harness struct {
	// Open returns a fresh, empty store. The suite closes it.
	Open func(t T) store.Store
	// Reopen closes a store and opens the same data again. A durable store must
	// have it, any other must not.
	Reopen func(t T, s store.Store) store.Store
	// Crash opens the data of a store again as if the process had died: without
	// closing the store, which is not used any more. Nil when that cannot be done
	// within one process; see KillLoop.
	Crash func(t T, s store.Store) store.Store
	// Tasks bounds how many tasks the larger tests make; 0 means 1000. Slow
	// backends lower it.
	Tasks int
	// Calls is the maximum number of calls in a series of random calls; 0 means 60. The flag
	// -rapid.checks sets the number of series. Backends that are slow to open a fresh store
	// use longer series and fewer of them.
	Calls int
}

// Run runs the whole suite.
func Run(t *testing.T, h Harness) { RunOn(Wrap(t), h) }

// RunOn runs the whole suite on any T.
func RunOn(t T, h Harness) {
	if h.Tasks == 0 {
		h.Tasks = 1000
	}
	if h.Calls == 0 {
		h.Calls = 60
	}
	for _, g := range groups() {
		t.Run(g.name, func(t T) {
			t.Parallel()
			for _, test := range g.tests {
				t.Run(test.name, func(t T) {
					t.Parallel()
					test.run(newFixture(t, h))
				})
			}
		})
	}
	t.Run("random calls are answered as by the model", func(t T) {
		t.Parallel()
		runRandom(t, h)
	})
}

type group struct {
	name  string
	tests []test
}

// test is one part of the suite; its name reads as a sentence.
type test struct {
	name string
	run  func(f *fixture)
}

func groups() []group {
	return []group{
		{"commit", commitTests()},
		{"claim", claimTests()},
		{"renew", renewTests()},
		{"read", readTests()},
		{"fold", foldTests()},
		{"list", listTests()},
		{"list queries", listQueryTests()},
		{"steps", stepTests()},
		{"idempotency", idempotencyTests()},
		{"contexts", contextTests()},
		{"contexts saved", saveTests()},
		{"contexts within others", parentTests()},
		{"contexts closed", closedTests()},
		{"contexts listed", contextListTests()},
		{"contexts deleted", deleteTests()},
		{"tasks deleted", taskDeleteTests()},
		{"tasks expired", taskExpireTests()},
		{"contexts expired", contextExpireTests()},
		{"feedback", feedbackTests()},
		{"push saved", pushSaveTests()},
		{"push committed", pushCommitTests()},
		{"push claimed", pushClaimTests()},
		{"push acknowledged", pushAckTests()},
		{"push moved", pushMoveTests()},
		{"push listed", pushListTests()},
		{"push removed", pushExpireTests()},
		{"isolation", isolationTests()},
		{"values", valueTests()},
		{"aliasing", aliasTests()},
		{"lifecycle", lifecycleTests()},
		{"races", raceTests()},
		{"races of contexts", contextRaceTests()},
		{"races of deletions", deleteRaceTests()},
		{"push races", pushRaceTests()},
		{"durability", durableTests()},
	}
}
