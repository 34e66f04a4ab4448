package wire

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"
)

// MaxDepth is the deepest accepted nesting of objects and arrays.
const MaxDepth = 128

// ShareFrom is the length above which strings may share memory with the input, see
// [UnmarshalShared].
const ShareFrom = 64 << 10

// Unmarshal decodes one JSON document into v, a non-nil pointer. Absent members do not
// change v. Every error is an *Error.
func Unmarshal(data []byte, v any) error { return tagged.Unmarshal(data, v) }

// UnmarshalShared is [Unmarshal] without a copy of long strings: strings of more than ShareFrom
// bytes share memory with data, which the caller must not change afterwards.
func UnmarshalShared(data []byte, v any) error { return tagged.UnmarshalShared(data, v) }

// dense reports whether most of the buffer of data is in use. A string that shares memory with it
// keeps the whole buffer.
func dense(data []byte) bool { return cap(data)-len(data) <= len(data)/4 }

func (d *decoder) document(v any) error {
	rv := reflect.ValueOf(v).Elem()
	if err := codecFor(rv.Type(), d.form).decode(d, rv); err != nil {
		return err
	}
	return d.end()
}

// Valid checks that data is one well-formed JSON document within MaxDepth. It returns the same
// error as Unmarshal.
func Valid(data []byte) error {
	d := &decoder{data: data}
	if err := d.skip(); err != nil {
		return err
	}
	return d.end()
}

type decoder struct {
	data  []byte
	pos   int
	depth int
	form  *Form

	strict bool // see UnmarshalStrict
	shared bool // see UnmarshalShared
	lone   bool // the last string had a lone surrogate
}

func (d *decoder) syntax(format string, args ...any) error {
	return &Error{Rule: fmt.Sprintf("not JSON: offset %d: ", d.pos) + fmt.Sprintf(format, args...), Syntax: true}
}

// space skips white space and returns the position after it.
func (d *decoder) space() int {
	for d.pos < len(d.data) {
		switch d.data[d.pos] {
		case ' ', '\t', '\n', '\r':
			d.pos++
		default:
			return d.pos
		}
	}
	return d.pos
}

// peek returns the first byte of the next value, 0 at the end.
func (d *decoder) peek() byte {
	if d.space(); d.pos < len(d.data) {
		return d.data[d.pos]
	}
	return 0
}

func (d *decoder) null() bool { return d.peek() == 'n' }

// typeError returns the error for a value of the wrong JSON type, or for a missing value.
func (d *decoder) typeError(want string) error {
	switch c := d.peek(); c {
	case 0:
		return d.syntax("unexpected end")
	case '{':
		return &Error{Rule: "must be " + want + ", not an object"}
	case '[':
		return &Error{Rule: "must be " + want + ", not an array"}
	case '"':
		return &Error{Rule: "must be " + want + ", not a string"}
	case 't', 'f':
		return &Error{Rule: "must be " + want + ", not a boolean"}
	case 'n':
		return &Error{Rule: "must be " + want + ", not null"}
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return &Error{Rule: "must be " + want + ", not a number"}
	default:
		return d.syntax("unexpected character %q", c)
	}
}

func (d *decoder) enter() error {
	d.pos++
	if d.depth++; d.depth > MaxDepth {
		return d.syntax("nested deeper than %d levels", MaxDepth)
	}
	return nil
}

// object reads an object; member is called with the position at each value. name must not be
// changed; it may share memory with the input.
func (d *decoder) object(member func(name []byte) error) error {
	if d.peek() != '{' {
		return d.typeError("an object")
	}
	if err := d.enter(); err != nil {
		return err
	}
	defer func() { d.depth-- }()
	if d.peek() == '}' {
		d.pos++
		return nil
	}
	for {
		if d.peek() != '"' {
			return d.syntax("expected a member name")
		}
		name, _, err := d.characters(true)
		if err != nil {
			return err
		}
		if d.lone {
			if d.lone = false; d.strict {
				return &Error{Rule: "has a member name with " + loneSurrogate}
			}
		}
		if d.peek() != ':' {
			return d.syntax("expected a colon after a member name")
		}
		d.pos++
		if d.peek() == 0 {
			return d.syntax("unexpected end")
		}
		if err := member(name); err != nil {
			return err
		}
		switch d.peek() {
		case ',':
			d.pos++
		case '}':
			d.pos++
			return nil
		default:
			return d.syntax("expected a comma or a closing brace")
		}
	}
}

func (d *decoder) array(item func(i int) error) error {
	if d.peek() != '[' {
		return d.typeError("an array")
	}
	if err := d.enter(); err != nil {
		return err
	}
	defer func() { d.depth-- }()
	if d.peek() == ']' {
		d.pos++
		return nil
	}
	for i := 0; ; i++ {
		if d.peek() == 0 {
			return d.syntax("unexpected end")
		}
		if err := item(i); err != nil {
			return err
		}
		switch d.peek() {
		case ',':
			d.pos++
		case ']':
			d.pos++
			return nil
		default:
			return d.syntax("expected a comma or a closing bracket")
		}
	}
}

