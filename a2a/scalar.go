package a2a

import "strconv"

// StringOrInt is a value that peers send as a string or as an integer: the id of a JSON-RPC
// request, or the creator of an agent. The zero value is neither and is null on the wire.
// Values are comparable with ==; "1" and 1 differ.
type StringOrInt struct {
	text   string
	number int64
	kind   scalarKind
}

type scalarKind uint8

const (
	scalarNone scalarKind = iota
	scalarText
	scalarNumber
)

// String returns the string value s.
func String(s string) StringOrInt { return StringOrInt{text: s, kind: scalarText} }

// Int returns the integer value n.
func Int(n int64) StringOrInt { return StringOrInt{number: n, kind: scalarNumber} }

// String returns the string, the digits of the integer, or "" for the zero value.
func (v StringOrInt) String() string {
	if v.kind == scalarNumber {
		return strconv.FormatInt(v.number, 10)
	}
	return v.text
}

// IsZero reports whether v is neither a string nor an integer.
func (v StringOrInt) IsZero() bool { return v.kind == scalarNone }

// Scalar returns v as a string, an int64 or nil.
func (v *StringOrInt) Scalar() any {
	switch v.kind {
	case scalarText:
		return v.text
	case scalarNumber:
		return v.number
	default:
		return nil
	}
}

// SetScalar sets v to s, a string or an int64.
func (v *StringOrInt) SetScalar(s any) {
	switch s := s.(type) {
	case string:
		*v = String(s)
	case int64:
		*v = Int(s)
	}
}
