package summarize

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/internal/keywords"
)

// unwrap splits the lines of a paragraph into units of continuous text: it joins wrapped lines and
// hyphenated words, and separates list items and lines that the author ended.
func unwrap(paragraph string) []string {
	lines := strings.Split(paragraph, "\n")
	width := 0
	for i := range lines {
		width = max(width, utf8.RuneCountInString(lines[i]))
		lines[i] = strings.Join(strings.Fields(lines[i]), " ")
	}
	var out []string
	unit := newUnit()
	for i, line := range lines {
		body, item := cutBullet(line)
		if unit.len() > 0 && (item || endsOnPurpose(lines[i-1], line, width)) {
			out = append(out, unit.String())
			unit = newUnit()
		}
		unit.add(body)
	}
	return append(out, unit.String())
}

// unit joins lines without scanning the earlier ones again.
type unit struct {
	lines []string
}

func newUnit() *unit { return &unit{} }

func (u *unit) len() int { return len(u.lines) }

func (u *unit) add(line string) {
	if line != "" {
		u.lines = append(u.lines, line)
	}
}

func (u *unit) String() string {
	var b strings.Builder
	for i, line := range u.lines {
		if i+1 == len(u.lines) {
			b.WriteString(line)
			break
		}
		text, sep := joint(line, u.lines[i+1])
		b.WriteString(text)
		b.WriteString(sep)
	}
	return strings.ReplaceAll(b.String(), "\u00ad", "")
}

// joint returns a line, without a hyphen that only marks the wrap, and the separator to the next
// line.
func joint(line, next string) (text, sep string) {
	last, size := utf8.DecodeLastRuneInString(line)
	first, _ := utf8.DecodeRuneInString(next)
	head := line[:len(line)-size]
	before, _ := utf8.DecodeLastRuneInString(head)
	switch {
	case last == '\u00ad':
		return head, ""
	case (last == '-' || last == '\u2010') && unicode.IsLetter(before):
		// "state-of-" keeps its hyphen, "docu-" loses it. German "Ein- und" keeps its hyphen and
		// space.
		if !unicode.IsLower(first) || strings.Contains(lastWord(head), "-") {
			return line, ""
		}
		if w := firstWord(next); w == "und" || w == "oder" || w == "bzw." {
			return line, " "
		}
		return head, ""
	case isSpaceless(last) && isSpaceless(first):
		return line, ""
	}
	return line, " "
}

// endsOnPurpose reports whether the author ended a line, rather than the width of the page: the
// line has no final punctuation, the next one starts like a sentence, and its first word would have
// fitted easily.
func endsOnPurpose(line, next string, width int) bool {
	last, _ := utf8.DecodeLastRuneInString(strings.TrimRight(line, "\"”»’)]）」』"))
	if isTerminal(last) {
		return false
	}
	if strings.ContainsRune(",;-–—、，،\u00ad", last) || startsLower(next) {
		return false
	}
	word := utf8.RuneCountInString(firstWord(next))
	if first, _ := utf8.DecodeRuneInString(next); isSpaceless(first) {
		word = 1
	}
	const slackNum, slackDen = 3, 4
	return slackDen*(utf8.RuneCountInString(line)+1+word) <= slackNum*width
}

// cutBullet removes a list marker and reports whether the line is a list item. It keeps numbers,
// since the text may refer to them.
func cutBullet(line string) (string, bool) {
	r, size := utf8.DecodeRuneInString(line)
	rest := line[size:]
	if strings.ContainsRune("•‣◦▪▫●○■□–—-*+·➢✓", r) && strings.HasPrefix(rest, " ") {
		return strings.TrimSpace(rest), true
	}
	if r == '•' || r == '●' || r == '▪' || r == '・' && rest != "" {
		return strings.TrimSpace(rest), true
	}
	return line, isNumberedItem(line)
}

func isNumberedItem(line string) bool {
	marker, rest, ok := strings.Cut(line, " ")
	if !ok || rest == "" || len(marker) > 5 {
		return false
	}
	if body, bracketed := strings.CutSuffix(marker, ")"); bracketed {
		body = strings.TrimPrefix(body, "(")
		return isDigits(body) || utf8.RuneCountInString(body) == 1
	}
	body, dotted := strings.CutSuffix(marker, ".")
	// A wrapped line may start with a year or, in German, an ordinal.
	return dotted && isDigits(body) && len(body) <= 2 && !startsLower(rest)
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

func firstWord(s string) string {
	word, _, _ := strings.Cut(s, " ")
	return word
}

func lastWord(s string) string {
	return s[strings.LastIndexByte(s, ' ')+1:]
}

func isTerminal(r rune) bool {
	return unicode.Is(unicode.Sentence_Terminal, r) || r == '…' || r == '।' || r == '॥'
}

// isSpaceless reports whether r belongs to a script without spaces between words.
func isSpaceless(r rune) bool {
	return keywords.IsCJK(r) || unicode.In(r, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar) ||
		0x3000 <= r && r <= 0x303f || 0xff00 <= r && r <= 0xff65
}
