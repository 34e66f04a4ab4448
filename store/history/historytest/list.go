package historytest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var searchTests = []test{
	{"a search ignores case and white space", searchFolds},
	{"a search reads values and not names of members", searchValues},
	{"a search for words matches whole words in any order", searchWords},
	{"a search has a scope", searchScope},
	{"pages of a search continue at the cursor", searchPages},
	{"a search finds messages beyond those that one call examines", searchScan},
}

var sessionTests = []test{
	{"a session has the totals of its messages", sessionTotals},
	{"sessions are listed by their last append", sessionsList},
	{"pages of sessions continue at the cursor", sessionsPages},
}

func (f *fixture) search(q history.SearchQuery) history.SearchPage {
	f.Helper()
	s := optional[history.Searcher](f)
	return suite.Call(s.Search(f.ctx, q)).Must(f, "Search(%+v)", q)
}

// wantHits checks the sequences of the messages of the session that match.
func (f *fixture) wantHits(text string, words bool, want ...int64) {
	f.Helper()
	page := f.search(history.SearchQuery{Owner: f.k.Owner, Agent: f.k.Agent, Session: f.k.Session, Text: text, Words: words})
	var got []int64
	for _, h := range page.Hits {
		got = append(got, h.Message.Seq)
	}
	f.equal(fmt.Sprintf("Search(%q)", text), got, want)
}

func searchFolds(f *fixture) {
	f.add("Hello, World", "GR\u00dcSSE aus K\u00f6ln", "a\n\n\tb  c", "\u039f\u0394\u03a5\u03a3\u03a3\u0395\u03a5\u03a3", "100% of_it's \\ \"quoted\"", "x\u0000y", "\U0001f600!")
	for text, want := range map[string]int64{
		"hello, world": 1, "O, W": 1, "gr\u00fcsse": 2, "K\u00d6LN": 2, "a b c": 3, " A\u00a0B ": 3, "\u03bf\u03b4\u03c5\u03c3\u03c3\u03b5\u03c5\u03c2": 4,
		"100%": 5, "OF_IT'S": 5, `\`: 5, `"QUOTED`: 5, "x y": 6, "\U0001f600": 7,
	} {
		f.wantHits(text, false, want)
	}
	f.wantHits("%", false, 5)
	f.wantHits("_", false, 5)
	f.wantHits("hello  world", false)
}

func searchValues(f *fixture) {
	for _, body := range []string{
		`{"name":"value","nested":[{"name" : "deep \u0041\ud83d\ude00"},"last"]}`, `"name"`, `17`, `{"value":1}`, `{"a":"half","b":"way"}`, `""`,
	} {
		f.append(f.k, history.AppendParams{Messages: []history.Message{{Role: "value", Body: []byte(body)}}})
	}
	f.wantHits("value", false, 1)
	f.wantHits("name", false, 2)
	f.wantHits("deep A\U0001f600", false, 1)
	f.wantHits("half way", false, 5)
	f.wantHits("17", false)
}

func searchWords(f *fixture) {
	f.add("the quick brown fox", "Quick-brown.", "quicker browns", "brown, then QUICK", "na\u00efve \u0915\u094d\u0937\u093f")
	f.wantHits("brown quick", true, 4, 2, 1)
	f.wantHits("(Brown)", true, 4, 2, 1)
	f.wantHits("brown quick fox brown", true, 1)
	f.wantHits("quick", false, 4, 3, 2, 1)
	f.wantHits("na\u00efve", true, 5)
	f.wantHits("\u0915\u094d\u0937\u093f", true, 5)
	f.wantHits("na", true)
}

// hits returns the hits of all pages of a search.
func (f *fixture) hits(q history.SearchQuery) (hits []history.Hit) {
	f.Helper()
	for {
		page := f.search(q)
		hits = append(hits, page.Hits...)
		if q.Next = page.Next; q.Next == nil {
			return hits
		}
	}
}

func searchScope(f *fixture) {
	var want []history.Hit
	for _, k := range neighbors(f.k) {
		f.append(k, history.AppendParams{Messages: messages("needle "+k.Agent, "hay", "a needle "+k.Session)})
		all := f.all(k)
		if k.Owner == f.k.Owner {
			want = append(want, history.Hit{Key: k, Message: all[2]}, history.Hit{Key: k, Message: all[0]})
		}
	}
	slices.SortStableFunc(want, func(a, b history.Hit) int {
		return -strings.Compare(a.Key.Agent+" "+a.Key.Session, b.Key.Agent+" "+b.Key.Session)
	})
	of := func(agent, session string) (some []history.Hit) {
		for _, h := range want {
			if (agent == "" || agent == h.Key.Agent) && (session == "" || session == h.Key.Session) {
				some = append(some, h)
			}
		}
		return some
	}
	for _, limit := range []int{0, 1, 2, 3} {
		q := history.SearchQuery{Owner: f.k.Owner, Text: "NEEDLE", Limit: limit}
		f.equal("Search() of an owner", f.hits(q), want)
		q.Agent = f.k.Agent
		f.equal("Search() of an agent", f.hits(q), of(f.k.Agent, ""))
		q.Session = f.k.Session
		f.equal("Search() of a session", f.hits(q), of(f.k.Agent, f.k.Session))
	}
	f.equal("Search() of another owner", f.hits(history.SearchQuery{Owner: "none", Text: "needle"}), []history.Hit{})
}

