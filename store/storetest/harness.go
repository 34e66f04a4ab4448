package storetest

import (
	"testing"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

// Harness describes a backend to the suite.
type Harness struct {
	// Open returns a fresh, empty store. The suite closes it.
	Open func(t T) store.Store
	// Reopen closes a store and opens its data again. It must be set if and only if the store
	// is durable.
	Reopen func(t T, s store.Store) store.Store
	// Crash opens the data of a store again, as if the process had died: without closing the
	// store, which is not used afterwards. It is nil if this is impossible within one process;
	// see KillLoop.
	Crash func(t T, s store.Store) store.Store
	// Tasks limits the number of tasks in the larger tests; 0 means 1000. Slow backends use a
	// smaller number.
	Tasks int
	// Calls is the maximum number of calls in a series of random calls; 0 means 60. The flag
	// -rapid.checks sets the number of series. Backends that are slow to open a fresh store
	// use longer series and fewer of them.
	Calls int
}

// Opened returns a fresh store. The test closes it.
func (h Harness) Opened(t T) store.Store { return closed(t, h.Open(t)) }

// Reopened returns the data of a store that it closes. The test closes the new store.
func (h Harness) Reopened(t T, s store.Store) store.Store { return closed(t, h.Reopen(t, s)) }

// closed closes a store at the end of a test.
func closed(t T, s store.Store) store.Store {
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// Run runs the complete suite.
func Run(t *testing.T, h Harness) { RunOn(Wrap(t), h) }

// RunOn runs the complete suite on any implementation of T.
func RunOn(t T, h Harness) {
	if h.Tasks == 0 {
		h.Tasks = 1000
	}
	if h.Calls == 0 {
		h.Calls = 60
	}
	suite.Each(t, groups, func(g group) string { return g.name }, func(t T, g group) {
		suite.Each(t, g.tests, func(test test) string { return test.name }, func(t T, test test) { test.run(newFixture(t, h)) })
	})
	t.Run("random calls have the same results as on the model", func(t T) {
		t.Parallel()
		runRandom(t, h)
	})
}

type group struct {
	name  string
	tests []test
}

// test is one test of the suite. Its name is a sentence.
type test struct {
	name string
	run  func(f *fixture)
}

var groups = []group{
	{"commit", commitTests},
	{"claim", claimTests},
	{"renew", renewTests},
	{"read", readTests},
	{"fold", foldTests},
	{"list", listTests},
	{"list queries", listQueryTests},
	{"steps", stepTests},
	{"idempotency", idempotencyTests},
	{"contexts", contextTests},
	{"save contexts", saveTests},
	{"parent contexts", parentTests},
	{"closed contexts", closedTests},
	{"list contexts", contextListTests},
	{"delete contexts", deleteTests},
	{"delete tasks", taskDeleteTests},
	{"expire tasks", taskExpireTests},
	{"expire contexts", contextExpireTests},
	{"feedback", feedbackTests},
	{"records", recordTests},
	{"effects", effectTests},
	{"save webhooks", webhookSaveTests},
	{"commit webhooks", webhookCommitTests},
	{"claim lanes", webhookClaimTests},
	{"acknowledge lanes", webhookAckTests},
	{"delete, revoke, replay and wake lanes", webhookMoveTests},
	{"list webhooks", webhookListTests},
	{"expire webhooks", webhookExpireTests},
	{"isolation", isolationTests},
	{"values", valueTests},
	{"aliasing", aliasTests},
	{"lifecycle", lifecycleTests},
	{"races", raceTests},
	{"context races", contextRaceTests},
	{"deletion races", deleteRaceTests},
	{"webhook races", webhookRaceTests},
	{"durability", durableTests()},
}
