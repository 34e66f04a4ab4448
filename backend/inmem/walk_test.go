package inmem

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-dev/holdfast/internal/testseed"
)

func TestWalkMergesIndexes(t *testing.T) {
	t.Parallel()
	testseed.Rapid(t)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]int{0, 3, 300, 3000}).Draw(t, "records")
		parts := make([]index[number], rapid.IntRange(1, 3).Draw(t, "indexes"))
		w := walk[number]{
			ascending: rapid.Bool().Draw(t, "ascending"),
			after:     rapid.SampledFrom([]int64{math.MinInt64, 0, 7, 2000}).Draw(t, "after"),
			before:    rapid.SampledFrom([]int64{math.MaxInt64, 7, 90, 2000}).Draw(t, "before"),
		}
		divisor, examined := rapid.SampledFrom([]number{1, 3}).Draw(t, "matches are divisible by"), 0
		w.match = func(r number) bool { examined++; return r%divisor == 0 }
		if rapid.Bool().Draw(t, "continued") {
			last := number(rapid.IntRange(0, 3000).Draw(t, "last"))
			w.skip = func(e entry[number]) bool { return e.rec == last || e.rec < last == w.ascending }
		}
		for i := range parts {
			w.indexes = append(w.indexes, &parts[i])
		}
		want := []number{}
		for i := range n {
			e := entry[number]{int64(i / 2), number(i)}
			parts[(i*7919+i/5)%len(parts)].add(e.at, e.rec)
			if e.at >= w.after && e.at < w.before && e.rec%divisor == 0 && (w.skip == nil || !w.skip(e)) {
				want = append(want, e.rec)
			}
		}
		if !w.ascending {
			slices.Reverse(want)
		}
		if got, capped := w.count(0); got != len(want) || capped {
			t.Fatalf("count(0) = %d, %t, want %d", got, capped, len(want))
		}
		most := rapid.IntRange(1, 3000).Draw(t, "count limit")
		examined = 0
		if got, capped := w.count(most); got != min(most, len(want)) || capped != (len(want) > most) {
			t.Fatalf("count(%d) of %d = %d, %t", most, len(want), got, capped)
		}
		offset, limit := rapid.IntRange(0, 400).Draw(t, "offset"), rapid.IntRange(1, 400).Draw(t, "limit")
		examined = 0
		got, more := w.page(offset, limit)
		if divisor == 1 && examined > offset+limit+1 {
			t.Fatalf("page(%d, %d) read %d records, want at most %d", offset, limit, examined, offset+limit+1)
		}
		rest := want[min(offset, len(want)):]
		if page := rest[:min(limit, len(rest))]; !slices.Equal(got, page) || more != (len(rest) > limit) {
			t.Fatalf("page(%d, %d) = %v, %t, want %v, %t", offset, limit, got, more, page, len(rest) > limit)
		}
	})
}
