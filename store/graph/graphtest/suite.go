package graphtest

import "github.com/holdfast-dev/holdfast/store/storetest"

// Suite tests the graphs of a backend.
var Suite = storetest.Suite{Name: "graphs", Run: func(t storetest.T, h storetest.Harness) { RunOn(t, Of(h)) }}
