// Package recall finds facts by their text. The backends of memory.LongTerm share it, so that
// the same facts have the same scores and order in each of them.
//
// A backend has an index of terms and returns candidates from it. The scores depend only on
// the candidates and on the facts of the searched scope, not on the facts of other owners.
package recall
