// Package historytest is the conformance suite for stores of transcripts, which implement
// [history.Provider] and any of the optional interfaces of package history.
//
// A test of a store calls [Run]:
//
//	func TestHistory(t *testing.T) {
//		historytest.Run(t, historytest.Harness{
//			Open: func(t storetest.T, now func() time.Time) history.Provider { return newStore(t, now) },
//		})
//	}
package historytest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/storetest"
	"github.com/holdfast-dev/holdfast/store/suite"
)

// Harness describes a store to the suite.
type Harness struct {
	// Open returns a fresh, empty store with a clock. It registers the function that closes it.
	Open func(t storetest.T, now func() time.Time) history.Provider
	// Reopen closes a store and opens its data again. It is nil if the store is not durable.
	Reopen func(t storetest.T, p history.Provider, now func() time.Time) history.Provider
	// OwnClock states that the store ignores the clock that is passed to Open. Tests that need
	// to set the clock are then skipped.
	OwnClock bool
	// ServerExpires states that the server of the store removes expired sessions by itself, so that
	// Expire removes none.
	ServerExpires bool
	// Calls is the number of random calls that are compared with the model; 0 means 3000.
	Calls int
}

// Run runs the complete suite.
func Run(t *testing.T, h Harness) { RunOn(storetest.Wrap(t), h) }

// RunOn runs the complete suite on any implementation of T. Tests of optional interfaces that the
// store does not implement are skipped.
func RunOn(t storetest.T, h Harness) {
	if h.Calls == 0 {
		h.Calls = 3000
	}
	suite.Each(t, tests(), func(test test) string { return test.name }, func(t storetest.T, test test) { test.run(newFixture(t, h)) })
}

// test is one test of the suite. Its name is a sentence.
type test struct {
	name string
	run  func(f *fixture)
}

func tests() []test {
	return slices.Concat(appendTests, readTests, pairTests, expiryTests, editTests, pruneTests, searchTests, sessionTests, restoreTests,
		isolationTests, inputTests, largeTests, raceTests, durableTests, randomTests)
}

// start is the time of the clock at the start of a test.
var start = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// fixture is a store with a clock, and the session that most tests use.
type fixture struct {
	storetest.T
	h   Harness
	p   history.Provider
	ctx context.Context
	k   history.Key
	now *suite.Clock
}

func newFixture(t storetest.T, h Harness) *fixture {
	f := &fixture{T: t, h: h, ctx: t.Context(), k: history.Key{Owner: "owner", Agent: "agent", Session: "session"}, now: suite.NewClock(start)}
	f.p = h.Open(t, f.clock)
	return f
}

func (f *fixture) clock() time.Time { return f.now.Now() }

// advance moves the clock.
func (f *fixture) advance(d time.Duration) { f.now.Add(d) }

// setsClock skips the test if the store has its own clock.
func (f *fixture) setsClock() {
	if f.h.OwnClock {
		f.Skipf("the store has its own clock")
	}
}

// optional returns the store as an optional interface, or skips the test.
func optional[I any](f *fixture) I { f.Helper(); return suite.Optional[I](f, f.p) }

// message returns a message with a text.
func message(text string) history.Message {
	quoted, _ := json.Marshal(text) // a string
	return history.Message{Role: "user", Body: fmt.Appendf(nil, `{"text":%s}`, quoted)}
}

func messages(texts ...string) (all []history.Message) {
	for _, text := range texts {
		all = append(all, message(text))
	}
	return all
}

// number returns n messages with the texts 1 to n.
func number(n int) (all []history.Message) {
	for i := range n {
		all = append(all, message(fmt.Sprint(i+1)))
	}
	return all
}

func (f *fixture) append(k history.Key, p history.AppendParams) history.AppendResult {
	f.Helper()
	return suite.Call(f.p.Append(f.ctx, k, p)).Must(f, "Append(%v)", k)
}

// add appends messages with texts to the session.
func (f *fixture) add(texts ...string) {
	f.Helper()
	f.append(f.k, history.AppendParams{Messages: messages(texts...)})
}

// all returns all messages of a session, and checks that Messages, Page and Count agree.
func (f *fixture) all(k history.Key) []history.Message {
	f.Helper()
	all := suite.Call(f.p.Messages(f.ctx, k, 0, 0)).Must(f, "Messages(%v)", k)
	var paged []history.Message
	for m, err := range history.All(f.ctx, f.p, k, 0) {
		if err != nil {
			f.Fatalf("All(%v) = %v", k, err)
		}
		paged = append(paged, m)
	}
	f.equal("All()", paged, all)
	suite.Call(f.p.Count(f.ctx, k)).Want(f, int64(len(all)), "Count()")
	return all
}

func (f *fixture) page(q history.Query) history.Page {
	f.Helper()
	return suite.Call(f.p.Page(f.ctx, f.k, q)).Must(f, "Page(%+v)", q)
}

// wantSeqs checks the sequences of messages.
func (f *fixture) wantSeqs(call string, got []history.Message, want ...int64) {
	f.Helper()
	seqs := make([]int64, len(got))
	for i, m := range got {
		seqs[i] = m.Seq
	}
	f.equal(call, seqs, want)
}

// seqs returns the numbers from first to last.
func seqs(first, last int64) (all []int64) {
	for seq := first; seq <= last; seq++ {
		all = append(all, seq)
	}
	return all
}

func (f *fixture) equal(call string, got, want any) {
	f.Helper()
	suite.Diff(f, call, got, want, cmpopts.EquateEmpty(), cmpopts.EquateErrors())
}
