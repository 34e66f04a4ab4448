package summarize

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/sentences"

	"github.com/holdfast-dev/holdfast/internal/keywords"
)

// longestSentence is the maximum number of runes without the end of a sentence; longer text is
// split.
const longestSentence = 1000

// Sentence is one sentence with its position.
type Sentence struct {
	// Page is the number of the page.
	Page int `json:"page"`
	// Index is the number of the sentence among all sentences of the page, from 0.
	Index int `json:"index"`
	// Text is the sentence as one line, without a list marker.
	Text string `json:"text"`
}

// Sentences splits a page into sentences. It joins the wrapped lines of a paragraph. List items are
// sentences of their own, and so are lines that end early without punctuation, such as headings.
func Sentences(p Page) []Sentence {
	var out []Sentence
	for _, b := range pageBlocks(p.Text) {
		for _, s := range b.sentences {
			out = append(out, Sentence{Page: p.Number, Index: len(out), Text: s})
		}
	}
	return out
}

// block is text that is one unit of layout: a paragraph, a list item or a heading.
type block struct {
	sentences []string
}

func pageBlocks(text string) []block {
	lang := keywords.Detect(text)
	var out []block
	for p := range paragraphs(text) {
		for _, unit := range unwrap(p) {
			if ss := splitSentences(unit, lang); len(ss) > 0 {
				out = append(out, block{sentences: ss})
			}
		}
	}
	return out
}

// splitSentences splits one line of text. The Unicode rules find the candidates; joinsNext rejects
// the wrong ones.
func splitSentences(text string, lang keywords.Language) []string {
	var out []string
	pending := ""
	emit := func() {
		if s := strings.TrimSpace(pending); hasContent(s) {
			out = appendBounded(out, s)
		}
		pending = ""
	}
	parts := segments(text)
	for i, part := range parts {
		pending += part
		if i+1 == len(parts) {
			break
		}
		// Text without the end of a sentence is split later anyway. Checking each of its parts
		// again would take quadratic time.
		if len(pending) > 8*longestSentence || !joinsNext(pending, parts[i+1], lang) {
			emit()
		}
	}
	emit()
	return out
}

// segments returns the sentences by the Unicode rules and two more: an ellipsis character before a
// capital ends a sentence, and a French closing quote after a space belongs to the previous
// sentence.
func segments(text string) []string {
	var out []string
	it := sentences.FromString(text)
	for it.Next() {
		s := it.Value()
		if n := leadingCloser(s); n > 0 && len(out) > 0 {
			out[len(out)-1] += s[:n]
			s = s[n:]
		}
		out = append(out, splitAtEllipsis(s)...)
	}
	return out
}

// leadingCloser returns the length of a closing quote or bracket at the start of s, with the space
// after it.
func leadingCloser(s string) int {
	r, size := utf8.DecodeRuneInString(s)
	if r != '»' && r != '”' && r != ')' && r != '›' && r != '」' && r != '』' {
		return 0
	}
	rest := s[size:]
	next, _ := utf8.DecodeRuneInString(rest)
	if rest != "" && !unicode.IsSpace(next) && !unicode.IsPunct(next) {
		// In German, » opens a quotation.
		return 0
	}
	return len(s) - len(strings.TrimLeftFunc(rest, unicode.IsSpace))
}

func splitAtEllipsis(s string) []string {
	var out []string
	start := 0
	for i, r := range s {
		end := i + utf8.RuneLen(r)
		if r != '…' || strings.HasPrefix(s[end:], "…") {
			continue
		}
		rest := strings.TrimLeft(s[end:], "…\"”»’)」』")
		body := strings.TrimLeftFunc(rest, unicode.IsSpace)
		if len(body) == len(rest) || !startsUpper(body) {
			continue
		}
		cut := len(s) - len(body)
		if cut > start {
			out = append(out, s[start:cut])
			start = cut
		}
	}
	if start < len(s) {
		out = append(out, s[start:])
	}
	return out
}

// joinsNext reports whether the boundary between two segments does not end a sentence.
func joinsNext(before, after string, lang keywords.Language) bool {
	before = strings.TrimRightFunc(before, unicode.IsSpace)
	if before == "" || strings.TrimSpace(after) == "" {
		return true
	}
	if startsLower(after) || continuesQuote(before, after) {
		return true
	}
	head, ok := strings.CutSuffix(before, ".")
	if !ok || strings.HasSuffix(head, ".") {
		return false
	}
	if isEnumerator(head) {
		return true
	}
	return abbreviated(head, after, lang)
}

// continuesQuote reports whether text starts with a Japanese particle that continues the sentence
// after a quotation.
func continuesQuote(before, after string) bool {
	last, _ := utf8.DecodeLastRuneInString(before)
	if last != '」' && last != '』' && last != '）' {
		return false
	}
	first, _ := utf8.DecodeRuneInString(after)
	return strings.ContainsRune("とっはがをにのもでだなや、", first)
}

// isEnumerator reports whether the sentence so far is only a list number such as "12", "IV" or "a".
func isEnumerator(s string) bool {
	s = strings.TrimLeft(strings.TrimSpace(s), "([")
	if s == "" || len(s) > 8 {
		return false
	}
	digits := strings.TrimRight(strings.Trim(s, "0123456789."), "")
	if digits == "" {
		return true
	}
	return utf8.RuneCountInString(s) == 1 || strings.Trim(s, "IVXLC") == "" || strings.Trim(s, "ivxlc") == ""
}

// startsLower reports whether the first letter after quotes and dashes is lower case.
func startsLower(s string) bool {
	r := firstLetter(s)
	return unicode.IsLower(r)
}

// startsUpper reports whether that character is an upper-case letter, a letter of a script without
// case, or a digit.
func startsUpper(s string) bool {
	r := firstLetter(s)
	return unicode.IsLetter(r) && !unicode.IsLower(r) || unicode.IsDigit(r)
}

func firstLetter(s string) rune {
	for i, r := range s {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		if i > 16 {
			break
		}
	}
	return 0
}

func hasContent(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }) >= 0
}

func appendBounded(out []string, s string) []string {
	for utf8.RuneCountInString(s) > longestSentence {
		end := cutPoint(s, longestSentence)
		if head := strings.TrimSpace(s[:end]); hasContent(head) {
			out = append(out, head)
		}
		s = strings.TrimSpace(s[end:])
	}
	if !hasContent(s) {
		return out
	}
	return append(out, s)
}
