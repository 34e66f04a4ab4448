package recall

import "strings"

// Stem returns the stem of an English word by the algorithm of M. F. Porter, "An algorithm for
// suffix stripping", 1980. Words with other characters than a to z are unchanged.
func Stem(word string) string {
	if len(word) < 3 || strings.ContainsFunc(word, func(r rune) bool { return r < 'a' || r > 'z' }) {
		return word
	}
	w := porter(word)
	w = w.plural()
	w = w.participle()
	if base, ok := w.cut("y"); ok && base.hasVowel() {
		w = base + "i"
	}
	w = w.replace(0, doubleSuffixes)
	w = w.replace(0, singleSuffixes)
	w = w.strip()
	return string(w.final())
}

// porter is a word in lower case.
type porter string

func (w porter) cut(suffix string) (porter, bool) {
	base, ok := strings.CutSuffix(string(w), suffix)
	return porter(base), ok
}

// consonant reports whether the letter at i is one: y is after a vowel and at the start.
func (w porter) consonant(i int) bool {
	switch w[i] {
	case 'a', 'e', 'i', 'o', 'u':
		return false
	case 'y':
		return i == 0 || !w.consonant(i-1)
	}
	return true
}

// measure returns the number of sequences of vowels that consonants follow.
func (w porter) measure() (n int) {
	for i := 1; i < len(w); i++ {
		if w.consonant(i) && !w.consonant(i-1) {
			n++
		}
	}
	return n
}

func (w porter) hasVowel() bool {
	for i := range len(w) {
		if !w.consonant(i) {
			return true
		}
	}
	return false
}

// doubled reports whether w ends with the same consonant twice.
func (w porter) doubled() bool {
	n := len(w)
	return n > 1 && w[n-1] == w[n-2] && w.consonant(n-1)
}

// short reports whether w ends with consonant, vowel, consonant, and the last is not w, x or y.
func (w porter) short() bool {
	n := len(w)
	return n > 2 && w.consonant(n-1) && !w.consonant(n-2) && w.consonant(n-3) && !strings.ContainsRune("wxy", rune(w[n-1]))
}

func (w porter) plural() porter {
	switch {
	case strings.HasSuffix(string(w), "sses"), strings.HasSuffix(string(w), "ies"):
		return w[:len(w)-2]
	case strings.HasSuffix(string(w), "ss"):
		return w
	}
	base, _ := w.cut("s")
	return base
}

func (w porter) participle() porter {
	if base, ok := w.cut("eed"); ok {
		if base.measure() > 0 {
			return base + "ee"
		}
		return w
	}
	base, ok := w.cut("ed")
	if !ok {
		base, ok = w.cut("ing")
	}
	if !ok || !base.hasVowel() {
		return w
	}
	for _, suffix := range []string{"at", "bl", "iz"} {
		if _, ok := base.cut(suffix); ok {
			return base + "e"
		}
	}
	switch last := base[len(base)-1]; {
	case base.doubled() && last != 'l' && last != 's' && last != 'z':
		return base[:len(base)-1]
	case base.measure() == 1 && base.short():
		return base + "e"
	}
	return base
}

// suffix is a suffix with its replacement.
type suffix struct{ from, to string }

// suffixes are suffixes by their last letter. Of two suffixes of a word, the longer one is first.
type suffixes [256][]suffix

// suffixesOf returns suffixes from pairs of a suffix and its replacement.
func suffixesOf(pairs ...string) *suffixes {
	var all suffixes
	for i := 0; i < len(pairs); i += 2 {
		from := pairs[i]
		last := from[len(from)-1]
		all[last] = append(all[last], suffix{from, pairs[i+1]})
	}
	return &all
}

var (
	doubleSuffixes = suffixesOf(
		"ational", "ate",
		"tional", "tion",
		"enci", "ence",
		"anci", "ance",
		"izer", "ize",
		"abli", "able",
		"alli", "al",
		"entli", "ent",
		"eli", "e",
		"ousli", "ous",
		"ization", "ize",
		"ation", "ate",
		"ator", "ate",
		"alism", "al",
		"iveness", "ive",
		"fulness", "ful",
		"ousness", "ous",
		"aliti", "al",
		"iviti", "ive",
		"biliti", "ble",
	)
	singleSuffixes = suffixesOf(
		"icate", "ic", "ative", "", "alize", "al", "iciti", "ic", "ical", "ic", "ful", "", "ness", "",
	)
	lastSuffixes = suffixesOf(
		"al", "", "ance", "", "ence", "", "er", "", "ic", "", "able", "", "ible", "", "ant", "", "ement", "", "ment", "", "ent", "",
		"ou", "", "ism", "", "ate", "", "iti", "", "ous", "", "ive", "", "ize", "",
	)
)

// replace replaces the first suffix that w has if the rest has a greater measure.
func (w porter) replace(measure int, all *suffixes) porter {
	for _, s := range all[w[len(w)-1]] {
		if base, ok := w.cut(s.from); ok {
			if base.measure() > measure {
				return base + porter(s.to)
			}
			return w
		}
	}
	return w
}

// strip removes the last suffix.
func (w porter) strip() porter {
	if base, ok := w.cut("ion"); ok && base != "" && (base[len(base)-1] == 's' || base[len(base)-1] == 't') && base.measure() > 1 {
		return base
	}
	return w.replace(1, lastSuffixes)
}

// final removes a final e and one of two final l.
func (w porter) final() porter {
	if base, ok := w.cut("e"); ok {
		if m := base.measure(); m > 1 || m == 1 && !base.short() {
			w = base
		}
	}
	if w.doubled() && w[len(w)-1] == 'l' && w.measure() > 1 {
		return w[:len(w)-1]
	}
	return w
}
