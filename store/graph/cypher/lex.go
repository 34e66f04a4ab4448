package cypher

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/store/graph"
)

type tokenKind int

const (
	tokEnd tokenKind = iota
	tokName
	tokQuotedName
	tokInt
	tokFloat
	tokString
	tokParam
	tokSymbol
)

// token is a word of a query. Its text is the name, symbol or decoded string.
type token struct {
	kind       tokenKind
	text       string
	start, end int
	// match is the index of the token that closes this bracket.
	match int
	value any // of numbers
}

// lexer splits a text into tokens.
type lexer struct {
	text   string
	at     int
	tokens []token
}

func tokenize(text string) ([]token, error) {
	if !utf8.ValidString(text) {
		return nil, &graph.CypherError{Rule: "text is not valid UTF-8"}
	}
	l := &lexer{text: text}
	for {
		if err := l.space(); err != nil {
			return nil, err
		}
		if l.at >= len(text) {
			break
		}
		if err := l.next(); err != nil {
			return nil, err
		}
	}
	l.tokens = append(l.tokens, token{kind: tokEnd, start: len(text), end: len(text)})
	l.pair()
	return l.tokens, nil
}

func (l *lexer) fail(at int, reason string) error {
	return failAt(l.text, at, graph.CypherError{Rule: reason})
}

// space skips white space and comments.
func (l *lexer) space() error {
	for l.at < len(l.text) {
		rest := l.text[l.at:]
		r, n := utf8.DecodeRuneInString(rest)
		switch {
		case unicode.IsSpace(r):
			l.at += n
		case strings.HasPrefix(rest, "//"):
			end := strings.IndexByte(rest, '\n')
			if end < 0 {
				end = len(rest)
			}
			l.at += end
		case strings.HasPrefix(rest, "/*"):
			end := strings.Index(rest[2:], "*/")
			if end < 0 {
				return l.fail(l.at, "comment is not closed")
			}
			l.at += end + 4
		default:
			return nil
		}
	}
	return nil
}

func isNameStart(r rune) bool { return r == '_' || unicode.IsLetter(r) }

func isNamePart(r rune) bool {
	return isNameStart(r) || unicode.IsDigit(r) || unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Pc, r)
}

func (l *lexer) add(t token) {
	t.end, t.match = l.at, -1
	l.tokens = append(l.tokens, t)
}

// symbols of more than one character, longest first.
var symbols = []string{"<=", ">=", "<>", "..", "+=", "=~"}

func (l *lexer) next() error {
	start := l.at
	rest := l.text[start:]
	r, n := utf8.DecodeRuneInString(rest)
	switch {
	case isNameStart(r):
		l.at += nameLength(rest)
		l.add(token{kind: tokName, text: l.text[start:l.at], start: start})
		return nil
	case r == '`':
		return l.quotedName()
	case r == '\'' || r == '"':
		return l.str(byte(r))
	case r >= '0' && r <= '9', r == '.' && len(rest) > 1 && rest[1] >= '0' && rest[1] <= '9' && !l.afterDots():
		return l.number()
	case r == '$':
		length := nameLengthOrDigits(rest[1:])
		if length == 0 {
			return l.fail(start, "parameter has no name")
		}
		l.at += 1 + length
		l.add(token{kind: tokParam, text: l.text[start+1 : l.at], start: start})
		return nil
	}
	for _, s := range symbols {
		if strings.HasPrefix(rest, s) {
			l.at += len(s)
			l.add(token{kind: tokSymbol, text: s, start: start})
			return nil
		}
	}
	if !strings.ContainsRune("()[]{}<>=+-*/%^.,:;|", r) {
		return l.fail(start, "unexpected character "+quoted(string(r)))
	}
	l.at += n
	l.add(token{kind: tokSymbol, text: string(r), start: start})
	return nil
}

// afterDots reports whether the last token is "..", so that "..5" is a range.
func (l *lexer) afterDots() bool {
	return len(l.tokens) > 0 && l.tokens[len(l.tokens)-1].text == ".." && l.tokens[len(l.tokens)-1].end == l.at
}

func nameLength(s string) int {
	for i, r := range s {
		if !isNamePart(r) {
			return i
		}
	}
	return len(s)
}

func nameLengthOrDigits(s string) int {
	if r, _ := utf8.DecodeRuneInString(s); !isNamePart(r) {
		return 0
	}
	return nameLength(s)
}

func (l *lexer) quotedName() error {
	start := l.at
	var name strings.Builder
	for i := start + 1; i < len(l.text); i++ {
		if l.text[i] != '`' {
			name.WriteByte(l.text[i])
			continue
		}
		if i+1 < len(l.text) && l.text[i+1] == '`' {
			name.WriteByte('`')
			i++
			continue
		}
		l.at = i + 1
		if name.Len() == 0 {
			return l.fail(start, "name is empty")
		}
		l.add(token{kind: tokQuotedName, text: name.String(), start: start})
		return nil
	}
	return l.fail(start, "name in backquotes is not closed")
}

