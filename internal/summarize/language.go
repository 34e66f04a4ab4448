package summarize

import (
	"embed"
	"strings"
	"sync"
	"unicode"

	"github.com/clipperhouse/uax29/v2/words"
)

// language is an ISO 639-1 code.
type language string

const (
	unknownLanguage language = ""
	english         language = "en"
	german          language = "de"
	french          language = "fr"
	spanish         language = "es"
	russian         language = "ru"
	arabic          language = "ar"
	hindi           language = "hi"
)

// languages are the languages with stop words, in the order that decides ties. Chinese and Japanese
// have stop characters instead, see bigrams.
func languages() []language {
	return []language{english, german, french, spanish, russian, arabic, hindi}
}

//go:embed stopwords/*.txt
var stopWordFiles embed.FS

type wordSet map[string]bool

// stopWords has the stop words of each language, and the stop words of all languages under
// unknownLanguage.
var stopWords = sync.OnceValue(func() map[language]wordSet {
	sets := map[language]wordSet{unknownLanguage: {}}
	for _, lang := range languages() {
		// Embedded files always exist; a test checks each list.
		list, _ := stopWordFiles.ReadFile("stopwords/" + string(lang) + ".txt")
		set := make(wordSet)
		for w := range strings.FieldsSeq(string(list)) {
			set[w] = true
			sets[unknownLanguage][w] = true
		}
		sets[lang] = set
	}
	return sets
})

// isStopWord reports whether a word, in lower case, is a stop word.
func isStopWord(word string, lang language) bool {
	if strings.ContainsRune(word, '’') {
		word = strings.ReplaceAll(word, "’", "'")
	}
	return stopWords()[lang][word]
}

// enoughEvidence is the number of stop words by which the language of a text is known.
const enoughEvidence = 3

// detectLanguage detects the language by the stop words in the first part of text. It returns
// unknownLanguage if it finds fewer than evidence.
func detectLanguage(text string, evidence int) language {
	const sample = 400
	counts := make(map[language]int)
	it := words.FromString(text)
	for seen := 0; seen < sample && it.Next(); {
		w := it.Value()
		if strings.IndexFunc(w, unicode.IsLetter) < 0 {
			continue
		}
		seen++
		w = strings.ToLower(w)
		for _, lang := range languages() {
			if isStopWord(w, lang) {
				counts[lang]++
			}
		}
	}
	best := unknownLanguage
	for _, lang := range languages() {
		if counts[lang] > counts[best] {
			best = lang
		}
	}
	if counts[best] < evidence {
		return unknownLanguage
	}
	return best
}
