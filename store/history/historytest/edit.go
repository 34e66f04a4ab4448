package historytest

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var expiryTests = []test{
	{"an expired session is not found before it is removed", expiryHides},
	{"an append refreshes the TTL and can change it", expiryRefresh},
	{"an append to an expired session starts a new one", expiryRestart},
	{"Expire removes expired sessions up to its limit", expiryRemoves},
}

var editTests = []test{
	{"Rewind removes newer messages and reuses no sequence", rewind},
	{"Fork copies a session up to a sequence", fork},
	{"Fork requires a session and a new name", forkRejects},
}

var pruneTests = []test{
	{"Prune keeps the newest messages", pruneMessages},
	{"Prune keeps a number of bytes", pruneBytes},
	{"Prune removes old messages up to the first newer one", pruneOld},
	{"Prune removes whole groups of tool calls", prunePairs},
	{"Prune removes many messages", pruneMany},
}

func expiryHides(f *fixture) {
	f.setsClock()
	f.append(f.k, history.AppendParams{Messages: messages("found"), TTL: time.Minute, Run: "r", Fence: 2, IdempotencyKey: "k"})
	f.advance(time.Minute - time.Millisecond)
	f.wantSeqs("Messages()", f.all(f.k), 1)
	f.advance(time.Millisecond)
	f.equal("Messages() of an expired session", f.all(f.k), []history.Message{})
	f.equal("Page() of an expired session", f.page(whole(history.Tail(1))), history.Page{})
	f.clearRun("r", 0, 0)
	if e, ok := f.p.(history.Editor); ok {
		suite.Call(e.Rewind(f.ctx, f.k, 0)).Want(f, 0, "Rewind() of an expired session")
		to := f.k
		to.Session = "fork"
		suite.Call(e.Fork(f.ctx, history.ForkParams{From: f.k, To: to})).Fails(f, history.ErrNotFound, "Fork() of an expired session")
	}
	if l, ok := f.p.(history.SessionLister); ok {
		suite.Call(l.Session(f.ctx, f.k)).Fails(f, history.ErrNotFound, "Session() of an expired session")
		for _, agent := range []string{"", f.k.Agent} {
			if page, err := l.Sessions(f.ctx, history.SessionQuery{Owner: f.k.Owner, Agent: agent}); err != nil || len(page.Sessions) != 0 {
				f.Errorf("Sessions() = %v, %v, want none", page, err)
			}
		}
	}
	if s, ok := f.p.(history.Searcher); ok {
		if page, err := s.Search(f.ctx, history.SearchQuery{Owner: f.k.Owner, Text: "found"}); err != nil || len(page.Hits) != 0 {
			f.Errorf("Search() = %v, %v, want no hits", page, err)
		}
	}
}

func expiryRefresh(f *fixture) {
	f.setsClock()
	add := func(ttl time.Duration) {
		f.Helper()
		f.append(f.k, history.AppendParams{Messages: number(1), TTL: ttl})
	}
	add(10 * time.Second)
	for range 5 {
		f.advance(9 * time.Second)
		add(0)
	}
	f.wantSeqs("Messages()", f.all(f.k), seqs(1, 6)...)
	add(time.Hour)
	f.advance(time.Minute)
	add(history.NoTTL)
	f.advance(9999 * time.Hour)
	add(0)
	f.advance(9999 * time.Hour)
	add(time.Second)
	f.wantSeqs("Messages()", f.all(f.k), seqs(1, 10)...)
	f.advance(time.Second)
	f.wantSeqs("Messages()", f.all(f.k))
}

func expiryRestart(f *fixture) {
	f.setsClock()
	f.append(f.k, history.AppendParams{Messages: number(history.MaxAppend), TTL: time.Minute, Run: "r", Fence: 5, IdempotencyKey: "k"})
	f.append(f.k, history.AppendParams{Messages: number(10)})
	f.advance(time.Minute)
	f.wantConflict(history.MaxAppend+10, 0)
	r := f.append(f.k, history.AppendParams{Messages: number(2), Run: "r", Fence: 1, IdempotencyKey: "k", Expected: new(int64(0))})
	f.equal("Append()", r, history.AppendResult{First: 1, Last: 2})
	f.advance(time.Hour) // the new session has no TTL
	f.wantSeqs("Messages()", f.all(f.k), 1, 2)
	other := f.k
	other.Session = "fenced"
	f.append(other, history.AppendParams{Messages: number(1), TTL: time.Minute})
	f.advance(time.Minute)
	suite.Call(f.p.ClearRun(f.ctx, other, "r", 3)).Check(f, "ClearRun() of an expired session")
	f.equal("Append()", f.append(other, history.AppendParams{Messages: number(1), Run: "r", Fence: 3}), history.AppendResult{First: 1, Last: 1})
}

