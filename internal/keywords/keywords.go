// Package keywords finds the significant words of a text, and the language of the text, by lists of stop words.
package keywords

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/words"
	"golang.org/x/text/unicode/norm"
)

// Of returns the words and numbers of a text without stop words, in order. A text in a
// script without spaces between words is one word.
func Of(text string) (all []string) {
	const evidence = 2 // questions are short
	lang := detect(text, evidence)
	if lang == Unknown { // all lists together have too many words: "sea" is a stop word in Spanish
		lang = English
	}
	run := false // the last word continues
	it := words.FromString(norm.NFKC.String(text))
	for it.Next() {
		w := it.Value()
		r, _ := utf8.DecodeRuneInString(w)
		switch {
		case UsesBigrams(r) && run:
			all[len(all)-1] += w
		case UsesBigrams(r):
			all, run = append(all, w), true
		default:
			run = false
			if strings.IndexFunc(w, isLetterOrNumber) >= 0 && !lang.IsStopWord(strings.ToLower(w)) {
				all = append(all, w)
			}
		}
	}
	return all
}

func isLetterOrNumber(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }

// UsesBigrams reports whether a script has no spaces between words, or is Korean, where particles
// are part of the word.
func UsesBigrams(r rune) bool {
	return IsCJK(r) || unicode.In(r, unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// IsCJK reports whether r is a Chinese or Japanese character.
func IsCJK(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana) || r == 'ー'
}
