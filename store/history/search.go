package history

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of searches.
const (
	// MaxSearchText is the number of bytes of a message's text that a search compares.
	MaxSearchText  = 64 << 10
	MaxSearchQuery = 1 << 10
	// SearchScan is the number of messages that one search examines.
	SearchScan = 10_000
)

// Text returns the text of a message in the form in which searches compare it. body is valid JSON.
func Text(body []byte) string {
	var text folded
	for i := 0; i < len(body) && text.Len() < MaxSearchText; i++ {
		if body[i] != '"' {
			continue
		}
		start := i
		for i++; body[i] != '"'; i++ {
			if body[i] == '\\' {
				i++
			}
		}
		raw, rest := body[start:i+1], bytes.TrimLeft(body[i+1:], " \t\r\n")
		if len(rest) > 0 && rest[0] == ':' {
			continue // the name of a member
		}
		value := string(raw[1 : len(raw)-1])
		if strings.Contains(value, `\`) {
			_ = json.Unmarshal(raw, &value) // valid, as the body is
		}
		text.add(value)
		text.add(" ")
	}
	return cut(strings.TrimSpace(text.String()), MaxSearchText)
}

// cut returns up to limit bytes of s, without a partial character.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// folded is a text without case, and with each sequence of white space and control characters as
// one space.
type folded struct {
	strings.Builder
	word bool // the text does not end with a space
}

// add appends a text, until the limit is reached.
func (f *folded) add(s string) {
	for _, r := range s {
		if f.Len() >= MaxSearchText {
			return
		}
		if unicode.IsSpace(r) || unicode.IsControl(r) {
			if f.word {
				f.WriteByte(' ')
			}
			f.word = false
			continue
		}
		f.word = true
		f.WriteRune(unicode.ToLower(unicode.ToUpper(r)))
	}
}

// Matcher decides whether messages match a search. It is safe for concurrent use.
type Matcher struct {
	phrase string
	words  []string // nil if the phrase must occur as it is
}

func newMatcher(query string, words bool) (*Matcher, error) {
	if len(query) > MaxSearchQuery {
		return nil, invalid("search text: has %d bytes, limit is %d", len(query), MaxSearchQuery)
	}
	if !utf8.ValidString(query) {
		return nil, invalid("search text: must be UTF-8")
	}
	var text folded
	text.add(query)
	m := &Matcher{phrase: strings.TrimSpace(text.String())}
	if words {
		m.words = splitWords(m.phrase)
	}
	if m.phrase == "" || words && len(m.words) == 0 {
		return nil, invalid("search text: must not be empty")
	}
	return m, nil
}

// splitWords returns the words of a folded text.
func splitWords(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return !unicode.In(r, unicode.L, unicode.M, unicode.N) })
}

// Contained returns lower-case ASCII letters and digits that the JSON body of every match contains
// in either case, unless the body has an escape \u or a character that is not ASCII. It is empty if
// there are none.
func (m *Matcher) Contained() string {
	runs := strings.FieldsFunc(m.phrase, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	if len(runs) == 0 {
		return ""
	}
	return slices.MaxFunc(runs, func(a, b string) int { return len(a) - len(b) })
}

// Match reports whether a message with this text, as returned by [Text], matches.
func (m *Matcher) Match(text string) bool {
	if m.words == nil {
		return strings.Contains(text, m.phrase)
	}
	for _, word := range m.words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	found := make(map[string]bool)
	for _, word := range splitWords(text) {
		found[word] = true
	}
	for _, word := range m.words {
		if !found[word] {
			return false
		}
	}
	return true
}
