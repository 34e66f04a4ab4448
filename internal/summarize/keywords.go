package summarize

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/words"
	"golang.org/x/text/unicode/norm"
)

// Keywords returns the words and numbers of a text without stop words, in order. A text in a
// script without spaces between words is one word.
func Keywords(text string) (all []string) {
	const evidence = 2 // questions are short
	lang := detectLanguage(text, evidence)
	if lang == unknownLanguage { // all lists together have too many words: "sea" is a stop word in Spanish
		lang = english
	}
	run := false // the last word continues
	it := words.FromString(norm.NFKC.String(text))
	for it.Next() {
		w := it.Value()
		r, _ := utf8.DecodeRuneInString(w)
		switch {
		case usesBigrams(r) && run:
			all[len(all)-1] += w
		case usesBigrams(r):
			all, run = append(all, w), true
		default:
			run = false
			if strings.IndexFunc(w, isLetterOrNumber) >= 0 && !isStopWord(strings.ToLower(w), lang) {
				all = append(all, w)
			}
		}
	}
	return all
}

func isLetterOrNumber(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }
