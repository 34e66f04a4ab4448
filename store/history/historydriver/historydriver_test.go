package historydriver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"

	"github.com/holdfast-dev/holdfast/internal/testseed"
	"github.com/holdfast-dev/holdfast/store/history"
)

// outlines returns messages from marks: "a" calls a, "=a" has its result.
func outlines(marks string) (all []Outline) {
	for _, mark := range strings.Split(marks, " ") {
		var o Outline
		if result, ok := strings.CutPrefix(mark, "="); ok {
			o.ToolResults = []string{result}
		} else if mark != "-" {
			o.ToolCalls = []string{mark}
		}
		all = append(all, o)
	}
	return all
}

func TestPageSizeKeepsGroups(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		marks          string
		limit          int
		oldest, newest int
	}{
		{"-", 5, 1, 1},
		{"- - -", 2, 2, 2},
		{"a =a - -", 1, 2, 1},
		{"a =a - -", 3, 3, 2},
		{"- a - =a", 2, 1, 3},
		{"a b =a =b -", 2, 4, 1},
		{"=lost - - a", 2, 2, 2},
		{"a =a a =a", 1, 2, 2},
	} {
		all := outlines(test.marks)
		if got := PageSize(all, test.limit, false); got != test.oldest {
			t.Errorf("PageSize(%q, %d) of the oldest = %d, want %d", test.marks, test.limit, got, test.oldest)
		}
		if got := PageSize(all, test.limit, true); got != test.newest {
			t.Errorf("PageSize(%q, %d) of the newest = %d, want %d", test.marks, test.limit, got, test.newest)
		}
	}
}

// A group that exceeds the messages that PageSize can judge is cut at the limit.
func TestPageSizeOfAnEndlessGroup(t *testing.T) {
	t.Parallel()
	all := make([]Outline, 10+PageRead)
	for i := range all {
		all[i].ToolCalls, all[i].ToolResults = []string{fmt.Sprint(i)}, []string{fmt.Sprint(i - 1)}
	}
	for _, newest := range []bool{false, true} {
		if got := PageSize(all, 10, newest); got != 10 {
			t.Errorf("PageSize() = %d, want the limit of 10", got)
		}
	}
}

// If Whole reports that a page needs no others, PageSize agrees whatever precedes the page.
func TestWholePagesNeedNoOtherMessages(t *testing.T) {
	t.Parallel()
	seed := testseed.Of(t)
	random := rand.New(rand.NewPCG(seed, 0))
	whole := 0
	for range 5000 {
		all := make([]Outline, 1+random.IntN(12))
		for i := range all {
			switch id := fmt.Sprint(random.IntN(3)); random.IntN(4) {
			case 0:
				all[i].ToolCalls = []string{id}
			case 1:
				all[i].ToolResults = []string{id}
			}
		}
		limit := 1 + random.IntN(len(all))
		if !Whole(all[len(all)-limit:]) {
			continue
		}
		whole++
		if got := PageSize(all, limit, true); got != limit {
			t.Fatalf("seed %d: PageSize(%+v, %d) = %d although the page is whole", seed, all, limit, got)
		}
	}
	if whole < 100 {
		t.Errorf("%d pages were whole, want at least 100", whole)
	}
}

func TestPruneSizeStopsAtTheBatch(t *testing.T) {
	t.Parallel()
	all := make([]Outline, PruneRead)
	if got := PruneSize(all, history.Pruned{Messages: 5000}, history.Policy{MaxMessages: 1}); got != pruneBatch {
		t.Errorf("PruneSize() = %d, want %d", got, pruneBatch)
	}
	for i := range all { // one group
		all[i].ToolCalls, all[i].ToolResults = []string{fmt.Sprint(i)}, []string{fmt.Sprint(i - 1)}
	}
	if got := PruneSize(all, history.Pruned{Messages: 5000}, history.Policy{MaxMessages: 1}); got != pruneBatch {
		t.Errorf("PruneSize() of a group larger than a batch = %d, want %d", got, pruneBatch)
	}
	if got := PruneSize(all[:20], history.Pruned{Messages: 20}, history.Policy{MaxMessages: 1}); got != 0 {
		t.Errorf("PruneSize() of a group = %d, want 0", got)
	}
}

// Every text matches itself as a phrase and by its words.
func TestMatcherFindsTheTextItself(t *testing.T) {
	t.Parallel()
	seed := testseed.Of(t)
	random := rand.New(rand.NewPCG(seed, 0))
	alphabet := []rune("aB1 \t\u00e9\u00df\u03a3\u03c2\u0130\u0131\U0001f600%_")
	for range 2000 {
		text := "x"
		for range random.IntN(12) {
			text += string(alphabet[random.IntN(len(alphabet))])
		}
		body, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		folded := history.Text(body)
		plain := !bytes.Contains(body, []byte(`\u`)) && !bytes.ContainsFunc(body, func(r rune) bool { return r > unicode.MaxASCII })
		for _, words := range []bool{false, true} {
			m, err := newMatcher(text, words)
			if err != nil || !m.Match(folded) || plain && !strings.Contains(strings.ToLower(string(body)), m.Contained()) {
				t.Fatalf("seed %d: search for %q (words %t) does not match its folded text %q: %v", seed, text, words, folded, err)
			}
		}
	}
}
