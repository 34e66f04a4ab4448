// Package storetest is the conformance suite of package store. Every backend, ours or a
// third party's, passes the same suite:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, storetest.Harness{
//			Open: func(t storetest.T) store.Store { return inmem.New() },
//		})
//	}
//
// # Concepts
//
// A [Harness] opens a fresh store, and reopens one. The suite checks the capabilities that
// the backend declares in its [store.Info]. [Run] runs all groups of tests, each test on a
// store of its own. Then it makes random calls and compares their results with the results
// of a simple model of the contract. [Bench] measures.
//
// The suite needs only a [T], so it can also run outside go test, against an operator's
// store: see [RunOn].
//
// [Faulty] makes calls of a store fail, to test code that uses stores. [KillLoop] kills
// processes that use a store, to test its durability.
//
// # Concurrency
//
// The tests of a suite run in parallel if T.Parallel permits it.
package storetest
