package wire

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// TimeFormat is the format of times: RFC 3339 in UTC with milliseconds.
const TimeFormat = "2006-01-02T15:04:05.000Z"

// Marshal returns v as JSON. It fails only for values that JSON cannot express,
// such as NaN or a nil union member.
func Marshal(v any) ([]byte, error) { return Append(nil, v) }

// Append appends v as JSON to dst. If it returns an error, dst is unchanged.
func Append(dst []byte, v any) ([]byte, error) { return tagged.Append(dst, v) }

// AppendSnake is [Append] with member names in snake_case, except those tagged
// wire:"literal".
func AppendSnake(dst []byte, v any) ([]byte, error) { return snake.Append(dst, v) }

func (p *structPlan) append(dst []byte, v reflect.Value) ([]byte, error) {
	dst = append(dst, '{')
	start := len(dst)
	for _, f := range p.fields {
		if f.hidden {
			continue
		}
		var member reflect.Value
		if f.constant == "" {
			member = f.of(v)
			if f.omit && f.codec.empty(member) || f.omitZero && member.IsZero() {
				continue
			}
		}
		if len(dst) > start {
			dst = append(dst, ',')
		}
		dst = append(dst, f.key...)
		if f.constant != "" {
			if f.number {
				dst = append(dst, f.constant...)
			} else {
				dst = appendString(dst, f.constant)
			}
			continue
		}
		var err error
		if dst, err = f.codec.append(dst, member); err != nil {
			return dst, within(err, f.name)
		}
	}
	return append(dst, '}'), nil
}

func (u *union) append(dst []byte, v reflect.Value, as *Form) ([]byte, error) {
	if v.IsNil() {
		return dst, &Error{Rule: "must not be nil"}
	}
	inner := v.Elem()
	for name, t := range u.kinds {
		switch {
		case t != inner.Type():
		case u.wrapped:
			dst, err := codecFor(t, as).append(append(appendString(append(dst, '{'), name), ':'), inner)
			return append(dst, '}'), within(err, name)
		default:
			return codecFor(t, as).append(dst, inner)
		}
	}
	if u.fallback == inner.Type() {
		return codecFor(u.fallback, as).append(dst, inner)
	}
	return dst, &Error{Rule: fmt.Sprintf("has the unknown type %s", inner.Type())}
}

func appendTime(dst []byte, v reflect.Value) ([]byte, error) {
	dst = append(dst, '"')
	dst = v.Interface().(time.Time).UTC().AppendFormat(dst, TimeFormat)
	return append(dst, '"'), nil
}

func appendBase64(dst []byte, v reflect.Value) ([]byte, error) {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, v.Bytes())
	return append(dst, '"'), nil
}

func appendRaw(dst []byte, v reflect.Value) ([]byte, error) {
	if v.Len() == 0 {
		return append(dst, "null"...), nil
	}
	return append(dst, v.Bytes()...), nil
}

func appendNumber(dst []byte, v reflect.Value) ([]byte, error) {
	if v.Len() == 0 {
		return append(dst, '0'), nil
	}
	d := &decoder{data: []byte(v.String())}
	if _, err := d.number(); err != nil || d.pos < len(d.data) {
		return dst, &Error{Rule: "must be a number"}
	}
	return append(dst, v.String()...), nil
}

func appendScalar(dst []byte, v reflect.Value) ([]byte, error) {
	p := reflect.New(v.Type())
	p.Elem().Set(v)
	return appendAny(dst, p.Interface().(Scalar).Scalar())
}

func appendBool(dst []byte, v reflect.Value) ([]byte, error) {
	return strconv.AppendBool(dst, v.Bool()), nil
}

func appendInt(dst []byte, v reflect.Value) ([]byte, error) {
	return strconv.AppendInt(dst, v.Int(), 10), nil
}

func appendFloatValue(dst []byte, v reflect.Value) ([]byte, error) {
	return appendFloat(dst, v.Float())
}

func appendFloat(dst []byte, f float64) ([]byte, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return dst, &Error{Rule: "must be a finite number"}
	}
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(dst, f, format, -1, 64), nil
}

func appendAnyValue(dst []byte, v reflect.Value) ([]byte, error) {
	return appendAny(dst, v.Interface())
}

// appendAny writes the free-form values that decoding produces without
// reflection, and leaves the rest to encoding/json. Map keys are sorted, so that
// equal values have equal bytes.
func appendAny(dst []byte, v any) ([]byte, error) { return appendNested(dst, v, MaxDepth) }

// appendNested is appendAny for a value that may have up to depth levels. The limit ends values
// that contain themselves.
func appendNested(dst []byte, v any, depth int) ([]byte, error) {
	switch x := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		return strconv.AppendBool(dst, x), nil
	case string:
		return appendString(dst, x), nil
	case float64:
		return appendFloat(dst, x)
	case int:
		return strconv.AppendInt(dst, int64(x), 10), nil
	case int64:
		return strconv.AppendInt(dst, x, 10), nil
	case json.Number:
		return append(dst, x...), nil
	case map[string]any:
		return appendAnyMap(dst, x, depth-1)
	case []any:
		if depth == 0 {
			return dst, tooDeep()
		}
		dst = append(dst, '[')
		for i, item := range x {
			if i > 0 {
				dst = append(dst, ',')
			}
			var err error
			if dst, err = appendNested(dst, item, depth-1); err != nil {
				return dst, within(err, i)
			}
		}
		return append(dst, ']'), nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return dst, &Error{Rule: err.Error()}
	}
	return append(dst, raw...), nil
}

// tooDeep returns the error of a free-form value with too many levels.
func tooDeep() error {
	return &Error{Rule: fmt.Sprintf("is nested deeper than %d levels", MaxDepth)}
}

func appendAnyMap(dst []byte, m map[string]any, depth int) ([]byte, error) {
	if m == nil {
		return append(dst, "null"...), nil
	}
	if depth < 0 {
		return dst, tooDeep()
	}
	keys := make([]string, 0, 8)
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	dst = append(dst, '{')
	for i, k := range keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, k), ':')
		var err error
		if dst, err = appendNested(dst, m[k], depth); err != nil {
			return dst, within(err, k)
		}
	}
	return append(dst, '}'), nil
}

const hex = "0123456789abcdef"

// AppendString appends s as a JSON string. Invalid UTF-8 becomes U+FFFD.
func AppendString(dst []byte, s string) []byte { return appendString(dst, s) }

func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
			dst = append(append(dst, s[start:i]...), "\ufffd"...)
			i++
			start = i
			continue
		}
		dst = appendEscape(append(dst, s[start:i]...), c)
		i++
		start = i
	}
	return append(append(dst, s[start:]...), '"')
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}