func searchPages(f *fixture) {
	var texts []string
	for i := range 50 {
		texts = append(texts, fmt.Sprint("message ", i%5))
	}
	f.add(texts...)
	q := history.SearchQuery{Owner: f.k.Owner, Agent: f.k.Agent, Session: f.k.Session, Text: "message 3", Limit: 3}
	first := f.search(q)
	f.add("message 3") // newer than the cursor
	q.Next = first.Next
	hits := append(first.Hits, f.hits(q)...)
	var got []int64
	for _, h := range hits {
		got = append(got, h.Message.Seq)
	}
	f.equal("pages of Search()", got, []int64{49, 44, 39, 34, 29, 24, 19, 14, 9, 4})
}

func searchScan(f *fixture) {
	optional[history.Searcher](f)
	f.add("needle")
	for range history.SearchScan / history.MaxAppend {
		f.append(f.k, history.AppendParams{Messages: number(history.MaxAppend)})
	}
	q := history.SearchQuery{Owner: f.k.Owner, Agent: f.k.Agent, Session: f.k.Session, Text: "needle"}
	if hits := f.hits(q); len(hits) != 1 || hits[0].Message.Seq != 1 {
		f.Errorf("Search() = %d hits on all pages, want the first message", len(hits))
	}
}

func sessionTotals(f *fixture) {
	l := optional[history.SessionLister](f)
	suite.Call(l.Session(f.ctx, f.k)).Fails(f, history.ErrNotFound, "Session()")
	f.setsClock()
	want := history.Session{Key: f.k, CreatedAt: start}
	check := func(newest int64) {
		f.Helper()
		want.Messages, want.Bytes, want.Newest = 0, 0, newest
		for _, m := range f.all(f.k) {
			want.Messages++
			want.Bytes += int64(len(m.Body))
		}
		got := suite.Call(l.Session(f.ctx, f.k)).Must(f, "Session()")
		f.equal("Session()", got, want)
	}
	want.UpdatedAt = start
	f.append(f.k, history.AppendParams{Messages: messages("a", "bb", "\u00e9"), Run: "r"})
	check(3)
	f.advance(time.Second)
	f.append(f.k, history.AppendParams{Messages: number(12), TTL: time.Hour})
	want.UpdatedAt, want.ExpiresAt = f.clock(), f.clock().Add(time.Hour)
	check(15)
	f.advance(time.Second)
	f.clearRun("r", 1, 3)
	check(15)
	if e, ok := f.p.(history.Editor); ok {
		suite.Call(e.Rewind(f.ctx, f.k, 9)).Check(f, "Rewind()")
		check(9)
	}
	if _, ok := f.p.(history.Pruner); ok {
		f.prune(history.Policy{MaxMessages: 2}, 4, f.removes(4))
		check(9)
	}
}

// sessions returns the names of all sessions, with pages of a size.
func (f *fixture) sessions(agent string, limit int) (names []string) {
	f.Helper()
	l := optional[history.SessionLister](f)
	q := history.SessionQuery{Owner: f.k.Owner, Agent: agent, Limit: limit}
	for {
		page := suite.Call(l.Sessions(f.ctx, q)).Must(f, "Sessions(%+v)", q)
		for _, s := range page.Sessions {
			names = append(names, s.Key.Agent+"/"+s.Key.Session)
		}
		if q.Next = page.Next; q.Next == nil {
			return names
		}
	}
}

func sessionsList(f *fixture) {
	f.equal("Sessions()", f.sessions("", 9), []string{})
	f.setsClock()
	for _, name := range []string{"a/1", "b/1", "a/2", "a/1", "b/3", "b/2"} {
		f.append(history.Key{Owner: f.k.Owner, Agent: name[:1], Session: name[2:]}, history.AppendParams{Messages: number(1)})
		if name != "b/3" { // b/3 and b/2 have the same time
			f.advance(time.Second)
		}
	}
	f.append(history.Key{Owner: "other", Agent: "a", Session: "9"}, history.AppendParams{Messages: number(1)})
	for limit := range 6 {
		f.equal("Sessions()", f.sessions("", limit), []string{"b/3", "b/2", "a/1", "a/2", "b/1"})
		f.equal("Sessions() of an agent", f.sessions("b", limit), []string{"b/3", "b/2", "b/1"})
	}
	suite.Do(f.p.Clear(f.ctx, history.Key{Owner: f.k.Owner, Agent: "b", Session: "2"})).Check(f, "Clear()")
	f.equal("Sessions() after Clear()", f.sessions("b", 1), []string{"b/3", "b/1"})
}

func sessionsPages(f *fixture) {
	l := optional[history.SessionLister](f)
	f.setsClock()
	var want []string
	for i := range 30 {
		k := history.Key{Owner: f.k.Owner, Agent: "a", Session: fmt.Sprintf("%02d", i)}
		f.append(k, history.AppendParams{Messages: number(1)})
		want = slices.Insert(want, 0, k.Session)
		f.advance(time.Second)
	}
	q := history.SessionQuery{Owner: f.k.Owner, Limit: 4}
	var got []string
	for i := 30; ; i++ {
		page := suite.Call(l.Sessions(f.ctx, q)).Must(f, "Sessions()")
		for _, s := range page.Sessions {
			got = append(got, s.Key.Session)
		}
		if q.Next = page.Next; q.Next == nil {
			break
		}
		f.append(history.Key{Owner: f.k.Owner, Agent: "a", Session: fmt.Sprint(i)}, history.AppendParams{Messages: number(1)})
	}
	f.equal("pages of Sessions()", got, want)
}
