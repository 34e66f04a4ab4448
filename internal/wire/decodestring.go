package wire

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

func (d *decoder) string() (string, error) {
	s, err := d.text()
	if d.lone {
		if d.lone = false; d.strict && err == nil {
			err = &Error{Rule: "has " + loneSurrogate}
		}
	}
	return s, err
}

// text reads a string in which U+FFFD may replace lone surrogates.
func (d *decoder) text() (string, error) {
	if d.peek() != '"' {
		return "", d.typeError("a string")
	}
	b, own, err := d.characters(true)
	if own && cap(b) <= 2*len(b) || d.shared && len(b) > ShareFrom {
		return unsafe.String(unsafe.SliceData(b), len(b)), err // b does not change any more
	}
	return string(b), err
}

// freeText is text in which lone surrogates are replaced.
func (d *decoder) freeText() (string, error) {
	s, err := d.text()
	d.lone = false
	return s, err
}

// characters reads the string literal at the position. The result has memory of its own (own) or
// shares the memory of the input. With keep false the literal is only checked.
func (d *decoder) characters(keep bool) (b []byte, own bool, err error) {
	d.pos++
	start, data := d.pos, d.data
	var bits byte // of all characters: ASCII is UTF-8
	for i := start; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			s := data[start:i]
			if d.pos = i; bits >= utf8.RuneSelf && !utf8.Valid(s) {
				return nil, false, d.syntax("string is not UTF-8")
			}
			d.pos++
			return s, false, nil
		case c == '\\':
			d.pos = start
			b, err = d.unescape(keep)
			return b, keep, err
		case c < 0x20:
			d.pos = i
			return nil, false, d.syntax("control character in a string")
		default:
			bits |= c
		}
	}
	d.pos = len(data)
	return nil, false, d.syntax("unexpected end of a string")
}

// unescape reads the rest of a string literal with escapes. The result is never longer than the
// literal.
func (d *decoder) unescape(keep bool) (out []byte, err error) {
	if keep {
		out = make([]byte, 0, literalLength(d.data[d.pos:]))
	}
	var one [utf8.UTFMax]byte
	for {
		start := d.pos
		for d.pos < len(d.data) && d.data[d.pos] != '"' && d.data[d.pos] != '\\' && d.data[d.pos] >= 0x20 {
			d.pos++
		}
		part := d.data[start:d.pos]
		switch {
		case !utf8.Valid(part):
			return nil, d.syntax("string is not UTF-8")
		case d.pos == len(d.data):
			return nil, d.syntax("unexpected end of a string")
		case d.data[d.pos] < 0x20:
			return nil, d.syntax("control character in a string")
		}
		if keep {
			out = append(out, part...)
		}
		if d.data[d.pos] == '"' {
			d.pos++
			return out, nil
		}
		char, err := d.escape(one[:0])
		if err != nil {
			return nil, err
		}
		if keep {
			out = append(out, char...)
		}
	}
}

// literalLength returns the number of bytes before the quote that ends a string literal.
func literalLength(data []byte) (n int) {
	for n < len(data) && data[n] != '"' {
		if data[n] == '\\' {
			n++
		}
		n++
	}
	return min(n, len(data))
}

func (d *decoder) escape(out []byte) ([]byte, error) {
	d.pos++
	c := d.at()
	d.pos++
	switch c {
	case '"', '\\', '/':
		return append(out, c), nil
	case 'b':
		return append(out, '\b'), nil
	case 'f':
		return append(out, '\f'), nil
	case 'n':
		return append(out, '\n'), nil
	case 'r':
		return append(out, '\r'), nil
	case 't':
		return append(out, '\t'), nil
	case 'u':
		r, ok := d.hex4()
		if !ok {
			return nil, d.syntax("malformed \\u escape")
		}
		if utf16.IsSurrogate(r) {
			r = d.lowSurrogate(r)
		}
		return utf8.AppendRune(out, r), nil
	}
	return nil, d.syntax("unknown escape")
}

// lowSurrogate joins high with the escape that follows; a lone surrogate
// becomes U+FFFD and sets d.lone.
func (d *decoder) lowSurrogate(high rune) rune {
	mark := d.pos
	if d.pos+1 < len(d.data) && d.data[d.pos] == '\\' && d.data[d.pos+1] == 'u' {
		d.pos += 2
		low, ok := d.hex4()
		if r := utf16.DecodeRune(high, low); ok && r != utf8.RuneError {
			return r
		}
	}
	d.pos = mark
	d.lone = true
	return utf8.RuneError
}

func (d *decoder) hex4() (rune, bool) {
	if d.pos+4 > len(d.data) {
		return 0, false
	}
	n, err := strconv.ParseUint(string(d.data[d.pos:d.pos+4]), 16, 16)
	d.pos += 4
	return rune(n), err == nil
}