// peekMember returns the string value of the named member of the object at the
// position, and does not move the position. It returns "" if the member is absent or
// null.
func (d *decoder) peekMember(name string) (value string, err error) {
	start, strict := d.pos, d.strict
	d.strict = false // decoding the object follows
	defer func() { d.pos, d.strict = start, strict }()
	err = d.object(func(n []byte) error {
		if string(n) != name || d.null() {
			return d.skip()
		}
		value, err = d.string()
		return within(err, name)
	})
	return value, err
}

func (d *decoder) constant(f *field) error {
	if f.number {
		lit, err := d.number()
		if err == nil && string(lit) != f.constant {
			err = &Error{Rule: fmt.Sprintf("is %s, want %s", clip(string(lit)), f.constant)}
		}
		return err
	}
	s, err := d.string()
	if err != nil {
		return err
	}
	if s != f.constant {
		return &Error{Rule: fmt.Sprintf("is %q, want %q", clip(s), f.constant)}
	}
	return nil
}

func (d *decoder) bool() (bool, error) {
	switch d.peek() {
	case 't':
		return true, d.literal("true")
	case 'f':
		return false, d.literal("false")
	}
	return false, d.typeError("a boolean")
}

func (d *decoder) literal(want string) error {
	if !strings.HasPrefix(string(d.data[d.pos:min(len(d.data), d.pos+len(want))]), want) {
		return d.syntax("unknown literal")
	}
	d.pos += len(want)
	return nil
}

// number returns the text of a number literal.
func (d *decoder) number() ([]byte, error) {
	if c := d.peek(); c != '-' && (c < '0' || c > '9') {
		return nil, d.typeError("a number")
	}
	start := d.pos
	if d.data[d.pos] == '-' {
		d.pos++
	}
	if d.at() == '0' {
		d.pos++
	} else if !d.digits() {
		return nil, d.syntax("malformed number")
	}
	if d.at() == '.' {
		d.pos++
		if !d.digits() {
			return nil, d.syntax("malformed number")
		}
	}
	if c := d.at(); c == 'e' || c == 'E' {
		d.pos++
		if c := d.at(); c == '+' || c == '-' {
			d.pos++
		}
		if !d.digits() {
			return nil, d.syntax("malformed number")
		}
	}
	return d.data[start:d.pos], nil
}

func (d *decoder) at() byte {
	if d.pos < len(d.data) {
		return d.data[d.pos]
	}
	return 0
}

func (d *decoder) digits() bool {
	start := d.pos
	for d.at() >= '0' && d.at() <= '9' {
		d.pos++
	}
	return d.pos > start
}

// skip passes over one value, checking that it is well formed.
func (d *decoder) skip() error {
	switch d.peek() {
	case '{':
		if d.strict {
			return d.skipObject()
		}
		return d.object(func([]byte) error { return d.skip() })
	case '[':
		return d.array(func(i int) error { return within(d.skip(), i) })
	case '"':
		_, _, err := d.characters(false)
		d.lone = false
		return err
	case 't', 'f':
		_, err := d.bool()
		return err
	case 'n':
		return d.literal("null")
	case 0:
		return d.syntax("unexpected end")
	default:
		lit, err := d.number()
		if err != nil {
			return d.syntax("unexpected character %q", d.at())
		}
		if d.strict && !inRange(lit) {
			return outOfRange(lit)
		}
		return nil
	}
}

func (d *decoder) any() (any, error) {
	switch d.peek() {
	case '{':
		m := make(map[string]any)
		err := d.object(func(name []byte) (err error) {
			key, before := string(name), len(m)
			m[key], err = d.any()
			if err == nil && d.strict && len(m) == before {
				return duplicate(key)
			}
			return within(err, key)
		})
		return m, err
	case '[':
		list := []any{}
		err := d.array(func(i int) error {
			v, err := d.any()
			list = append(list, v)
			return within(err, i)
		})
		return list, err
	case '"':
		return d.freeText()
	case 't', 'f':
		return d.bool()
	case 'n':
		return nil, d.literal("null")
	}
	lit, err := d.number()
	if err != nil {
		return nil, err
	}
	n := exactNumber(lit)
	if _, exact := n.(json.Number); exact && d.strict && !inRange(lit) {
		return nil, outOfRange(lit)
	}
	return n, nil
}

// clip shortens s for an error text.
func clip(s string) string {
	const limit = 40
	if len(s) <= limit {
		return s
	}
	cut := limit
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "..."
}
