package memorytest

import "github.com/holdfast-dev/holdfast/store/storetest"

// Suites of a backend.
var (
	// LongTermSuite tests the long-term memory.
	LongTermSuite = storetest.Suite{Name: "memory", Run: func(t storetest.T, h storetest.Harness) { RunLongTermOn(t, LongTermOf(h)) }}
	// ShortTermSuite tests session states in records.
	ShortTermSuite = storetest.Suite{Name: "state", Run: func(t storetest.T, h storetest.Harness) { RunShortTermOn(t, ShortTermOverRecords(h)) }}
)
