package inmem

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-dev/holdfast/internal/testseed"
)

type number int

func (n number) compare(o number) int { return cmp.Compare(n, o) }

func numbers(entries func(func(entry[number]) bool)) []number {
	all := []number{}
	for e := range entries {
		all = append(all, number(e.at)*1_000_000+e.rec)
	}
	return all
}

func TestIndexIsASortedSet(t *testing.T) {
	t.Parallel()
	testseed.Rapid(t)
	rapid.Check(t, func(t *rapid.T) {
		var x index[number]
		model := make(map[number]bool)
		newest := rapid.Bool().Draw(t, "append")
		n := rapid.SampledFrom([]int{10, 500, 5000}).Draw(t, "operations")
		seed := rapid.Uint64().Draw(t, "seed")
		for i := range n {
			seed = seed*6364136223846793005 + 1442695040888963407
			at, rec := int64(seed>>33)%50, number(seed>>40)%2000
			if newest {
				at = int64(i / 10)
			}
			key := number(at)*1_000_000 + rec
			switch {
			case !model[key]:
				x.add(at, rec)
				model[key] = true
			case seed>>62 != 0:
				x.remove(at, rec)
				delete(model, key)
			}
			if seed>>60 == 0 { // shrink the index sometimes
				for k := range model {
					if k%3 != 0 {
						x.remove(int64(k/1_000_000), k%1_000_000)
						delete(model, k)
					}
				}
			}
		}
		want := []number{}
		for k := range model {
			want = append(want, k)
		}
		slices.Sort(want)
		if got := numbers(x.ascend(nil)); !slices.Equal(got, want) || x.len != len(want) {
			t.Fatalf("ascend() = %v (%d), want %v", got, x.len, want)
		}
		at, rec := int64(rapid.IntRange(0, 60).Draw(t, "at")), number(rapid.IntRange(0, 2000).Draw(t, "rec"))
		place := number(at)*1_000_000 + rec
		after := slices.DeleteFunc(slices.Clone(want), func(k number) bool { return k <= place })
		if got := numbers(x.ascend(&entry[number]{at, rec})); !slices.Equal(got, after) {
			t.Fatalf("ascend(after %d) = %v, want %v", place, got, after)
		}
		before := slices.DeleteFunc(slices.Clone(want), func(k number) bool { return k >= place })
		slices.Reverse(before)
		back := []number{}
		for s := x.iterate(false, func(e entry[number]) bool { return number(e.at)*1_000_000+e.rec >= place }); !s.done; s.next() {
			back = append(back, number(s.entry().at)*1_000_000+s.entry().rec)
		}
		if !slices.Equal(back, before) {
			t.Fatalf("descending from %d = %v, want %v", place, back, before)
		}
		for _, c := range x.chunks {
			if len(c) == 0 || len(c) > maxChunk {
				t.Fatalf("chunk has %d entries, want 1 to %d", len(c), maxChunk)
			}
		}
	})
}

func BenchmarkIndex(b *testing.B) {
	for _, size := range []int{1, 1_000, 1_000_000} {
		for _, where := range []string{"newest", "anywhere"} {
			b.Run(where+"/"+cmp.Or(map[int]string{1: "1", 1000: "1k"}[size], "1M"), func(b *testing.B) {
				var x index[number]
				for i := range size {
					x.add(int64(i), number(i))
				}
				i := 0
				for b.Loop() {
					i++
					at := int64(size + i)
					if where == "anywhere" {
						at = int64(i * 7919 % size)
					}
					x.add(at, number(size+i))
					x.remove(at, number(size+i))
				}
			})
		}
	}
}
