package historytest

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var largeTests = []test{
	{"the size of bodies limits a page", largePages},
	{"the size of bodies limits a page of whole groups", largeGroups},
	{"the size of bodies limits a page of a search", largeSearch},
}

// addLarge appends messages with the maximum size; eight of them have [history.MaxPageBytes]. marks
// are as in addTools.
func (f *fixture) addLarge(marks ...string) {
	f.Helper()
	body := fmt.Appendf(nil, `"needle %s"`, strings.Repeat("x", history.MaxBody-len(`"needle "`)))
	all := marked(marks)
	for i := range all {
		all[i].Body = body
	}
	for part := range slices.Chunk(all, history.MaxAppendBytes/history.MaxBody) {
		f.append(f.k, history.AppendParams{Messages: part})
	}
}

func largePages(f *fixture) {
	f.addLarge(make([]string, 10)...)
	f.wantPage(history.After(0, 100), true, seqs(1, 8)...)
	f.wantPage(history.After(8, 100), false, 9, 10)
	f.wantPage(history.Tail(100), true, seqs(3, 10)...)
	f.wantPage(history.Tail(7), true, seqs(4, 10)...)
	f.wantPage(history.Before(9, 8), false, seqs(1, 8)...)
	f.add("small")
	f.wantPage(history.Tail(100), true, seqs(4, 11)...)
	f.wantPage(history.After(2, 100), true, seqs(3, 10)...)
	f.wantPage(history.After(3, 100), false, seqs(4, 11)...)
	f.wantSeqs("All()", f.all(f.k), seqs(1, 11)...)

	// Callers take fewer messages than the limit for the end.
	for _, limit := range []int{9, 11, math.MaxInt} {
		var read []history.Message
		for more := true; more; {
			part := suite.Call(f.p.Messages(f.ctx, f.k, limit, len(read))).Must(f, "Messages(%d, %d)", limit, len(read))
			read, more = append(read, part...), len(part) == limit
		}
		f.wantSeqs(fmt.Sprintf("Messages(%d) by offsets", limit), read, seqs(1, 11)...)
	}
}

func largeGroups(f *fixture) {
	f.addLarge("a", "=a", "b", "", "", "", "", "", "", "", "=b", "")
	f.wantPage(whole(history.After(0, 100)), true, 1, 2)
	f.wantPage(whole(history.Tail(100)), true, 12)
	// The group of b has nine messages.
	f.wantPage(whole(history.After(2, 100)), true, seqs(3, 10)...)
	f.wantPage(whole(history.After(10, 100)), false, 11, 12)
	f.wantPage(whole(history.Before(12, 100)), true, seqs(4, 11)...)
	f.wantPage(whole(history.Before(12, 2)), true, 10, 11)
	f.wantPage(whole(history.Before(4, 100)), false, 1, 2, 3)
}

func largeSearch(f *fixture) {
	f.addLarge(make([]string, 10)...)
	q := history.SearchQuery{Owner: f.k.Owner, Text: "needle"}
	for _, want := range [][]int64{{10, 9, 8, 7, 6, 5, 4, 3}, {2, 1}} {
		page := f.search(q)
		var got []int64
		for _, h := range page.Hits {
			got = append(got, h.Message.Seq)
		}
		f.equal("Search()", got, want)
		if more := want[0] == 10; (page.Next != nil) != more {
			f.Fatalf("Search() has the cursor %v, more pages: %t", page.Next, more)
		}
		q.Next = page.Next
	}
}
