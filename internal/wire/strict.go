package wire

import (
	"bytes"
	"fmt"
	"strconv"
)

// UnmarshalStrict is [Unmarshal] for requests. It also rejects duplicate member names at every
// level, numbers beyond the range of a float64, and lone surrogates, except in free text, where
// U+FFFD replaces them. Free text is a string in a map, in a value of type any, or in a member
// tagged wire:"text". Long strings share memory with data as in [UnmarshalShared].
func UnmarshalStrict(data []byte, v any) error { return tagged.UnmarshalStrict(data, v) }

const loneSurrogate = `a lone surrogate (an escape from \ud800 to \udfff without its pair)`

func (d *decoder) skipObject() error {
	var seen names
	return d.object(func(name []byte) error {
		if !seen.add(name) {
			return duplicate(string(name))
		}
		if err := d.skip(); err != nil {
			return within(err, string(name))
		}
		return nil
	})
}

// names is a set of member names. Its zero value is empty.
type names struct {
	few  [8][]byte
	n    int
	many map[string]struct{} // when few is full
}

// add reports whether name was not in the set.
func (s *names) add(name []byte) bool {
	for _, known := range s.few[:s.n] {
		if bytes.Equal(known, name) {
			return false
		}
	}
	if s.n < len(s.few) {
		s.few[s.n] = name
		s.n++
		return true
	}
	if s.many == nil {
		s.many = make(map[string]struct{})
	}
	before := len(s.many)
	s.many[string(name)] = struct{}{}
	return len(s.many) > before
}

func duplicate(name string) error {
	return within(&Error{Rule: "occurs more than once"}, name)
}

// inRange reports whether a float64 has the magnitude of a number literal, whatever its digits.
func inRange(lit []byte) bool {
	f, err := strconv.ParseFloat(string(lit), 64)
	if err != nil || f != 0 {
		return err == nil
	}
	mantissa, _, _ := bytes.Cut(bytes.ToLower(lit), []byte("e"))
	return !bytes.ContainsAny(mantissa, "123456789")
}

func outOfRange(lit []byte) error {
	return &Error{Rule: fmt.Sprintf("is %s, which is out of the range of a 64-bit float", clip(string(lit)))}
}
