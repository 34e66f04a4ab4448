package filter

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// MarshalJSON writes the members that the operator uses. A value of null is written.
func (f Filter) MarshalJSON() ([]byte, error) {
	type plain Filter // without this method
	switch f.Op {
	case OpEq, OpNe, OpContains:
		if f.Value == nil {
			return json.Marshal(struct {
				plain
				Value any `json:"value"`
			}{plain: plain(f)})
		}
	default:
	}
	return json.Marshal(plain(f))
}

// Parse decodes a filter and checks it. A document is an object with the members of [Filter].
// Unknown members are errors. Numbers keep all digits.
func Parse(document []byte) (Filter, error) {
	if err := checkNesting(document); err != nil {
		return Filter{}, err
	}
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	d.DisallowUnknownFields()
	var f Filter
	if err := d.Decode(&f); err != nil {
		return Filter{}, &Error{"", "malformed JSON: " + err.Error()}
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Filter{}, &Error{"", "malformed JSON: data after the document"}
	}
	return f, f.Check()
}

// checkNesting rejects a document that is nested deeper than a valid filter, before it is
// decoded.
func checkNesting(document []byte) error {
	depth, quoted := 0, false
	for i := 0; i < len(document); i++ {
		switch c := document[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > 2*MaxDepth {
				return &Error{"", "nested too deep"}
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}
