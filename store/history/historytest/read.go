package historytest

import (
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var readTests = []test{
	{"a session that does not exist has no messages", readNothing},
	{"limit and offset count from the oldest message", readRange},
	{"the tail is the newest messages, oldest first", readTail},
	{"cursors page in both directions", readCursors},
	{"cursors skip removed messages", readGaps},
	{"paging while messages are appended repeats and omits none", readWhileAppending},
	{"the default limit applies", readDefaultLimit},
}

var pairTests = []test{
	{"a limit keeps calls and results together", pairsTogether},
	{"a group that exceeds the limit is a page", pairsLargeGroup},
	{"a result without a call is a message like others", pairsOrphans},
	{"a result belongs to the nearest call with its id", pairsRepeatedIDs},
	{"calls that are too far away are not kept", pairsFarAway},
}

func readNothing(f *fixture) {
	f.equal("Messages()", f.all(f.k), []history.Message{})
	f.equal("Page()", f.page(history.Tail(1)), history.Page{})
	f.equal("Page()", f.page(history.Query{KeepToolPairs: true}), history.Page{})
	f.clearRun("r", 0, 0)
}

func readRange(f *fixture) {
	f.append(f.k, history.AppendParams{Messages: number(10)})
	for _, test := range []struct {
		limit, offset int
		want          []int64
	}{{0, 0, seqs(1, 10)}, {3, 0, seqs(1, 3)}, {3, 8, seqs(9, 10)}, {0, 7, seqs(8, 10)}, {1, 10, nil}, {0, 11, nil}, {100, 9, seqs(10, 10)}} {
		got := suite.Call(f.p.Messages(f.ctx, f.k, test.limit, test.offset)).Check(f, "Messages(%d, %d)", test.limit, test.offset)
		f.wantSeqs(fmt.Sprintf("Messages(%d, %d)", test.limit, test.offset), got, test.want...)
	}
}

func (f *fixture) wantPage(q history.Query, more bool, want ...int64) {
	f.Helper()
	page := f.page(q)
	call := fmt.Sprintf("Page(%+v)", q)
	f.wantSeqs(call, page.Messages, want...)
	if page.More != more {
		f.Errorf("%s has more pages: %t, want %t", call, page.More, more)
	}
}

func readTail(f *fixture) {
	f.append(f.k, history.AppendParams{Messages: number(10)})
	f.wantPage(history.Tail(3), true, seqs(8, 10)...)
	f.wantPage(history.Tail(9), true, seqs(2, 10)...)
	f.wantPage(history.Tail(10), false, seqs(1, 10)...)
	f.wantPage(history.Tail(11), false, seqs(1, 10)...)
	if got := f.page(history.Tail(1)).Messages; len(got) != 1 || string(got[0].Body) != `{"text":"10"}` {
		f.Errorf("Page() = %v, want the newest message", got)
	}
}

func readCursors(f *fixture) {
	f.append(f.k, history.AppendParams{Messages: number(10)})
	f.wantPage(history.After(0, 4), true, seqs(1, 4)...)
	f.wantPage(history.After(4, 4), true, seqs(5, 8)...)
	f.wantPage(history.After(8, 4), false, seqs(9, 10)...)
	f.wantPage(history.After(6, 4), false, seqs(7, 10)...)
	f.wantPage(history.After(10, 4), false)
	f.wantPage(history.After(1<<62, 4), false)
	f.wantPage(history.Before(8, 4), true, seqs(4, 7)...)
	f.wantPage(history.Before(4, 4), false, seqs(1, 3)...)
	f.wantPage(history.Before(5, 4), false, seqs(1, 4)...)
	f.wantPage(history.Before(1, 4), false)
	f.wantPage(history.Query{After: 3, Before: 7, Limit: 2}, true, 4, 5)
	f.wantPage(history.Query{After: 3, Before: 7, Limit: 2, Newest: true}, true, 5, 6)
	f.wantPage(history.Query{After: 3, Before: 7, Limit: 3, Newest: true}, false, 4, 5, 6)
	f.wantPage(history.Query{After: 3, Before: 4}, false)
	f.wantPage(history.Query{After: 7, Before: 4}, false)
}

func readGaps(f *fixture) {
	for i := range 9 {
		f.append(f.k, history.AppendParams{Messages: number(1), Run: []string{"keep", "drop", "drop"}[i%3]})
	}
	f.clearRun("drop", 0, 6)
	f.wantPage(history.After(1, 1), true, 4)
	f.wantPage(history.After(5, 1), false, 7)
	f.wantPage(history.Before(6, 1), true, 4)
	f.wantPage(history.Before(3, 2), false, 1)
	f.wantPage(history.Tail(2), true, 4, 7)
}

func readWhileAppending(f *fixture) {
	f.append(f.k, history.AppendParams{Messages: number(20)})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 30 {
			suite.Call(f.p.Append(f.ctx, f.k, history.AppendParams{Messages: number(3)})).Check(f, "Append()")
		}
	}()
	var forward, backward []history.Message
	q := history.After(0, 7)
	for page := f.page(q); len(page.Messages) > 0; page = f.page(q) {
		forward = append(forward, page.Messages...)
		q.After = forward[len(forward)-1].Seq
	}
	q = history.Tail(7)
	for page := f.page(q); ; page = f.page(q) {
		backward = slices.Concat(page.Messages, backward)
		if q.Before = backward[0].Seq; !page.More {
			break
		}
	}
	<-done
	f.wantSeqs("pages forward", forward, seqs(1, int64(len(forward)))...)
	f.wantSeqs("pages backward", backward, seqs(1, int64(len(backward)))...)
	f.wantSeqs("Messages()", f.all(f.k), seqs(1, 110)...)
}