var escapes = map[byte]string{'\\': `\`, '\'': "'", '"': `"`, 'b': "\b", 'f': "\f", 'n': "\n", 'r': "\r", 't': "\t"}

func (l *lexer) str(quote byte) error {
	start := l.at
	var out strings.Builder
	for i := start + 1; i < len(l.text); i++ {
		switch c := l.text[i]; c {
		case quote:
			l.at = i + 1
			l.add(token{kind: tokString, text: out.String(), start: start})
			return nil
		case '\\':
			n, err := l.escape(i, &out)
			if err != nil {
				return err
			}
			i += n
		default:
			out.WriteByte(c)
		}
	}
	return l.fail(start, "string is not closed")
}

// escape decodes the escape sequence at i and returns its length without the backslash.
func (l *lexer) escape(i int, out *strings.Builder) (int, error) {
	if i+1 >= len(l.text) {
		return 0, l.fail(i, "string is not closed")
	}
	c := l.text[i+1]
	if s, ok := escapes[c]; ok {
		out.WriteString(s)
		return 1, nil
	}
	digits := map[byte]int{'u': 4, 'U': 8}[c]
	if digits == 0 || i+2+digits > len(l.text) {
		return 0, l.fail(i, "unknown escape sequence in a string")
	}
	code, err := strconv.ParseUint(l.text[i+2:i+2+digits], 16, 32)
	if err != nil || code > unicode.MaxRune || code >= 0xD800 && code < 0xE000 {
		return 0, l.fail(i, "escape sequence in a string is not a Unicode character")
	}
	out.WriteRune(rune(code))
	return 1 + digits, nil
}

func (l *lexer) number() error {
	start, s := l.at, l.text[l.at:]
	if len(s) > 1 && s[0] == '0' && strings.ContainsRune("xXoO", rune(s[1])) {
		return l.integer(start, 2+nameLength(s[2:]), 0)
	}
	digits := func(i int) int {
		for i < len(s) && s[i] >= '0' && s[i] <= '9' {
			i++
		}
		return i
	}
	end, float := digits(0), false
	if end+1 < len(s) && s[end] == '.' && s[end+1] >= '0' && s[end+1] <= '9' {
		end, float = digits(end+1), true
	}
	if end < len(s) && (s[end] == 'e' || s[end] == 'E') {
		exponent := end + 1
		if exponent < len(s) && (s[exponent] == '-' || s[exponent] == '+') {
			exponent++
		}
		if after := digits(exponent); after > exponent {
			end, float = after, true
		}
	}
	if n := nameLength(s[end:]); n > 0 {
		return l.fail(start, "invalid number "+quoted(s[:end+n]))
	}
	if !float {
		return l.integer(start, end, 10)
	}
	f, err := strconv.ParseFloat(s[:end], 64)
	if err != nil || math.IsInf(f, 0) {
		return l.fail(start, "number is out of range: "+quoted(s[:end]))
	}
	l.at += end
	l.add(token{kind: tokFloat, start: start, value: f})
	return nil
}

// integer adds an integer of length bytes. "-9223372036854775808" is valid, so the value may be
// one more than the largest integer; the parser checks it.
func (l *lexer) integer(start, length, base int) error {
	s := l.text[start : start+length]
	u, err := strconv.ParseUint(strings.ToLower(s), base, 64)
	if strings.Contains(s, "_") || len(s) == 2 && base == 0 {
		return l.fail(start, "invalid number "+quoted(s))
	}
	if err != nil || u > 1<<63 {
		if e, ok := err.(*strconv.NumError); ok && e.Err == strconv.ErrSyntax { //nolint:errorlint // documented to be of this type
			return l.fail(start, "invalid number "+quoted(s))
		}
		return l.fail(start, "integer is out of range: "+quoted(s))
	}
	l.at += length
	l.add(token{kind: tokInt, start: start, value: u})
	return nil
}

// pair finds the brackets that close others.
func (l *lexer) pair() {
	closing := map[string]string{"(": ")", "[": "]", "{": "}"}
	var open []int
	for i, t := range l.tokens {
		if t.kind != tokSymbol {
			continue
		}
		switch t.text {
		case "(", "[", "{":
			open = append(open, i)
		case ")", "]", "}":
			if n := len(open); n > 0 && closing[l.tokens[open[n-1]].text] == t.text {
				l.tokens[open[n-1]].match = i
				open = open[:n-1]
			}
		}
	}
}
