package graphwalk

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"
)

// key is what an element is sorted by: the 8 bytes after what all texts start with, because ids often differ
// there, then the text.
type key struct {
	start uint64
	at    int
}

// order returns the elements in the order of their texts.
func order[T any](all []T, text func(e *T) string) []key {
	shared := 0
	for i := range all {
		if t := text(&all[i]); i == 0 {
			shared = len(t)
		} else {
			shared = sharedPrefix(text(&all[0])[:shared], t)
		}
	}
	keys := make([]key, len(all))
	for i := range all {
		keys[i] = key{startOf(text(&all[i])[shared:]), i}
	}
	slices.SortFunc(keys, func(a, b key) int {
		if a.start != b.start {
			return cmp.Compare(a.start, b.start)
		}
		return strings.Compare(text(&all[a.at]), text(&all[b.at]))
	})
	return keys
}

// sortBy sorts elements by their texts.
func sortBy[T any](all []T, text func(e *T) string) {
	before := slices.Clone(all)
	for i, k := range order(all, text) {
		all[i] = before[k.at]
	}
}

// sharedPrefix returns the number of bytes with which both texts start.
func sharedPrefix(a, b string) (n int) {
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// startOf returns the first 8 bytes of a text as a number.
func startOf(text string) uint64 {
	var start [8]byte
	copy(start[:], text)
	return binary.BigEndian.Uint64(start[:])
}