func readDefaultLimit(f *fixture) {
	f.append(f.k, history.AppendParams{Messages: number(history.DefaultPage + 1)})
	f.wantPage(history.Query{}, true, seqs(1, history.DefaultPage)...)
	f.wantPage(history.Query{Newest: true}, true, seqs(2, history.DefaultPage+1)...)
	f.append(f.k, history.AppendParams{Messages: number(history.MaxPage)})
	f.wantPage(history.Tail(history.MaxPage), true, seqs(history.DefaultPage+2, history.DefaultPage+1+history.MaxPage)...)
}

// addTools appends messages: "a" calls a, "=a" has the result of a, and "" is plain.
func (f *fixture) addTools(marks ...string) {
	f.Helper()
	f.append(f.k, history.AppendParams{Messages: marked(marks)})
}

func marked(marks []string) []history.Message {
	all := number(len(marks))
	for i, mark := range marks {
		switch {
		case mark == "":
		case mark[0] == '=':
			all[i].ToolResults = []string{mark[1:]}
		default:
			all[i].ToolCalls = []string{mark}
		}
	}
	return all
}

func whole(q history.Query) history.Query {
	q.KeepToolPairs = true
	return q
}

func pairsTogether(f *fixture) {
	f.addTools("", "a", "=a", "", "b", "", "=b", "=b", "", "open")
	f.wantPage(whole(history.Tail(1)), true, 10)
	f.wantPage(whole(history.Tail(2)), true, 9, 10)
	f.wantPage(whole(history.Tail(3)), true, 9, 10)
	f.wantPage(whole(history.Tail(5)), true, 9, 10)
	f.wantPage(whole(history.Tail(6)), true, seqs(5, 10)...)
	f.wantPage(whole(history.Tail(8)), true, seqs(4, 10)...)
	f.wantPage(whole(history.Tail(9)), true, seqs(2, 10)...)
	f.wantPage(whole(history.Tail(10)), false, seqs(1, 10)...)
	f.wantPage(whole(history.After(0, 2)), true, 1)
	f.wantPage(whole(history.After(1, 2)), true, 2, 3)
	f.wantPage(whole(history.After(3, 5)), true, seqs(4, 8)...)
	f.wantPage(whole(history.After(3, 4)), true, 4)
	f.wantPage(whole(history.Before(9, 4)), true, seqs(5, 8)...)
	f.wantPage(whole(history.Before(4, 2)), true, 2, 3)
	f.wantPage(history.Tail(3), true, 8, 9, 10) // without the option
}

func pairsLargeGroup(f *fixture) {
	f.addTools("", "a", "", "b", "=a", "", "=b", "")
	f.wantPage(whole(history.After(1, 2)), true, seqs(2, 7)...)
	f.wantPage(whole(history.Before(8, 1)), true, seqs(2, 7)...)
	f.wantPage(whole(history.Before(8, 5)), true, seqs(2, 7)...)
	f.wantPage(whole(history.After(1, 6)), true, seqs(2, 7)...)
	f.wantPage(whole(history.Query{After: 1, Before: 8, Limit: 1}), false, seqs(2, 7)...)
	// A bound of the query is not a limit: the caller chose it.
	f.wantPage(whole(history.Before(7, 9)), false, seqs(1, 6)...)
	f.wantPage(whole(history.After(4, 1)), true, 5)
}

func pairsOrphans(f *fixture) {
	f.addTools("=lost", "", "=later", "later", "=lost")
	for n := range int64(5) {
		f.wantPage(whole(history.Tail(int(n+1))), n < 4, seqs(5-n, 5)...)
	}
	f.wantPage(whole(history.After(0, 1)), true, 1)
}

func pairsRepeatedIDs(f *fixture) {
	f.addTools("a", "=a", "a", "=a", "", "a", "=a", "=a")
	f.wantPage(whole(history.Tail(4)), true, seqs(5, 8)...)
	f.wantPage(whole(history.After(0, 3)), true, 1, 2)
	f.wantPage(whole(history.Tail(2)), true, 6, 7, 8)
}

func pairsFarAway(f *fixture) {
	marks := make([]string, history.MaxToolSpan+1)
	marks[0], marks[history.MaxToolSpan] = "near", "=near"
	f.addTools(marks...)
	f.wantPage(whole(history.Tail(1)), false, seqs(1, history.MaxToolSpan+1)...)
	f.wantPage(whole(history.After(0, 1)), false, seqs(1, history.MaxToolSpan+1)...)
	f.addTools("=near")
	f.wantPage(whole(history.Tail(1)), true, history.MaxToolSpan+2)
	f.wantPage(whole(history.Tail(history.MaxToolSpan+1)), true, history.MaxToolSpan+2)
	f.wantPage(whole(history.Tail(history.MaxToolSpan+2)), false, seqs(1, history.MaxToolSpan+2)...)
}
