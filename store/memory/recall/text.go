package recall

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxWord is the number of runes of a word that are indexed.
const maxWord = 64

// MaxIndexed is the number of distinct stems, and of trigrams, of a text that are indexed. So the terms of
// 256 KiB of text fit in a tsvector of PostgreSQL.
const MaxIndexed = 16_384

// Text is an analyzed text.
type Text struct {
	Words []string // in their order: lower case, without accents
	Stems []string // of the words
}

// kind is the part that a character has in a text.
type kind int

const (
	separator kind = iota
	letter         // of a word: a letter, digit or mark
	accent         // ignored
	ideograph      // a word of its own
)

// accented are letters with accents, after each letter without one. Accents that are characters
// of their own are ignored.
const accented = "aàáâãäåāăą cçćĉċč dďđ eèéêëēĕėęě gĝğġģ hĥħ iìíîïĩīĭįı jĵ kķ lĺļľŀł nñńņň oòóôõöøōŏő rŕŗř sśŝşš tţťŧ uùúûüũūŭůűų wŵ yýÿŷ zźżž"

var unaccented = func() map[rune]rune {
	m := make(map[rune]rune)
	for group := range strings.SplitSeq(accented, " ") {
		for _, r := range group[1:] {
			m[r] = rune(group[0])
		}
	}
	return m
}()

// fold returns a character in lower case and without accent.
func fold(r rune) rune {
	if r = unicode.ToLower(r); r < utf8.RuneSelf {
		return r
	}
	if plain, ok := unaccented[r]; ok {
		return plain
	}
	return r
}

func kindOf(r rune) kind {
	switch {
	case r < utf8.RuneSelf:
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' {
			return letter
		}
		return separator
	case r >= 0x300 && r <= 0x36f:
		return accent
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana):
		return ideograph
	case unicode.In(r, unicode.L, unicode.N, unicode.M):
		return letter
	}
	return separator
}

// Analyze returns the words of a text with their stems.
func Analyze(text string) Text { return make(stemmer).analyze(text) }

// stemmer has the stems of words.
type stemmer map[string]string

func (s stemmer) analyze(text string) Text {
	words := Words(text)
	a := Text{words, make([]string, len(words))}
	for i, w := range words {
		stem, ok := s[w]
		if !ok {
			stem = Stem(w)
			s[w] = stem
		}
		a.Stems[i] = stem
	}
	return a
}

// Words returns the words of a text. Each ideograph is a word, and so is each pair of adjacent
// ones, because their scripts do not separate words.
func Words(text string) []string {
	words := make([]string, 0, len(text)/5+1)
	var word []byte
	length := 0     // of the word in runes
	var before rune // the ideograph before, or 0
	for i := 0; i <= len(text); {
		if end := plainWord(text, i); length == 0 && end > i {
			words = append(words, text[i:min(end, i+maxWord)])
			before, i = 0, end
			continue
		}
		r, size := rune(' '), 1 // after the end
		if i < len(text) {
			r, size = utf8.DecodeRuneInString(text[i:])
		}
		i += size
		r = fold(r)
		k := kindOf(r)
		if k == accent {
			continue
		}
		if k == letter && length < maxWord {
			word, length = utf8.AppendRune(word, r), length+1
		}
		if k != letter && length > 0 {
			words = append(words, string(word))
			word, length = word[:0], 0
		}
		if k != ideograph {
			before = 0
			continue
		}
		words = append(words, string(r))
		if before != 0 {
			words = append(words, string([]rune{before, r}))
		}
		before = r
	}
	return words
}

// plain has the kind of each ASCII character that is no capital letter, as 1+kind.
var plain = func() (all [256]kind) {
	for c := range rune(utf8.RuneSelf) {
		if fold(c) == c {
			all[c] = 1 + kindOf(c)
		}
	}
	return all
}()

// plainWord returns the end of the word that starts at i in a text if it has only letters from a to z and digits,
// else i.
func plainWord(text string, i int) int {
	end := i
	for end < len(text) && plain[text[end]] == 1+letter {
		end++
	}
	if end < len(text) && plain[text[end]] != 1+separator {
		return i
	}
	return end
}

// Indexed returns the part of a text that an index has: the words with the first MaxIndexed distinct stems.
func (a Text) Indexed() Text {
	if len(a.Stems) <= MaxIndexed {
		return a
	}
	seen := make(map[string]bool, MaxIndexed)
	var kept Text
	for i, s := range a.Stems {
		if len(seen) < MaxIndexed {
			seen[s] = true
		}
		if seen[s] {
			kept.Words, kept.Stems = append(kept.Words, a.Words[i]), append(kept.Stems, s)
		}
	}
	return kept
}

// Trigram is a trigram of a word as a number: three characters of 21 bits each.
type Trigram uint64

// push returns the trigram that ends with one more character.
func (g Trigram) push(r rune) Trigram { return (g<<21 | Trigram(r)) & (1<<63 - 1) } // no rune is negative

// String returns the characters.
func (g Trigram) String() string {
	const mask = 1<<21 - 1
	return string([]rune{rune(g >> 42 & mask), rune(g >> 21 & mask), rune(g & mask)})
}

// TrigramOf returns the trigram with three characters.
func TrigramOf(text string) (g Trigram) {
	for _, r := range text {
		g = g.push(r)
	}
	return g
}

// Trigrams returns the distinct trigrams of words, each with a mark for the start and the end of
// the word, as in "_wo", "wor", "ord" and "rd_".
func Trigrams(words ...string) []string {
	var all []string
	var ofWord []Trigram
	seen := make(map[Trigram]bool)
	for _, w := range words {
		ofWord = AppendTrigrams(ofWord[:0], w)
		for _, g := range ofWord {
			if !seen[g] {
				seen[g] = true
				all = append(all, g.String())
			}
		}
	}
	return all
}

// AppendTrigrams appends the distinct trigrams of a word, see Trigrams, to all.
func AppendTrigrams(all []Trigram, word string) []Trigram {
	first := len(all)
	add := func(g Trigram) {
		if !slices.Contains(all[first:], g) {
			all = append(all, g)
		}
	}
	g, n := TrigramOf("_"), 1
	for _, r := range word {
		if g, n = g.push(r), n+1; n >= 3 {
			add(g)
		}
	}
	if n >= 2 {
		add(g.push('_'))
	}
	return all
}

// distinct returns the distinct elements of all, in their order, up to limit.
func distinct(all []string, limit int) []string {
	var kept []string
	seen := make(map[string]bool)
	for _, s := range all {
		if !seen[s] && len(kept) < limit {
			seen[s] = true
			kept = append(kept, s)
		}
	}
	return kept
}
