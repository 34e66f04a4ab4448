package filter_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/store/filter"
)

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMatch(t *testing.T) {
	t.Parallel()
	m := object(t, `{"n": 5, "f": 5.5, "tenth": 0.1, "big": 9007199254740993, "s": "text", "t": true, "huge": 18446744073709551615, "null": null, "list": ["a", 1, null], "o": {"x": {"y": "z"}}, "a.b": 1, "c\\d": 2}`)
	for _, test := range []struct {
		filter filter.Filter
		want   bool
	}{
		{filter.Filter{}, true},
		{filter.Eq("n", 5), true},
		{filter.Eq("n", 5.0), true},
		{filter.Eq("n", uint8(5)), true},
		{filter.Eq("n", "5"), false},
		{filter.Eq("n", nil), false},
		{filter.Eq("big", int64(9007199254740993)), true},
		{filter.Eq("big", int64(9007199254740992)), false},
		{filter.Eq("big", json.Number("9007199254740993")), true},
		{filter.Gt("big", 9007199254740992.0), true},
		{filter.Eq("huge", uint64(math.MaxUint64)), true},
		{filter.Eq("huge", uint64(math.MaxUint64-1)), false},
		{filter.Gt("huge", json.Number("18446744073709551614")), true},
		{filter.Eq("tenth", float32(0.1)), true},
		{filter.Eq("tenth", 0.1), true},
		{filter.Eq("t", true), true},
		{filter.Eq("t", 1), false},
		{filter.Eq("null", nil), true},
		{filter.Eq("missing", nil), false},
		{filter.Eq("list", "a"), false},
		{filter.Eq("o", nil), false},
		{filter.Ne("n", 5), false},
		{filter.Ne("missing", 5), true},
		{filter.Ne("list", "a"), true},
		{filter.Eq("o.x.y", "z"), true},
		{filter.Eq("o.x", "z"), false},
		{filter.Eq("s.x", "z"), false},
		{filter.Eq(`a\.b`, 1), true},
		{filter.Eq("a.b", 1), false},
		{filter.Eq(`c\\d`, 2), true},
		{filter.Gt("f", 5), true},
		{filter.Gte("n", 5), true},
		{filter.Lt("n", 5), false},
		{filter.Lte("n", 5.5), true},
		{filter.Gt("s", "a"), true},
		{filter.Gt("s", 1), false},
		{filter.Lt("s", 1), false},
		{filter.Gt("t", 0), false},
		{filter.Lt("missing", 9), false},
		{filter.In("n", "5", 5), true},
		{filter.In("n"), false},
		{filter.NotIn("n", 6), true},
		{filter.NotIn("missing", 6), true},
		{filter.NotIn("n", 5), false},
		{filter.Exists("null"), true},
		{filter.Exists("missing"), false},
		{filter.Exists("o.x.y"), true},
		{filter.Contains("list", "a"), true},
		{filter.Contains("list", 1.0), true},
		{filter.Contains("list", nil), true},
		{filter.Contains("list", "b"), false},
		{filter.Contains("s", "ex"), true},
		{filter.Contains("n", 5), false},
		{filter.StartsWith("s", "te"), true},
		{filter.StartsWith("s", "ex"), false},
		{filter.StartsWith("list", "a"), false},
		{filter.And(), true},
		{filter.Or(), false},
		{filter.And(filter.Eq("n", 5), filter.Eq("s", "text")), true},
		{filter.And(filter.Eq("n", 5), filter.Eq("s", "x")), false},
		{filter.Or(filter.Eq("n", 6), filter.Eq("s", "text")), true},
		{filter.Not(filter.Eq("n", 5)), false},
		{filter.Map(map[string]any{"n": 5, "o.x.y": "z"}), true},
		{filter.Map(map[string]any{"n": 5, "s": "x"}), false},
		{filter.Map(nil), true},
	} {
		if err := test.filter.Check(); err != nil {
			t.Errorf("Check(%+v) = %v", test.filter, err)
		}
		if got := test.filter.Match(m); got != test.want {
			t.Errorf("%+v matches = %t, want %t", test.filter, got, test.want)
		}
		text, err := json.Marshal(test.filter)
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := filter.Parse(text)
		if err != nil || decoded.Match(m) != test.want {
			t.Errorf("Parse(%s) = %+v, %v, want one that matches %t", text, decoded, err, test.want)
		}
	}
}

func deep(n int) filter.Filter {
	f := filter.Eq("a", 1)
	for range n - 1 {
		f = filter.Not(f)
	}
	return f
}