func (f *fixture) expire(limit, want int) {
	f.Helper()
	if f.h.ServerExpires {
		want = 0
	}
	suite.Call(f.p.Expire(f.ctx, f.clock(), limit)).Want(f, want, "Expire(%d)", limit)
}

func expiryRemoves(f *fixture) {
	f.setsClock()
	for i := range 5 {
		k := f.k
		k.Session = fmt.Sprint(i)
		f.append(k, history.AppendParams{Messages: number(3), TTL: time.Duration(i+1) * time.Minute, Run: "r", Fence: 1})
	}
	f.append(f.k, history.AppendParams{Messages: number(1)})
	f.expire(9, 0)
	f.advance(3 * time.Minute)
	f.expire(2, 2)
	f.expire(2, 1)
	f.expire(2, 0)
	f.advance(time.Hour)
	f.expire(9, 2)
	f.wantSeqs("Messages()", f.all(f.k), 1)
}

func rewind(f *fixture) {
	e := optional[history.Editor](f)
	f.append(f.k, history.AppendParams{Messages: number(10)})
	for _, test := range []struct{ seq, removed, left int64 }{{10, 0, 10}, {99, 0, 10}, {7, 3, 7}, {7, 0, 7}} {
		suite.Call(e.Rewind(f.ctx, f.k, test.seq)).Want(f, test.removed, "Rewind(%d)", test.seq)
		f.wantSeqs("Messages()", f.all(f.k), seqs(1, test.left)...)
	}
	f.wantConflict(10, 7)
	f.equal("Append()", f.append(f.k, history.AppendParams{Messages: number(2), Expected: new(int64(7))}), history.AppendResult{First: 11, Last: 12})
	f.wantPage(history.Tail(3), true, 7, 11, 12)
	suite.Call(e.Rewind(f.ctx, f.k, 0)).Want(f, 9, "Rewind(0)")
	f.wantConflict(12, 0)
	f.equal("Append()", f.append(f.k, history.AppendParams{Messages: number(1), Expected: new(int64(0))}), history.AppendResult{First: 13, Last: 13})
	other := f.k
	other.Session = "none"
	suite.Call(e.Rewind(f.ctx, other, 0)).Want(f, 0, "Rewind() of no session")
}

func fork(f *fixture) {
	e := optional[history.Editor](f)
	f.append(f.k, history.AppendParams{Messages: number(4), Run: "r", Fence: 7, IdempotencyKey: "k"})
	f.append(f.k, history.AppendParams{Messages: number(4), Run: "gone"})
	f.append(f.k, history.AppendParams{Messages: []history.Message{{Body: []byte(`"x"`), ToolCalls: []string{"a"}, ToolResults: []string{"b"}}}, Run: "r", Fence: 7})
	f.clearRun("gone", 0, 4)
	source := f.all(f.k)
	for i, test := range []struct{ through, copied, next int64 }{{0, 5, 10}, {9, 5, 10}, {99, 5, 10}, {7, 4, 8}, {2, 2, 3}} {
		to := history.Key{Owner: f.k.Owner, Agent: "agent2", Session: fmt.Sprint("fork", i)}
		suite.Call(e.Fork(f.ctx, history.ForkParams{From: f.k, To: to, Through: test.through})).Want(f, test.copied, "Fork(through %d)", test.through)
		f.equal("Messages() of the fork", f.all(to), source[:test.copied])
		r := f.append(to, history.AppendParams{Messages: number(1), Run: "r", Fence: 1, IdempotencyKey: "k", Expected: new(source[test.copied-1].Seq)})
		f.equal("Append() to the fork", r, history.AppendResult{First: test.next, Last: test.next})
	}
	f.equal("Messages()", f.all(f.k), source)
}

func forkRejects(f *fixture) {
	e := optional[history.Editor](f)
	p := history.ForkParams{From: f.k, To: f.k}
	p.To.Session = "to"
	wantFork := func(want error) {
		f.Helper()
		if n, err := e.Fork(f.ctx, p); !errors.Is(err, want) || n != 0 {
			f.Errorf("Fork(%+v) = %d, %v, want %v", p, n, err, want)
		}
	}
	wantFork(history.ErrNotFound)
	f.add("a")
	f.append(p.To, history.AppendParams{Messages: messages("kept")})
	wantFork(history.ErrExists)
	p.To = f.k
	wantFork(history.ErrExists)
	p.To.Owner = "other"
	suite.Call(e.Fork(f.ctx, p)).Rejected(f, a2a.CodeInvalid, "Fork() to another owner")
	if f.h.OwnClock {
		return
	}
	p.To = f.k
	p.To.Session = "expires"
	p.TTL = time.Minute
	for range 2 {
		suite.Call(e.Fork(f.ctx, p)).Check(f, "Fork()")
		f.advance(time.Minute)
		f.equal("Messages() of the expired fork", f.all(p.To), []history.Message{})
	}
}

