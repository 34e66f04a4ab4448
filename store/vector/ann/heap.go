package ann

import (
	"cmp"
	"slices"
)

// hit is a row with its closeness, or with the negative of it.
type hit struct {
	close float32
	row   uint32
}

// heap is a binary heap. Its first element has the lowest closeness.
type heap []hit

func (h *heap) push(e hit) {
	s := append(*h, e)
	i := len(s) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if s[parent].close <= e.close {
			break
		}
		s[i] = s[parent]
		i = parent
	}
	s[i] = e
	*h = s
}

// replace replaces the first element.
func (h heap) replace(e hit) {
	i := 0
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].close < h[child].close {
			child++
		}
		if h[child].close >= e.close {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = e
}

func (h *heap) pop() hit {
	s := *h
	first, last := s[0], s[len(s)-1]
	s = s[:len(s)-1]
	if len(s) > 0 {
		s.replace(last)
	}
	*h = s
	return first
}

// sortHits orders hits by falling closeness, then by row.
func sortHits(hits []hit) {
	slices.SortFunc(hits, func(a, b hit) int {
		if c := cmp.Compare(b.close, a.close); c != 0 {
			return c
		}
		return cmp.Compare(a.row, b.row)
	})
}

// bitset is a set of rows.
type bitset []uint64

func (s bitset) has(row uint32) bool {
	word := int(row >> 6)
	return word < len(s) && s[word]&(1<<(row&63)) != 0
}

func (s *bitset) add(row uint32) {
	for int(row>>6) >= len(*s) {
		*s = append(*s, 0)
	}
	(*s)[row>>6] |= 1 << (row & 63)
}

func (s bitset) remove(row uint32) {
	if int(row>>6) < len(s) {
		s[row>>6] &^= 1 << (row & 63)
	}
}

// reset empties the set and makes it large enough for a number of rows.
func (s *bitset) reset(rows uint32) {
	words := int(rows+63) / 64
	if cap(*s) < words {
		*s = make(bitset, words, words+words/4)
		return
	}
	*s = (*s)[:words]
	clear(*s)
}
