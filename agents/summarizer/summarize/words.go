package summarize

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/words"
	"golang.org/x/text/unicode/norm"

	"github.com/holdfast-dev/holdfast/internal/keywords"
)

// tokens is the data of a sentence that the ranking uses.
type tokens struct {
	// terms are the normalized content words, in order, with repetitions.
	terms []string
	// words is the number of words, including stop words and numbers. In scripts without spaces,
	// two characters count as one word.
	words int
	// numbers is the number of words that are numbers.
	numbers int
	// first is the first word in lower case.
	first string
}

func tokenize(sentence string, lang keywords.Language) tokens {
	var t tokens
	var run []rune
	flush := func() {
		t.terms = append(t.terms, bigrams(run)...)
		t.words += (len(run) + 1) / 2
		run = run[:0]
	}
	it := words.FromString(norm.NFKC.String(sentence))
	for it.Next() {
		w := it.Value()
		r, _ := utf8.DecodeRuneInString(w)
		if keywords.UsesBigrams(r) {
			run = append(run, []rune(w)...)
			continue
		}
		flush()
		t.addWord(strings.ToLower(w), lang)
	}
	flush()
	return t
}

func (t *tokens) addWord(w string, lang keywords.Language) {
	if strings.IndexFunc(w, unicode.IsLetter) < 0 {
		if strings.IndexFunc(w, unicode.IsNumber) >= 0 {
			t.words++
			t.numbers++
		}
		return
	}
	t.words++
	if t.first == "" {
		t.first = w
	}
	if lang.IsStopWord(w) {
		return
	}
	if s := stem(w); utf8.RuneCountInString(s) > 1 {
		t.terms = append(t.terms, s)
	}
}

// bigrams returns the pairs of adjacent characters. It omits, like stop words, pairs of only
// hiragana in Japanese and pairs with a function character in Chinese.
func bigrams(run []rune) []string {
	if len(run) == 1 && unicode.Is(unicode.Han, run[0]) && !isStopCharacter(run[0]) {
		return []string{string(run)}
	}
	var out []string
	for i := 0; i+1 < len(run); i++ {
		a, b := run[i], run[i+1]
		if unicode.Is(unicode.Hiragana, a) && unicode.Is(unicode.Hiragana, b) || isStopCharacter(a) || isStopCharacter(b) {
			continue
		}
		out = append(out, string([]rune{a, b}))
	}
	return out
}

func isStopCharacter(r rune) bool {
	return strings.ContainsRune("的了是在和也就而及与與着著或这這那个個们們我你他她它不没沒有于於之其把被让讓给給很吗嗎呢吧啊はがをにのもへとでや", r)
}

// stem maps the forms of a word to one term. For inflected languages, truncation to a prefix works
// about as well as a stemmer.
func stem(w string) string {
	w = strings.ReplaceAll(w, "’", "'")
	w = strings.TrimSuffix(w, "'s")
	if i := strings.IndexByte(w, '\''); i > 0 && i <= 2 {
		// Elision in French and Italian: l'eau, d'Europe, qu'elle.
		w = w[i+1:]
	}
	r, _ := utf8.DecodeRuneInString(w)
	switch {
	case unicode.Is(unicode.Latin, r):
		return prefix(trimPlural(w), 8)
	case unicode.In(r, unicode.Cyrillic, unicode.Greek):
		return prefix(w, 6)
	case unicode.Is(unicode.Arabic, r):
		return stemArabic(w)
	}
	return w
}

func trimPlural(w string) string {
	if len(w) <= 4 || strings.HasSuffix(w, "ss") {
		return w
	}
	if s, ok := strings.CutSuffix(w, "ies"); ok {
		return s + "y"
	}
	return strings.TrimSuffix(w, "s")
}

// stemArabic removes vowel marks, the tatweel, and a conjunction or preposition with the article.
func stemArabic(w string) string {
	w = strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) || r == 'ـ' {
			return -1
		}
		return r
	}, w)
	for _, p := range []string{"وال", "بال", "كال", "فال", "لل", "ال"} {
		if rest, ok := strings.CutPrefix(w, p); ok && utf8.RuneCountInString(rest) >= 3 {
			return rest
		}
	}
	return w
}

func prefix(w string, n int) string {
	for i := range w {
		if n == 0 {
			return w[:i]
		}
		n--
	}
	return w
}