func TestCheckNamesFieldAndRule(t *testing.T) {
	t.Parallel()
	many := filter.Or()
	for range filter.MaxFilters {
		many.Filters = append(many.Filters, filter.Exists("a"))
	}
	for _, test := range []struct {
		filter filter.Filter
		want   string
	}{
		{filter.Filter{Op: "like", Path: "a"}, `filter: op: unknown operator "like"`},
		{filter.Filter{Path: "a"}, `filter: op: unknown operator ""`},
		{deep(filter.MaxDepth + 1), "filter: nested deeper than 16 operators"},
		{deep(1000), "filter: nested deeper than 16 operators"},
		{many, "filter: has more than 256 operators"},
		{filter.In("a", make([]any, filter.MaxValues+1)...), "filter: values: has more than 1000 operands"},
		{filter.Eq("", 1), `filter: path: "" has an empty name`},
		{filter.Eq("a..b", 1), `filter: path: "a..b" has an empty name`},
		{filter.Eq(`a\b`, 1), "filter: path: a backslash must precede a dot or a backslash"},
		{filter.Eq(`a\`, 1), "filter: path: a backslash must precede a dot or a backslash"},
		{filter.Eq("\xff", 1), "filter: path: must be UTF-8"},
		{filter.Eq(strings.Repeat("a", filter.MaxPath+1), 1), "filter: path: has 513 bytes, limit is 512"},
		{filter.Eq(strings.Repeat("a.", filter.MaxSegments)+"a", 1), "filter: path: has 17 names, limit is 16"},
		{filter.Eq("a", math.NaN()), "filter: value: is float64, want a string, a bool, a finite number or nil"},
		{filter.Eq("a", []any{1}), "filter: value: is []interface {}, want a string, a bool, a finite number or nil"},
		{filter.Eq("a", json.Number("1x")), "filter: value: is json.Number, want a string, a bool, a finite number or nil"},
		{filter.Eq("a", slog.LevelInfo), "filter: value: is slog.Level, want a string, a bool, a finite number or nil"},
		{filter.Eq("a", "\xff"), "filter: value: must be UTF-8"},
		{filter.Eq("a", strings.Repeat("x", filter.MaxString+1)), "filter: value: has 4097 bytes, limit is 4096"},
		{filter.Gt("a", true), "filter: value: is bool, want a number or a string"},
		{filter.Gt("a", nil), "filter: value: is <nil>, want a number or a string"},
		{filter.Filter{Op: filter.OpStartsWith, Path: "a", Value: 1}, "filter: value: is int, want a string"},
		{filter.In("a", map[string]any{}), "filter: values[0]: is map[string]interface {}, want a string, a bool, a finite number or nil"},
		{filter.Filter{Op: filter.OpIn, Path: "a", Value: 1}, "filter: value: must not be set for in"},
		{filter.Filter{Op: filter.OpEq, Path: "a", Values: []any{1}}, "filter: values: must not be set for eq"},
		{filter.Filter{Op: filter.OpEq, Path: "a", Filters: []filter.Filter{{}}}, "filter: filters: must not be set for eq"},
		{filter.Filter{Op: filter.OpNot}, "filter: filters: not has 0 filters, want 1"},
		{filter.Filter{Op: filter.OpAnd, Path: "a"}, "filter: op: and has filters only"},
		{filter.And(filter.Exists("a"), filter.Not(filter.Eq("", 1))), `filter: filters[1].filters[0].path: "" has an empty name`},
	} {
		err := test.filter.Check()
		var e *filter.Error
		if !errors.As(err, &e) || err.Error() != test.want {
			t.Errorf("Check() = %v, want %s", err, test.want)
		}
	}
}

func TestParseRejectsMalformedDocuments(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		``, `[]`, `{"op":"eq","path":"a","valu":1}`, `{"op":"eq","path":"a","value":1}{}`, `{"op":"eq","path":"a","value":{"x":1}}`,
		strings.Repeat(`{"op":"not","filters":[`, 100000), `{"op":"and","filters":[{}]}`,
	} {
		if f, err := filter.Parse([]byte(text)); err == nil {
			t.Errorf("Parse(%.40s) = %+v, want an error", text, f)
		}
	}
	f, err := filter.Parse([]byte(`{"op":"eq","path":"a","value":9007199254740993}`))
	if diff := cmp.Diff(filter.Eq("a", json.Number("9007199254740993")), f); err != nil || diff != "" {
		t.Errorf("Parse() = %v (-want +got):\n%s", err, diff)
	}
	if f, err := filter.Parse([]byte(`{}`)); err != nil || !f.IsZero() {
		t.Errorf("Parse({}) = %+v, %v, want the zero filter", f, err)
	}
}

// Filters of a document are evaluated without a panic, and keep their meaning when they are
// encoded again.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"op":"and","filters":[{"op":"in","path":"a.b","values":[1,"x",null]},{"op":"contains","path":"c","value":null}]}`), []byte(`{"a":{"b":1},"c":[null]}`))
	f.Fuzz(func(t *testing.T, document, metadata []byte) {
		x, err := filter.Parse(document)
		var m map[string]any
		if err != nil || json.Unmarshal(metadata, &m) != nil {
			return
		}
		text, err := json.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		again, err := filter.Parse(text)
		if err != nil || again.Match(m) != x.Match(m) {
			t.Errorf("%s encoded again = %s, %v", document, text, err)
		}
	})
}
