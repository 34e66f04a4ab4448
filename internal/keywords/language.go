package keywords

import (
	"embed"
	"strings"
	"sync"
	"unicode"

	"github.com/clipperhouse/uax29/v2/words"
)

// Language is an ISO 639-1 code.
type Language string

// Languages with lists of stop words. Chinese and Japanese have none, so they are Unknown.
const (
	Unknown Language = ""
	English Language = "en"
	German  Language = "de"
	French  Language = "fr"
	Spanish Language = "es"
	Russian Language = "ru"
	Arabic  Language = "ar"
	Hindi   Language = "hi"
)

// languages are the languages with stop words, in the order that decides ties.
func languages() []Language {
	return []Language{English, German, French, Spanish, Russian, Arabic, Hindi}
}

//go:embed stopwords/*.txt
var stopWordFiles embed.FS

type wordSet map[string]bool

// stopWords has the stop words of each language, and the stop words of all languages under
// Unknown.
var stopWords = sync.OnceValue(func() map[Language]wordSet {
	sets := map[Language]wordSet{Unknown: {}}
	for _, lang := range languages() {
		// Embedded files always exist; a test checks each list.
		list, _ := stopWordFiles.ReadFile("stopwords/" + string(lang) + ".txt")
		set := make(wordSet)
		for w := range strings.FieldsSeq(string(list)) {
			set[w] = true
			sets[Unknown][w] = true
		}
		sets[lang] = set
	}
	return sets
})

// IsStopWord reports whether a word, in lower case, is a stop word of the language, or of any language if it is Unknown.
func (lang Language) IsStopWord(word string) bool {
	if strings.ContainsRune(word, '’') {
		word = strings.ReplaceAll(word, "’", "'")
	}
	return stopWords()[lang][word]
}

// Detect detects the language by the stop words in the first part of text. It returns Unknown if it finds fewer than
// three.
func Detect(text string) Language { return detect(text, 3) }

// detect returns Unknown if it finds fewer stop words than evidence.
func detect(text string, evidence int) Language {
	const sample = 400
	counts := make(map[Language]int)
	it := words.FromString(text)
	for seen := 0; seen < sample && it.Next(); {
		w := it.Value()
		if strings.IndexFunc(w, unicode.IsLetter) < 0 {
			continue
		}
		seen++
		w = strings.ToLower(w)
		for _, lang := range languages() {
			if lang.IsStopWord(w) {
				counts[lang]++
			}
		}
	}
	best := Unknown
	for _, lang := range languages() {
		if counts[lang] > counts[best] {
			best = lang
		}
	}
	if counts[best] < evidence {
		return Unknown
	}
	return best
}
