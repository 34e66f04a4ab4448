package main

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// operators returns the matchers of ACTS. A matcher returns ok false if want does not have the type
// that it expects: then its name is the name of a member.
func operators() map[string]func(want, got any) (problem string, ok bool) {
	return map[string]func(want, got any) (string, bool){
		"type": func(want, got any) (string, bool) {
			name, _ := want.(string)
			known := slices.Contains([]string{"null", "boolean", "string", "number", "array", "object"}, name)
			return problemIf(typeName(got) != name, got, "type "+name), known
		},
		"exists": func(want, got any) (string, bool) {
			exists, ok := want.(bool)
			return problemIf(exists != (got != nil), got, fmt.Sprintf("exists %t", exists)), ok
		},
		"absent": func(want, got any) (string, bool) {
			absent, ok := want.(bool)
			return problemIf(absent != (got == nil), got, fmt.Sprintf("absent %t", absent)), ok
		},
		"one_of": anyOf, "any_of": anyOf,
		"all_of": func(want, got any) (string, bool) {
			list, ok := want.([]any)
			for _, each := range list {
				if problem := match(each, got); problem != "" {
					return problem, ok
				}
			}
			return "", ok
		},
		"contains": func(want, got any) (string, bool) {
			part, ok := want.(string)
			text, _ := got.(string)
			return problemIf(!strings.Contains(text, part), got, "contains "+part), ok
		},
		"starts_with": func(want, got any) (string, bool) {
			prefix, ok := want.(string)
			text, _ := got.(string)
			return problemIf(!strings.HasPrefix(text, prefix), got, "starts with "+prefix), ok
		},
		"matches": func(want, got any) (string, bool) {
			pattern, ok := want.(string)
			if !ok {
				return "", false
			}
			text, isText := got.(string)
			re, err := regexp.Compile(pattern)
			return problemIf(err != nil || !isText || !re.MatchString(text), got, "matches "+pattern), true
		},
		"count":     count(func(n, want int) bool { return n == want }),
		"count_gte": count(func(n, want int) bool { return n >= want }),
		"count_lte": count(func(n, want int) bool { return n <= want }),
		"items":     items,
	}
}

func problemIf(broken bool, got any, want string) string {
	if !broken {
		return ""
	}
	return fmt.Sprintf("is %v, want %s", got, want)
}

func anyOf(want, got any) (string, bool) {
	list, ok := want.([]any)
	if slices.ContainsFunc(list, func(each any) bool { return match(each, got) == "" }) {
		return "", ok
	}
	return problemIf(true, got, fmt.Sprintf("one of %v", list)), ok
}

func count(holds func(n, want int) bool) func(want, got any) (string, bool) {
	return func(want, got any) (string, bool) {
		n, ok := want.(int)
		list, _ := got.([]any)
		return problemIf(!holds(len(list), n), got, fmt.Sprintf("a number of items compared to %d", n)), ok
	}
}

// items matches each item against a matcher, or the items in order against a list of matchers.
func items(want, got any) (string, bool) {
	list, _ := got.([]any)
	switch want := want.(type) {
	case []any:
		for i, each := range want {
			if i >= len(list) {
				return problemIf(true, got, fmt.Sprintf("%d items", len(want))), true
			}
			if problem := match(each, list[i]); problem != "" {
				return fmt.Sprintf("[%d] %s", i, problem), true
			}
		}
	case map[string]any:
		for i, item := range list {
			if problem := match(want, item); problem != "" {
				return fmt.Sprintf("[%d] %s", i, problem), true
			}
		}
	default:
		return "", false
	}
	return "", true
}

// match returns how got differs from the matcher want, or "".
func match(want, got any) string {
	members, ok := want.(map[string]any)
	if !ok {
		return problemIf(!equal(want, got), got, fmt.Sprint(want))
	}
	for name, each := range members {
		if operator, known := operators()[name]; known {
			if problem, ok := operator(each, got); ok {
				if problem != "" {
					return problem
				}
				continue
			}
		}
		object, _ := got.(map[string]any)
		if problem := match(each, object[name]); problem != "" {
			return name + " " + problem
		}
	}
	return ""
}

// equal compares values of YAML and JSON, although their numbers have different types.
func equal(want, got any) bool {
	if n, ok := want.(int); ok {
		want = float64(n)
	}
	return reflect.DeepEqual(want, got)
}

func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case float64:
		return "number"
	case []any:
		return "array"
	default:
		return "object"
	}
}

// find returns the values at a path such as "history[0].parts[*].text".
func find(v any, path string) []any {
	values := []any{v}
	for _, name := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' }) {
		var next []any
		index, isIndex := strings.CutSuffix(name, "]")
		for _, v := range values {
			switch v := v.(type) {
			case map[string]any:
				if inner, ok := v[name]; ok {
					next = append(next, inner)
				}
			case []any:
				if isIndex && index == "*" {
					next = append(next, v...)
				} else if i, err := strconv.Atoi(index); err == nil && i < len(v) {
					next = append(next, v[i])
				}
			}
		}
		values = next
	}
	return values
}
