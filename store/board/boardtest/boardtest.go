// Package boardtest is the conformance suite of package board.
package boardtest

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/board"
	"github.com/holdfast-dev/holdfast/store/storetest"
	"github.com/holdfast-dev/holdfast/store/suite"
)

// Options are the settings of a store that a test opens.
type Options struct {
	Now func() time.Time
	TTL time.Duration
}

// Harness describes a store of boards to the suite.
type Harness struct {
	// Open returns an empty store. The suite does not close it: use t.Cleanup.
	Open func(t storetest.T, o Options) board.Store
	// Second opens the data of a store once more, as another process would. nil skips the
	// tests of several processes.
	Second func(t storetest.T, s board.Store) board.Store
	// Reopen closes a store and opens its data again. It is nil if the store is not durable.
	Reopen func(t storetest.T, s board.Store) board.Store
}

// OverRecords returns the harness of board.New over the records of a backend.
func OverRecords(h storetest.Harness) Harness {
	p := &storetest.Parts[board.Store, Options]{Harness: h, Of: func(t storetest.T, s store.Store, o Options) board.Store {
		return suite.Call(board.New(board.Config{Records: store.NewUpdater(s), Now: o.Now, TTL: o.TTL})).Must(t, "New()")
	}}
	out := Harness{Open: p.Open, Second: p.Second}
	if h.Reopen != nil {
		out.Reopen = p.ReopenSame
	}
	return out
}

// Run runs the suite.
func Run(t *testing.T, h Harness) { RunOn(storetest.Wrap(t), h) }

// RunOn runs the suite on any implementation of T.
func RunOn(t storetest.T, h Harness) {
	suite.Each(t, tests, func(test test) string { return test.name }, func(t storetest.T, test test) {
		f := &fixture{T: t, h: h, ctx: t.Context(), clock: suite.NewClock(time.UnixMilli(1_700_000_000_000).UTC())}
		f.open(0)
		test.run(f)
	})
}

// test is one test of the suite. Its name is a sentence.
type test struct {
	name string
	run  func(*fixture)
}

var tests = []test{
	{"contract: a board is created, read and deleted", create},
	{"contract: tasks are added, renamed, noted, ordered and deleted", editTasks},
	{"contract: every move follows the table", everyMove},
	{"contract: retries are counted up to the maximum", retries},
	{"contract: a conversation has a root board and boards of sub-agents", conversations},
	{"contract: a root board is opened, or created once", openRoot},
	{"isolation: boards belong to owners and conversations", isolation},
	{"concurrency: 64 callers never pass the maximum of boards", createRace},
	{"concurrency: 64 callers open one root board", openRace},
	{"concurrency: 64 callers add tasks and lose none", addRace},
	{"concurrency: 64 callers never pass the maximum of retries", retryRace},
	{"concurrency: changes of different tasks of a board are all kept", changeRace},
	{"durability: a reopened store has its boards", reopen},
	{"expiry: a board expires after its last change", expiry},
	{"hostile input is an error that names the field, or is stored exactly", hostile},
	{"limits: a board that is too large is not stored", limits},
	{"paging: a conversation with many boards is listed while boards are added", paging},
	{"paging: the boards of an owner are listed over all conversations", listOfOwner},
	{"aliasing: a store keeps no memory of its caller", aliasing},
	{"cancel: a canceled context ends a call", cancel},
	{"model: random calls have the results of a simple model", randomCalls},
}

type fixture struct {
	storetest.T
	h     Harness
	ctx   context.Context
	s     board.Store
	clock *suite.Clock
}

func (f *fixture) open(ttl time.Duration) { f.s = f.h.Open(f, Options{Now: f.clock.Now, TTL: ttl}) }

// instances returns the store, and another one on the same data if the harness can open it.
func (f *fixture) instances() []board.Store {
	all := []board.Store{f.s}
	if f.h.Second != nil {
		all = append(all, f.h.Second(f, f.s))
	}
	return all
}

func (f *fixture) create(conversation string, titles ...string) board.Board {
	f.Helper()
	return suite.Call(f.s.Create(f.ctx, board.CreateParams{Owner: "alice", Conversation: conversation, Titles: titles})).Must(f, "Create()")
}

func (f *fixture) get(k board.Key) board.Board {
	f.Helper()
	return suite.Call(f.s.Get(f.ctx, k)).Must(f, "Get(%+v)", k)
}
