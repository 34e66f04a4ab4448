package history

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"
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
