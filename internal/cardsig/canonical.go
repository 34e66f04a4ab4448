package cardsig

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/internal/wire"
)

// payloads returns the texts that signatures of a card may cover: the canonical form of the card,
// and the canonical form without empty values if it differs.
func payloads(card []byte) ([][]byte, error) {
	var members map[string]any
	if err := wire.UnmarshalStrict(card, &members); err != nil {
		return nil, fmt.Errorf("the agent card is not valid: %w", err)
	}
	delete(members, "signatures")
	whole, err := appendValue(nil, members)
	if err != nil {
		return nil, err
	}
	compact, _ := withoutEmpty(members).(map[string]any)
	if compact == nil {
		compact = map[string]any{}
	}
	short, err := appendValue(nil, compact)
	if err != nil || slices.Equal(whole, short) {
		return [][]byte{whole}, err
	}
	return [][]byte{whole, short}, nil
}

// withoutEmpty returns a copy of v without empty strings, arrays and objects at any level; nil if
// v is empty.
func withoutEmpty(v any) any {
	switch v := v.(type) {
	case string:
		if v == "" {
			return nil
		}
	case []any:
		var items []any
		for _, item := range v {
			if item = withoutEmpty(item); item != nil {
				items = append(items, item)
			}
		}
		if items == nil {
			return nil
		}
		return items
	case map[string]any:
		members := make(map[string]any, len(v))
		for name, value := range v {
			if value = withoutEmpty(value); value != nil {
				members[name] = value
			}
		}
		if len(members) == 0 {
			return nil
		}
		return members
	}
	return v
}

// appendValue appends the canonical form (RFC 8785) of a decoded JSON value to dst.
func appendValue(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case string:
		return appendString(dst, v), nil
	case float64:
		return appendNumber(dst, v)
	case json.Number:
		f, err := v.Float64()
		if err != nil {
			return nil, fmt.Errorf("the number %s has no canonical form", v)
		}
		return appendNumber(dst, f)
	case []any:
		return appendArray(dst, v)
	case map[string]any:
		return appendObject(dst, v)
	}
	return nil, fmt.Errorf("a %T has no canonical form", v)
}

func appendArray(dst []byte, items []any) (_ []byte, err error) {
	dst = append(dst, '[')
	for i, item := range items {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendValue(dst, item); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

// appendObject appends an object. Its members are in the order of the UTF-16 code units of
// their names.
func appendObject(dst []byte, members map[string]any) (_ []byte, err error) {
	names := slices.SortedFunc(maps.Keys(members), func(a, b string) int {
		return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
	})
	dst = append(dst, '{')
	for i, name := range names {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendValue(append(appendString(dst, name), ':'), members[name]); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

// appendNumber appends a number as ECMAScript writes it, which is the format of encoding/json
// except for the negative zero.
func appendNumber(dst []byte, f float64) ([]byte, error) {
	if f == 0 {
		return append(dst, '0'), nil
	}
	raw, err := json.Marshal(f)
	return append(dst, raw...), err
}

// appendString appends a string in which only what JSON requires is escaped.
func appendString(dst []byte, s string) []byte {
	const short, letters = "\b\t\n\f\r", "btnfr"
	dst = append(dst, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r < ' ':
			escape := fmt.Sprintf(`\u%04x`, r)
			for i, c := range short {
				if c == r {
					escape = `\` + letters[i:i+1]
				}
			}
			dst = append(dst, escape...)
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}
