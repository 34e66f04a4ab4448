package postgres

import (
	"errors"
	"slices"
	"testing"
)

// Batches of a sweep remove each entry, whenever it was added, and pass those that are removed already only at the
// end.
func TestSweepBound(t *testing.T) {
	entries := []int64{1, 2, 2, 3, 4, 5}
	var bound sweepBound
	var reads []int64
	sweep := func(limit int) int {
		t.Helper()
		reads = nil
		n, err := bound.batch(limit, func(from int64, limit int) (n int, last int64, err error) {
			reads = append(reads, from)
			entries = slices.DeleteFunc(entries, func(at int64) bool {
				remove := at >= from && n < limit
				if remove {
					n, last = n+1, at
				}
				return remove
			})
			return n, last, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for i, step := range []struct {
		add          []int64
		limit, found int
		reads        []int64
	}{
		{limit: 2, found: 2, reads: []int64{0}},
		{limit: 2, found: 2, reads: []int64{2}},
		{add: []int64{1, 3}, limit: 3, found: 3, reads: []int64{3}},
		{limit: 3, found: 1, reads: []int64{5, 0}},
		{limit: 3, found: 0, reads: []int64{0}},
		{add: []int64{1}, limit: 0, found: 0},
		{limit: 1, found: 1, reads: []int64{0}},
		{limit: 1, found: 0, reads: []int64{1, 0}},
	} {
		entries = append(entries, step.add...)
		slices.Sort(entries)
		if found := sweep(step.limit); found != step.found || !slices.Equal(reads, step.reads) {
			t.Errorf("batch %d removed %d entries with reads from %d, want %d and %d", i, found, reads, step.found, step.reads)
		}
	}
	lost := errors.New("connection lost")
	if _, err := bound.batch(1, func(int64, int) (int, int64, error) { return 0, 0, lost }); !errors.Is(err, lost) {
		t.Errorf("batch() = %v, want the error", err)
	}
}
