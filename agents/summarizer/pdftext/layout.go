package pdftext

import (
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

// layout combines positioned strings into lines and paragraphs. It keeps the order of the
// content stream, which usually is the reading order; sorting by position would mix columns.
type layout struct {
	out  strings.Builder
	line strings.Builder
	// started reports whether a string was added. The fields below describe the last string and its
	// line.
	started                bool
	last                   string
	lastX, endX, lastY     float64
	lastSize               float64
	lineX, lineY, lineSize float64
	// leading is the distance of lines in this paragraph, 0 before its second line.
	leading float64
}

func (l *layout) size() int { return l.out.Len() + l.line.Len() }

func (l *layout) text() string {
	l.out.WriteString(l.line.String())
	l.line.Reset()
	return l.out.String()
}

// add adds text that starts at x, y and ends at endX.
func (l *layout) add(text string, x, y, endX, size float64) {
	if !finite(x) || !finite(y) || !finite(endX) || !finite(size) {
		return
	}
	switch {
	case !l.started:
		l.startLine(x, y, size)
	case l.isOverprint(text, x, y, size):
		return
	case l.isNewLine(x, y, size):
		l.breakLine(text, x, y, size)
	case l.gap(text, x, size):
		l.line.WriteByte(' ')
	}
	l.started = true
	l.line.WriteString(text)
	l.last, l.lastX, l.endX, l.lastY, l.lastSize = text, x, endX, y, size
}

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

// isOverprint reports whether text is printed a second time to make it bold.
func (l *layout) isOverprint(text string, x, y, size float64) bool {
	near := 0.2 * size
	return text == l.last && strings.TrimSpace(text) != "" && math.Abs(x-l.lastX) < near && math.Abs(y-l.lastY) < near
}

func (l *layout) isNewLine(x, y, size float64) bool {
	tall := max(size, l.lastSize)
	// Superscripts, and the text after them, stay on the line.
	if math.Abs(y-l.lastY) > 0.6*tall && math.Abs(y-l.lineY) > 0.6*tall {
		return true
	}
	return x < l.endX-1.5*tall && x < l.lastX
}

func (l *layout) gap(text string, x, size float64) bool {
	if strings.HasSuffix(l.last, " ") || strings.HasPrefix(text, " ") {
		return false
	}
	need := 0.16
	before, _ := utf8.DecodeLastRuneInString(l.last)
	after, _ := utf8.DecodeRuneInString(text)
	if isSpaceless(before) && isSpaceless(after) {
		need = 0.8
	}
	return x-l.endX > need*size
}

func (l *layout) breakLine(text string, x, y, size float64) {
	down := l.lineY - y
	ended := endsSentence(l.line.String())
	l.out.WriteString(l.line.String())
	l.line.Reset()
	if l.isParagraph(text, x, down, size, ended) {
		l.out.WriteString("\n\n")
		l.leading = 0
	} else {
		l.out.WriteByte('\n')
		if down > 0 && (l.leading == 0 || down < l.leading) {
			l.leading = down
		}
	}
	l.startLine(x, y, size)
}

func (l *layout) startLine(x, y, size float64) {
	l.lineX, l.lineY, l.lineSize = x, y, size
}

func (l *layout) isParagraph(text string, x, down, size float64, ended bool) bool {
	const sameSize = 0.12
	if math.Abs(size-l.lineSize) > sameSize*max(size, l.lineSize) {
		return true
	}
	if down <= 0 {
		// The next column or a note starts; the sentence may continue in it.
		return ended || startsUpper(text) && l.leading == 0
	}
	usual := l.leading
	if usual == 0 {
		usual = 1.35 * max(size, l.lineSize)
	}
	if down > 1.35*usual {
		return true
	}
	indent := x - l.lineX
	return ended && indent > 0.8*size && indent < 8*size
}

func endsSentence(text string) bool {
	r, _ := utf8.DecodeLastRuneInString(strings.TrimRight(text, "\"'”’»«›“)]）」』】 \u00a0\u202f"))
	return unicode.Is(unicode.Sentence_Terminal, r) || r == '…'
}

// startsUpper reports whether the first letter or digit is no lower case letter.
func startsUpper(text string) bool {
	for i, r := range text {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return !unicode.IsLower(r)
		}
		if i > 16 {
			break
		}
	}
	return false
}

// isSpaceless reports whether r belongs to a script that puts no spaces between words.
func isSpaceless(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar) ||
		r == 'ー' || 0x3000 <= r && r <= 0x303f || 0xff00 <= r && r <= 0xff65
}
