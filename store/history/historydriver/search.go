package historydriver

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/store/history"
)

// Matcher decides whether messages match a search. It is safe for concurrent use.
type Matcher struct {
	phrase string
	words  []string // nil if the phrase must occur as it is
}

func newMatcher(query string, words bool) (*Matcher, error) {
	if len(query) > history.MaxSearchQuery {
		return nil, invalid("search text: has %d bytes, limit is %d", len(query), history.MaxSearchQuery)
	}
	if !utf8.ValidString(query) {
		return nil, invalid("search text: must be UTF-8")
	}
	body, err := json.Marshal(query)
	if err != nil {
		return nil, invalid("search text: %v", err)
	}
	m := &Matcher{phrase: history.Text(body)}
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

// Match reports whether a message with this text, as returned by [history.Text], matches.
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
