package v03_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	v03 "github.com/holdfast-dev/holdfast/a2a/v03"
)

func TestParams(t *testing.T) {
	t.Parallel()
	one := 1
	for _, test := range []struct {
		raw  string
		want a2a.TaskQueryParams
		err  string
	}{
		{`{"id":"x","historyLength":1}`, a2a.TaskQueryParams{ID: "x", HistoryLength: &one}, ""},
		{`{"task_id":"x","history_length":1,"more":[]}`, a2a.TaskQueryParams{ID: "x", HistoryLength: &one}, ""},
		{`{"id":"x","metadata":{"snake_case":1,"camelCase":null}}`, a2a.TaskQueryParams{ID: "x", Metadata: map[string]any{"snake_case": 1.0, "camelCase": nil}}, ""},
		{``, a2a.TaskQueryParams{}, "id is required"},
		{`null`, a2a.TaskQueryParams{}, "id is required"},
		{`{}`, a2a.TaskQueryParams{}, "id is required"},
		{`[]`, a2a.TaskQueryParams{}, "params must be an object, not an array"},
		{`"x"`, a2a.TaskQueryParams{}, "params must be an object, not a string"},
		{`{"id":1}`, a2a.TaskQueryParams{}, "id must be a string, not a number"},
	} {
		got, err := v03.Params[a2a.TaskQueryParams]([]byte(test.raw))
		if test.err != "" {
			if err == nil || err.Error() != test.err || a2a.CodeOf(err) != a2a.CodeInvalid {
				t.Errorf("Params(%s) = %v, want %s", test.raw, err, test.err)
			}
			continue
		}
		if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(a2a.TaskQueryParams{})); err != nil || diff != "" {
			t.Errorf("Params(%s): %v (-want +got)\n%s", test.raw, err, diff)
		}
	}
}

func TestHistory(t *testing.T) {
	t.Parallel()
	messages := []a2a.Message{{ID: "a"}, {ID: "b"}, {ID: "c"}}
	for _, test := range []struct {
		n    int // -1 is absent
		have []a2a.Message
		want string
		set  bool // whether the member is there at all
	}{
		{-1, messages, "a b c", true},
		{-1, nil, "", false},
		{0, messages, "", true},
		{0, nil, "", true},
		{2, messages, "b c", true},
		{3, messages, "a b c", true},
		{1 << 40, messages, "a b c", true},
	} {
		var n *int
		if test.n >= 0 {
			n = &test.n
		}
		got := v03.History(test.have, n)
		var ids []string
		for _, m := range got {
			ids = append(ids, m.ID)
		}
		if strings.Join(ids, " ") != test.want || (got != nil) != test.set {
			t.Errorf("History(%d messages, %d) = %v, want %q, there: %t", len(test.have), test.n, got, test.want, test.set)
		}
	}
}
