package engine

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/holdfast-dev/holdfast/a2a"
)

// filters parses the filters of a list from the metadata of its params. err is the first error;
// values parsed after an error are meaningless.
type filters struct {
	values map[string]any // by camelCase name
	err    error
}

// newFilters returns filters with the non-null members of metadata. The names of members may be
// in camelCase or snake_case. It records an error for a name that is not among known.
func newFilters(list string, known []string, metadata map[string]any) *filters {
	f := &filters{values: make(map[string]any, len(metadata))}
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		if metadata[key] == nil {
			continue
		}
		i := slices.IndexFunc(known, func(name string) bool { return key == name || key == snake(name) })
		if i < 0 {
			f.fail(shorten(key), "is not a filter of %s, want one of %s", list, strings.Join(known, ", "))
			return f
		}
		name := known[i]
		if _, twice := f.values[name]; twice {
			f.fail(name, "is also given as %s; give only one", snake(name))
			return f
		}
		f.values[name] = metadata[key]
	}
	return f
}

// shorten truncates a name given by a client for use in an error.
func shorten(name string) string {
	const limit = 64
	if len(name) > limit {
		return strings.ToValidUTF8(name[:limit], "") + "..."
	}
	return name
}

// snake returns the snake_case form of a camelCase name.
func snake(name string) string {
	var b strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			b.WriteByte('_')
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

// fail records an error of a filter.
func (f *filters) fail(name, format string, args ...any) {
	f.setErr(a2a.Invalid("metadata."+name, format, args...))
}

// setErr records err if there is no earlier error.
func (f *filters) setErr(err error) {
	if f.err == nil {
		f.err = err
	}
}

// hasAny reports whether any filter is given.
func (f *filters) hasAny() bool { return len(f.values) > 0 }

// exclusiveWith records an error if both the filter name and the equivalent member field of the
// params are given. alsoGiven reports whether that member is given.
func (f *filters) exclusiveWith(name, field string, alsoGiven bool) {
	if _, ok := f.values[name]; ok && alsoGiven {
		f.fail(name, "and %s must not both be given", field)
	}
}

// text returns the value of a string filter, or "" if it is not given.
func (f *filters) text(name string) string {
	value, ok := f.values[name]
	if !ok {
		return ""
	}
	s, ok := value.(string)
	if !ok || s == "" {
		f.fail(name, "must be a non-empty string")
	}
	return s
}

// texts returns the values of a filter that is a string or an array of up to limit strings, or
// nil if it is not given.
func (f *filters) texts(name string, limit int) []string {
	value, ok := f.values[name]
	if !ok {
		return nil
	}
	items, ok := value.([]any)
	if s, isText := value.(string); isText && s != "" {
		return []string{s}
	}
	if strs, isTexts := value.([]string); isTexts { // from a Go caller
		items, ok = make([]any, len(strs)), true
		for i := range strs {
			items[i] = strs[i]
		}
	}
	if !ok || len(items) == 0 {
		f.fail(name, "must be a non-empty string or array of strings")
		return nil
	}
	if len(items) > limit {
		f.fail(name, "has %d values, want at most %d", len(items), limit)
		return nil
	}
	texts := make([]string, len(items))
	for i, item := range items {
		if texts[i], ok = item.(string); !ok || texts[i] == "" {
			f.fail(fmt.Sprintf("%s[%d]", name, i), "must be a non-empty string")
			return nil
		}
	}
	return texts
}

// enum is like texts, but the values of the filter must be in set.
func (f *filters) enum(name string, set []string) []string {
	values := f.texts(name, len(set))
	for _, v := range values {
		if !slices.Contains(set, v) {
			f.fail(name, "is %s, want one of %s", a2a.Quote(v), strings.Join(set, ", "))
			return nil
		}
	}
	return values
}

// choice returns the value of a filter that must be in set. The default is the first of set.
func (f *filters) choice(name string, set ...string) string {
	if _, ok := f.values[name]; !ok {
		return set[0]
	}
	v := f.text(name)
	if !slices.Contains(set, v) {
		f.fail(name, "is %s, want one of %s", a2a.Quote(v), strings.Join(set, ", "))
	}
	return v
}

// number returns the value of an integer filter, which must be at least minimum, or nil if it
// is not given. Numbers above math.MaxInt32 are reduced to it.
func (f *filters) number(name string, minimum int) *int {
	value, ok := f.values[name]
	if !ok {
		return nil
	}
	var n float64
	switch v := value.(type) {
	case int:
		n = float64(v)
	case int64:
		n = float64(v)
	case float64:
		n = v
	case json.Number:
		var err error
		if n, err = v.Float64(); err != nil {
			n = math.NaN()
		}
	default:
		n = math.NaN()
	}
	if n != math.Trunc(n) {
		f.fail(name, "must be a whole number")
		return nil
	}
	if n < float64(minimum) {
		f.fail(name, "is %v, want %d or more", n, minimum)
		return nil
	}
	i := int(min(n, math.MaxInt32))
	return &i
}

// time returns the value of a time filter, rounded up to the millisecond, or the zero time if
// it is not given.
func (f *filters) time(name string) time.Time {
	if _, ok := f.values[name]; !ok {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, f.text(name))
	if err != nil {
		f.fail(name, "must be a time such as 2025-10-31T09:00:00Z (RFC 3339)")
	}
	if t.IsZero() {
		t = t.Add(1) // the zero time would not filter
	}
	return ceil(t)
}

// created returns the filters createdAfter and createdBefore.
func (f *filters) created() (after, before time.Time) {
	after, before = f.time("createdAfter"), f.time("createdBefore")
	if !after.IsZero() && !before.IsZero() && !after.Before(before) {
		f.fail("createdAfter", "must be before createdBefore")
	}
	return after, before
}

// ascending reports whether the filter sortOrder selects ascending order. If it is not given,
// the result is ascendingDefault.
func (f *filters) ascending(ascendingDefault bool) bool {
	if ascendingDefault {
		return f.choice("sortOrder", "asc", "desc") == "asc"
	}
	return f.choice("sortOrder", "desc", "asc") == "asc"
}

// offset returns the number of entries to skip: param if it is not nil, otherwise the filter. A
// page token excludes both.
func (f *filters) offset(param *int, token string) int {
	field, n := "offset", param
	if n == nil {
		field, n = "metadata.offset", f.number("offset", 0)
	}
	if n == nil {
		return 0
	}
	if rule := a2a.OffsetRule(*n, token); rule != "" {
		f.setErr(a2a.Invalid(field, "%s", rule))
	}
	return *n
}
