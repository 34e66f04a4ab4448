package rules

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Text returns the rule that a text breaks, "" if stores accept it: UTF-8 without NUL, up to limit bytes.
func Text(text string, limit int) string {
	switch {
	case len(text) > limit:
		return fmt.Sprintf("has %d bytes, limit is %d", len(text), limit)
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return "must be UTF-8 without NUL"
	}
	return ""
}