func (f *fixture) prune(p history.Policy, messages, bytes int64) {
	f.Helper()
	got, err := optional[history.Pruner](f).Prune(f.ctx, f.k, p)
	if want := (history.Pruned{Messages: messages, Bytes: bytes}); err != nil || got != want {
		f.Errorf("Prune(%+v) = %+v, %v, want %+v", p, got, err, want)
	}
}

func pruneMessages(f *fixture) {
	f.prune(history.Policy{MaxMessages: 1}, 0, 0)
	f.append(f.k, history.AppendParams{Messages: number(10)})
	f.prune(history.Policy{MaxMessages: 10}, 0, 0)
	size := int64(len(number(1)[0].Body))
	f.prune(history.Policy{MaxMessages: 4}, 6, 6*size)
	f.wantSeqs("Messages()", f.all(f.k), seqs(7, 10)...)
	f.prune(history.Policy{MaxMessages: 1}, 3, 3*size)
	f.wantConflict(9, 10)
	f.equal("Append()", f.append(f.k, history.AppendParams{Messages: number(1), Expected: new(int64(10))}), history.AppendResult{First: 11, Last: 11})
	f.prune(history.Policy{MaxBytes: 1}, 2, 2*size+1)
	f.wantConflict(11, 0)
}

func pruneBytes(f *fixture) {
	f.append(f.k, history.AppendParams{Messages: number(9)})
	size := int64(len(number(1)[0].Body))
	f.prune(history.Policy{MaxBytes: 9 * size}, 0, 0)
	f.prune(history.Policy{MaxBytes: 9*size - 1}, 1, size)
	f.prune(history.Policy{MaxBytes: 4*size + 1, MaxMessages: 100}, 4, 4*size)
	f.prune(history.Policy{MaxBytes: 9 * size, MaxMessages: 3}, 1, size)
	f.wantSeqs("Messages()", f.all(f.k), 7, 8, 9)
}

func pruneOld(f *fixture) {
	all := number(5)
	for i, minute := range []int{0, 1, 5, 2, 6} {
		all[i].CreatedAt = start.Add(time.Duration(minute) * time.Minute)
	}
	f.append(f.k, history.AppendParams{Messages: all})
	size := int64(len(all[0].Body))
	f.prune(history.Policy{CreatedBefore: start}, 0, 0)
	f.prune(history.Policy{CreatedBefore: start.Add(time.Minute)}, 1, size)
	f.prune(history.Policy{CreatedBefore: start.Add(4 * time.Minute)}, 1, size)
	f.prune(history.Policy{CreatedBefore: start.Add(6 * time.Minute)}, 2, 2*size)
	f.wantSeqs("Messages()", f.all(f.k), 5)
}

func prunePairs(f *fixture) {
	f.addTools("", "a", "", "=a", "b", "=b", "open", "", "c", "=c")
	for _, test := range []struct{ keep, removed int64 }{{8, 1}, {7, 0}, {6, 3}, {5, 0}, {4, 2}, {2, 2}, {1, 0}} {
		f.prune(history.Policy{MaxMessages: test.keep}, test.removed, f.removes(test.removed))
	}
	f.wantSeqs("Messages()", f.all(f.k), 9, 10)
}

// removes returns the size of the oldest n messages.
func (f *fixture) removes(n int64) (size int64) {
	for _, m := range f.all(f.k)[:n] {
		size += int64(len(m.Body))
	}
	return size
}

func pruneMany(f *fixture) {
	for range 3 {
		f.append(f.k, history.AppendParams{Messages: number(history.MaxAppend)})
	}
	f.prune(history.Policy{MaxMessages: 600}, 2400, f.removes(2400))
	f.wantSeqs("Messages()", f.all(f.k), seqs(2401, 3000)...)
	f.prune(history.Policy{MaxMessages: 1}, 599, f.removes(599))
	f.prune(history.Policy{CreatedBefore: f.clock().Add(time.Hour * 9999)}, 1, f.removes(1))
	f.equal("Messages()", f.all(f.k), []history.Message{})
}
