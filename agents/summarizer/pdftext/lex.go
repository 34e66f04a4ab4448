package pdftext

import (
	"bytes"
	"strconv"
)

// lexer reads the tokens of a content stream or a character map. Every step consumes input, so
// it ends on any input.
type lexer struct {
	data []byte
	pos  int
}

type tokenKind int

const (
	tokenEnd tokenKind = iota
	tokenNumber
	tokenString
	tokenName
	tokenOperator
	// tokenMark is a delimiter: [ ] << >> { }.
	tokenMark
)

type token struct {
	kind   tokenKind
	text   []byte
	number float64
}

func (l *lexer) next() token {
	l.skipSpace()
	if l.pos >= len(l.data) {
		return token{kind: tokenEnd}
	}
	start := l.pos
	switch c := l.data[l.pos]; c {
	case '(':
		return token{kind: tokenString, text: l.literal()}
	case '<':
		if !l.at(1, '<') {
			return token{kind: tokenString, text: l.hex()}
		}
		l.pos += 2
		return token{kind: tokenMark, text: l.data[start:l.pos]}
	case '>':
		l.pos++
		if l.at(0, '>') {
			l.pos++
		}
		return token{kind: tokenMark, text: l.data[start:l.pos]}
	case '[', ']', '{', '}', ')':
		l.pos++
		return token{kind: tokenMark, text: l.data[start:l.pos]}
	case '/':
		l.pos++
		return token{kind: tokenName, text: unescapeName(l.regular())}
	default:
		return wordToken(l.regular())
	}
}

func wordToken(word []byte) token {
	c := word[0]
	if '0' <= c && c <= '9' || c == '+' || c == '-' || c == '.' {
		if f, err := strconv.ParseFloat(string(word), 64); err == nil {
			return token{kind: tokenNumber, number: f}
		}
		// Some programs write malformed numbers such as "--5" or "1.2.3".
		return token{kind: tokenNumber}
	}
	return token{kind: tokenOperator, text: word}
}

func (l *lexer) at(offset int, c byte) bool {
	return l.pos+offset < len(l.data) && l.data[l.pos+offset] == c
}

func (l *lexer) skipSpace() {
	for l.pos < len(l.data) {
		switch c := l.data[l.pos]; {
		case isPDFSpace(c):
			l.pos++
		case c == '%':
			for l.pos < len(l.data) && l.data[l.pos] != '\n' && l.data[l.pos] != '\r' {
				l.pos++
			}
		default:
			return
		}
	}
}

func (l *lexer) regular() []byte {
	start := l.pos
	for l.pos < len(l.data) && !isPDFSpace(l.data[l.pos]) && !isPDFDelimiter(l.data[l.pos]) {
		l.pos++
	}
	return l.data[start:l.pos]
}

func (l *lexer) hex() []byte {
	l.pos++
	end := bytes.IndexByte(l.data[l.pos:], '>')
	if end < 0 {
		end = len(l.data) - l.pos
	}
	digits := l.data[l.pos : l.pos+end]
	l.pos = min(l.pos+end+1, len(l.data))
	var out []byte
	var high byte
	half := false
	for _, c := range digits {
		v, ok := hexValue(c)
		if !ok {
			continue
		}
		if half {
			out = append(out, high<<4|v)
		}
		high, half = v, !half
	}
	if half {
		out = append(out, high<<4)
	}
	return out
}

func hexValue(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

func (l *lexer) literal() []byte {
	l.pos++
	var out []byte
	for depth := 1; l.pos < len(l.data); {
		c := l.data[l.pos]
		l.pos++
		switch c {
		case '\\':
			out = l.escape(out)
			continue
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return out
			}
		}
		out = append(out, c)
	}
	return out
}

func (l *lexer) escape(out []byte) []byte {
	if l.pos >= len(l.data) {
		return out
	}
	c := l.data[l.pos]
	l.pos++
	switch c {
	case 'n':
		return append(out, '\n')
	case 'r':
		return append(out, '\r')
	case 't':
		return append(out, '\t')
	case 'b':
		return append(out, '\b')
	case 'f':
		return append(out, '\f')
	case '\r':
		if l.at(0, '\n') {
			l.pos++
		}
		return out
	case '\n':
		return out
	}
	if c < '0' || c > '7' {
		return append(out, c)
	}
	v := int(c - '0')
	for i := 0; i < 2 && l.pos < len(l.data) && '0' <= l.data[l.pos] && l.data[l.pos] <= '7'; i++ {
		v = v*8 + int(l.data[l.pos]-'0')
		l.pos++
	}
	return append(out, byte(v))
}

// skipInlineImage skips the data of an image up to and including its EI.
func (l *lexer) skipInlineImage() {
	for l.pos < len(l.data) {
		i := bytes.Index(l.data[l.pos:], []byte("EI"))
		if i < 0 {
			l.pos = len(l.data)
			return
		}
		at := l.pos + i
		l.pos = at + 2
		before := at == 0 || isPDFSpace(l.data[at-1])
		after := l.pos >= len(l.data) || isPDFSpace(l.data[l.pos])
		if before && after {
			return
		}
	}
}

func unescapeName(b []byte) []byte {
	if bytes.IndexByte(b, '#') < 0 {
		return b
	}
	var out []byte
	for i := 0; i < len(b); i++ {
		if b[i] == '#' && i+2 < len(b) {
			high, ok1 := hexValue(b[i+1])
			low, ok2 := hexValue(b[i+2])
			if ok1 && ok2 {
				out = append(out, high<<4|low)
				i += 2
				continue
			}
		}
		out = append(out, b[i])
	}
	return out
}

func isPDFSpace(c byte) bool {
	return c == 0 || c == '\t' || c == '\n' || c == '\f' || c == '\r' || c == ' '
}

func isPDFDelimiter(c byte) bool {
	return bytes.IndexByte([]byte("()<>[]{}/%"), c) >= 0
}
