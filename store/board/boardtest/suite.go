package boardtest

import "github.com/holdfast-dev/holdfast/store/storetest"

// Suite tests boards in the records of a backend.
var Suite = storetest.Suite{Name: "boards", Run: func(t storetest.T, h storetest.Harness) { RunOn(t, OverRecords(h)) }}
