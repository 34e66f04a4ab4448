// Package storetest is the contract of package store in executable form. Every
// backend, ours or a third party's, passes the same suite:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, storetest.Harness{
//			Open: func(t storetest.T) store.Store { return inmem.New() },
//		})
//	}
//
// # Concepts
//
// A [Harness] says how to get a fresh store, and how to reopen one. What a
// backend can do it declares by its [store.Info]; what is declared is asserted.
// [Run] runs every group of tests, each test on a store of its own, then random
// operations against a plain model of the contract. [Bench] measures.
//
// The suite asks of its surroundings no more than [T], so that it can also run
// outside go test, against an operator's real store: see [RunOn].
//
// [Faulty] and [KillLoop] help to test what is built on a store and what a
// store is built on.
//
// # Concurrency
//
// The tests of a suite run in parallel where T.Parallel allows it.
package storetest
