package pdftext

import (
	"strings"
	"unicode"
	"unicode/utf16"
)

// charCode is a code with its length in bytes, since <20> and <0020> are different codes.
type charCode struct{ code, bytes int }

// charMap is a ToUnicode character map.
type charMap struct {
	text   map[charCode]string
	ranges []codeRange
	// writes counts the entries, including overwritten ones.
	writes int
}

type codeRange struct{ low, high, bytes int }

// maxMapped is the maximum number of entries of a map, in which ranges are expanded.
const maxMapped = 1 << 17

// parseCharMap parses a map. It returns nil for a map without entries.
func parseCharMap(data []byte) *charMap {
	m := &charMap{text: make(map[charCode]string)}
	l := &lexer{data: data}
	for {
		t := l.next()
		switch {
		case t.kind == tokenEnd:
			if len(m.text) == 0 {
				return nil
			}
			return m
		case t.kind != tokenOperator:
		case string(t.text) == "begincodespacerange":
			m.readCodeSpace(l)
		case string(t.text) == "beginbfchar":
			m.readChars(l)
		case string(t.text) == "beginbfrange":
			m.readRanges(l)
		}
	}
}

func (m *charMap) readCodeSpace(l *lexer) {
	const most = 32
	for {
		low, high := l.next(), l.next()
		if low.kind != tokenString || high.kind != tokenString {
			return
		}
		if n := len(low.text); 1 <= n && n <= 4 && len(m.ranges) < most {
			m.ranges = append(m.ranges, codeRange{codeOf(low.text), codeOf(high.text), n})
		}
	}
}

func (m *charMap) readChars(l *lexer) {
	for {
		code := l.next()
		if code.kind != tokenString {
			return
		}
		to := l.next()
		m.set(codeOf(code.text), len(code.text), utf16Text(to.text))
	}
}

func (m *charMap) readRanges(l *lexer) {
	for {
		low := l.next()
		if low.kind != tokenString {
			return
		}
		high, to := l.next(), l.next()
		first, last, n := codeOf(low.text), codeOf(high.text), len(low.text)
		if to.kind == tokenMark {
			for code := first; ; code++ {
				t := l.next()
				if t.kind != tokenString {
					break
				}
				m.set(code, n, utf16Text(t.text))
			}
			continue
		}
		units := utf16Units(to.text)
		for code := first; code <= min(last, first+0xffff) && len(units) > 0 && m.writes < maxMapped; code++ {
			m.set(code, n, clean(string(utf16.Decode(units))))
			units[len(units)-1]++
		}
	}
}

func (m *charMap) set(code, n int, text string) {
	if 1 <= n && n <= 4 && m.writes < maxMapped {
		m.writes++
		m.text[charCode{code, n}] = text
	}
}

// codeLength returns the number of bytes of the next code.
func (m *charMap) codeLength(raw []byte) int {
	for n := 1; n <= min(4, len(raw)); n++ {
		code := codeOf(raw[:n])
		for _, r := range m.ranges {
			if r.bytes == n && r.low <= code && code <= r.high {
				return n
			}
		}
	}
	return min(2, len(raw))
}

func codeOf(b []byte) int {
	code := 0
	for _, c := range b[:min(len(b), 4)] {
		code = code<<8 | int(c)
	}
	return code
}

func utf16Units(b []byte) []uint16 {
	const longest = 64
	b = b[:min(len(b), longest)]
	if len(b) == 1 {
		return []uint16{uint16(b[0])}
	}
	units := make([]uint16, 0, len(b)/2)
	for i := 0; i+1 < len(b); i += 2 {
		units = append(units, uint16(b[i])<<8|uint16(b[i+1]))
	}
	return units
}

func utf16Text(b []byte) string { return clean(string(utf16.Decode(utf16Units(b)))) }

// clean removes characters of private use, which fonts assign to their own symbols, and expands
// ligatures.
func clean(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case 0xfb00 <= r && r <= 0xfb06:
			b.WriteString([]string{"ff", "fi", "fl", "ffi", "ffl", "st", "st"}[r-0xfb00])
		case r == unicode.ReplacementChar || unicode.Is(unicode.Co, r) || r < 0x20:
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
