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

// filters reads the filters of a list from the metadata of its params. The first
// thing that is wrong with them is kept in err; what is read after that means
// nothing.
type filters struct {
	values map[string]any // by camelCase name
	err    error
}

// newFilters takes the members of metadata, in camelCase or snake_case, that are
// not null, and refuses those that are not among known.
func newFilters(list string, known []string, metadata map[string]any) *filters {
	f := &filters{values: make(map[string]any, len(metadata))}
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		if metadata[key] == nil {
			continue
		}
		i := slices.IndexFunc(known, func(name string) bool { return key == name || key == snake(name) })
		if i < 0 {
			f.fail(shorten(key), "is not a filter of %s; there are: %s", list, strings.Join(known, ", "))
			return f
		}
		name := known[i]
		if _, twice := f.values[name]; twice {
			f.fail(name, "is given as %s too; give it once", snake(name))
			return f
		}
		f.values[name] = metadata[key]
	}
	return f
}

// shorten cuts a name that a client made up to what fits into an error.
func shorten(name string) string {
	const limit = 64
	if len(name) > limit {
		return strings.ToValidUTF8(name[:limit], "") + "..."
	}
	return name
}

// snake returns the snake_case spelling of a camelCase name.
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

// fail says what is wrong with a filter.
func (f *filters) fail(name, format string, args ...any) {
	f.keep(a2a.Invalid("metadata."+name, format, args...))
}

// keep keeps the first thing that is wrong.
func (f *filters) keep(err error) {
	if f.err == nil {
		f.err = err
	}
}

// given reports whether there is any filter.
func (f *filters) given() bool { return len(f.values) > 0 }

// once refuses a filter that is a member of the params too, under the name field.
func (f *filters) once(name, field string, alsoGiven bool) {
	if _, ok := f.values[name]; ok && alsoGiven {
		f.fail(name, "and %s must not both be given", field)
	}
}

// text reads a string, "" when it is not given.
func (f *filters) text(name string) string {
	value, ok := f.values[name]
	if !ok {
		return ""
	}
	s, ok := value.(string)
	if !ok || s == "" {
		f.fail(name, "must be a string that is not empty")
	}
	return s
}

// texts reads a string or an array of strings, nil when it is not given.
func (f *filters) texts(name string, most int) []string {
	value, ok := f.values[name]
	if !ok {
		return nil
	}
	items, ok := value.([]any)
	if s, isText := value.(string); isText && s != "" {
		return []string{s}
	}
	if strs, isTexts := value.([]string); isTexts { // of a caller in Go
		items, ok = make([]any, len(strs)), true
		for i := range strs {
			items[i] = strs[i]
		}
	}
	if !ok || len(items) == 0 {
		f.fail(name, "must be a string or an array of strings that is not empty")
		return nil
	}
	if len(items) > most {
		f.fail(name, "has %d values, at most %d are taken", len(items), most)
		return nil
	}
	texts := make([]string, len(items))
	for i, item := range items {
		if texts[i], ok = item.(string); !ok || texts[i] == "" {
			f.fail(fmt.Sprintf("%s[%d]", name, i), "must be a string that is not empty")
			return nil
		}
	}
	return texts
}

// enum reads one or several values of a set.
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

// choice reads a value of a set, its first when it is not given.
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

// number reads a whole number of at least least, nil when it is not given. One that
// is larger than any list is long is taken for math.MaxInt32.
func (f *filters) number(name string, least int) *int {
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
	if n < float64(least) {
		f.fail(name, "is %v, want %d or more", n, least)
		return nil
	}
	i := int(min(n, math.MaxInt32))
	return &i
}

// time reads a time, zero when it is not given.
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

// created reads the bounds of the time of creation.
func (f *filters) created() (after, before time.Time) {
	after, before = f.time("createdAfter"), f.time("createdBefore")
	if !after.IsZero() && !before.IsZero() && !after.Before(before) {
		f.fail("createdAfter", "must be before createdBefore")
	}
	return after, before
}

// ascending reads the order, which is descending unless it is said otherwise or
// rising is set.
func (f *filters) ascending(rising bool) bool {
	if rising {
		return f.choice("sortOrder", "asc", "desc") == "asc"
	}
	return f.choice("sortOrder", "desc", "asc") == "asc"
}

// offset returns how much to skip: outside, if it is not nil, else the filter. A token
// continues a list and excludes both.
func (f *filters) offset(outside *int, token string) int {
	field, n := "offset", outside
	if n == nil {
		field, n = "metadata.offset", f.number("offset", 0)
	}
	if n == nil {
		return 0
	}
	if rule := a2a.OffsetRule(*n, token); rule != "" {
		f.keep(a2a.Invalid(field, "%s", rule))
	}
	return *n
}
