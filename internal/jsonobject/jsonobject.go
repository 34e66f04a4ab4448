// Package jsonobject encodes JSON objects that callers attach to stored values, such as metadata, and
// decodes them without loss.
package jsonobject

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// Encode returns the JSON of an object, "{}" if it is empty. It returns an error, which states the
// rule, if the JSON has more bytes or levels than allowed, or would not represent the object exactly.
func Encode(object map[string]any, maxBytes, maxDepth int) (string, error) {
	if len(object) == 0 {
		return "{}", nil
	}
	text, err := json.Marshal(object) // detects cycles
	if err != nil {
		return "", err
	}
	if len(text) > maxBytes {
		return "", fmt.Errorf("has %d bytes of JSON, limit is %d", len(text), maxBytes)
	}
	// Check the result too: a value may have encoded itself.
	return string(text), cmp.Or(Check(Decode(string(text)), maxDepth), Check(object, maxDepth))
}

// Check returns an error, which states the rule, if an object is nested deeper than a number of
// levels, or contains a text that is not UTF-8, which encoding/json would replace.
func Check(object map[string]any, maxDepth int) error { return check(object, 1, maxDepth+1) }

func check(v any, depth, limit int) error {
	if depth > limit {
		return fmt.Errorf("is nested deeper than %d levels", limit-1)
	}
	text := ""
	switch v := v.(type) {
	case string:
		text = v
	case []any:
		for _, element := range v {
			if err := check(element, depth+1, limit); err != nil {
				return err
			}
		}
	case map[string]any:
		for name, member := range v {
			if err := cmp.Or(check(name, depth, limit), check(member, depth+1, limit)); err != nil {
				return err
			}
		}
	}
	if !utf8.ValidString(text) {
		return errors.New("must be UTF-8")
	}
	return nil
}

// Decode decodes the result of [Encode]. It returns nil for an empty object. Numbers are float64 or, if
// a float64 is not exact, json.Number.
func Decode(text string) map[string]any {
	if text == "{}" {
		return nil
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var object map[string]any
	if d.Decode(&object) != nil || len(object) == 0 {
		return nil
	}
	return exactNumbers(object).(map[string]any)
}

// exactNumbers replaces numbers by float64 where that keeps their value.
func exactNumbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			v[name] = exactNumbers(member)
		}
	case []any:
		for i, element := range v {
			v[i] = exactNumbers(element)
		}
	case json.Number:
		f, err := v.Float64()
		if err != nil || strings.Trim(v.String(), "-0123456789") == "" && math.Abs(f) >= 1<<53 {
			return v
		}
		return f
	}
	return v
}
