package methods

import (
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/rpc"
	"github.com/holdfast-dev/holdfast/store"
)

func TestConvertTaskLimitsTheHistory(t *testing.T) {
	t.Parallel()
	messages := []store.HistoryEntry{{Message: a2a.Message{ID: "a"}}, {Message: a2a.Message{ID: "b"}}, {Message: a2a.Message{ID: "c"}}}
	for _, test := range []struct {
		n    int // -1 means nil
		have []store.HistoryEntry
		want string
		set  bool // whether the result is not nil
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
		got := convertTask(new(rpc.Call), &store.Task{History: test.have}, n).History
		var ids []string
		for _, m := range got {
			ids = append(ids, m.ID)
		}
		if strings.Join(ids, " ") != test.want || (got != nil) != test.set {
			t.Errorf("convertTask(%d messages, %d) = %v, want %q, not nil: %t", len(test.have), test.n, got, test.want, test.set)
		}
	}
}
