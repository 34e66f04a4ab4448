package historytest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var appendTests = []test{
	{"messages are returned as they were appended", appendKeepsMessages},
	{"sequences are consecutive", appendSequences},
	{"an append of more messages than a statement inserts is complete", appendMany},
	{"the expected sequence must be the newest message's", appendExpected},
	{"a repeated append returns the first result", appendRepeated},
	{"an idempotency key belongs to a session", appendKeyPerSession},
	{"an older attempt of a run is fenced", appendFenced},
	{"a repeated append raises the fence", appendRepeatedFence},
	{"fences precede idempotency keys, which precede expected sequences", appendPrecedence},
	{"ClearRun removes the messages of one run", clearRun},
	{"ClearRun fences earlier attempts, also before the first append", clearRunFences},
	{"ClearRun forgets idempotency keys of the run", clearRunKeys},
	{"Clear removes the session with fences and keys", clearSession},
}

func appendKeepsMessages(f *fixture) {
	want := history.Message{
		Seq: 1, Run: "run", Role: "assistant", CreatedAt: time.Date(1999, 12, 31, 23, 59, 59, 999e6, time.UTC),
		Body:      json.RawMessage("{ \"b\":1.50, \"a\":\"\\u0000 \u00e9 \U0001f600\",\n\"a\":[] }"),
		ToolCalls: []string{"call \"1\"", "%_'"}, ToolResults: []string{"call 0"},
	}
	sent := want
	sent.Seq, sent.Run, sent.CreatedAt = 77, "ignored", want.CreatedAt.Add(999*time.Microsecond).In(time.FixedZone("zone", 3600))
	plain := history.Message{Body: json.RawMessage("null")}
	f.append(f.k, history.AppendParams{Run: "run", Messages: []history.Message{sent, plain}})
	got := suite.Len(f, f.all(f.k), 2, "Messages()")
	f.equal("Messages()[0]", got[0], want)
	if at := got[1].CreatedAt; !f.h.OwnClock && !at.Equal(start) || at.IsZero() {
		f.Errorf("CreatedAt = %v, want the time of the clock, %v", at, start)
	}
	plain.Seq, plain.Run, plain.CreatedAt = 2, "run", got[1].CreatedAt
	f.equal("Messages()[1]", got[1], plain)
}

func appendSequences(f *fixture) {
	f.equal("Append()", f.append(f.k, history.AppendParams{Messages: number(1)}), history.AppendResult{First: 1, Last: 1})
	f.equal("Append()", f.append(f.k, history.AppendParams{Messages: number(3)}), history.AppendResult{First: 2, Last: 4})
	other := f.k
	other.Session = "other"
	f.equal("Append() to another session", f.append(other, history.AppendParams{Messages: number(2)}), history.AppendResult{First: 1, Last: 2})
	f.wantSeqs("Messages()", f.all(f.k), seqs(1, 4)...)
}

func appendMany(f *fixture) {
	for _, n := range []int{7, 8, 9, 63, 64, 65, 72, 137, history.MaxAppend} {
		k := f.k
		k.Session = fmt.Sprint(n)
		f.append(k, history.AppendParams{Messages: number(n)})
		got := f.all(k)
		f.wantSeqs("Messages()", got, seqs(1, int64(n))...)
		for i, m := range got {
			if string(m.Body) != fmt.Sprintf(`{"text":"%d"}`, i+1) {
				f.Fatalf("body of message %d of %d = %s", i+1, n, m.Body)
			}
		}
	}
}

func (f *fixture) wantConflict(expected, newest int64) {
	f.Helper()
	_, err := f.p.Append(f.ctx, f.k, history.AppendParams{Messages: number(1), Expected: &expected})
	var conflict *history.ConflictError
	if !errors.Is(err, history.ErrConflict) || !errors.As(err, &conflict) || conflict.Newest != newest || conflict.Expected != expected || a2a.CodeOf(err) != a2a.CodeConflict {
		f.Errorf("Append() with expected sequence %d = %v, want a conflict with %d", expected, err, newest)
	}
}

func appendExpected(f *fixture) {
	f.wantConflict(1, 0)
	f.equal("Messages()", f.all(f.k), []history.Message{})
	for i := range int64(3) {
		f.append(f.k, history.AppendParams{Messages: number(2), Expected: new(2 * i)})
		f.wantConflict(2*i, 2*i+2)
		f.wantConflict(2*i+1, 2*i+2)
		f.wantConflict(2*i+3, 2*i+2)
	}
	f.wantSeqs("Messages()", f.all(f.k), seqs(1, 6)...)
	f.append(f.k, history.AppendParams{Messages: number(1), Run: "r"})
	suite.Call(f.p.ClearRun(f.ctx, f.k, "r", 0)).Must(f, "ClearRun()")
	f.wantConflict(7, 6)
	f.equal("Append() after a removal", f.append(f.k, history.AppendParams{Messages: number(1), Expected: new(int64(6))}), history.AppendResult{First: 8, Last: 8})
}

func appendRepeated(f *fixture) {
	p := history.AppendParams{Messages: number(3), IdempotencyKey: "key %_'", Expected: new(int64(0))}
	f.equal("Append()", f.append(f.k, p), history.AppendResult{First: 1, Last: 3})
	f.add("between")
	p.Messages = messages("different")
	for range 2 {
		f.equal("Append() repeated", f.append(f.k, p), history.AppendResult{First: 1, Last: 3, Repeated: true})
	}
	p.IdempotencyKey, p.Expected = "key", nil
	f.equal("Append() with another key", f.append(f.k, p), history.AppendResult{First: 5, Last: 5})
	f.wantSeqs("Messages()", f.all(f.k), seqs(1, 5)...)
}

func appendKeyPerSession(f *fixture) {
	for _, k := range neighbors(f.k) {
		r := f.append(k, history.AppendParams{Messages: number(1), IdempotencyKey: "key"})
		f.equal("Append()", r, history.AppendResult{First: 1, Last: 1})
	}
}

// neighbors returns keys that differ in one part.
func neighbors(k history.Key) []history.Key {
	return []history.Key{
		k,
		{Owner: k.Owner + "2", Agent: k.Agent, Session: k.Session},
		{Owner: k.Owner, Agent: k.Agent + "2", Session: k.Session},
		{Owner: k.Owner, Agent: k.Agent, Session: k.Session + "2"},
		{Owner: k.Owner, Agent: k.Session, Session: k.Agent},
	}
}

// wantFenced checks that an append is rejected.
func (f *fixture) wantFenced(p history.AppendParams) {
	f.Helper()
	p.Messages = messages("fenced")
	if r, err := f.p.Append(f.ctx, f.k, p); !errors.Is(err, history.ErrFenced) || r != (history.AppendResult{}) {
		f.Errorf("Append(run %q, fence %d) = %+v, %v, want ErrFenced", p.Run, p.Fence, r, err)
	}
}

func appendFenced(f *fixture) {
	add := func(run string, fence int64) {
		f.Helper()
		f.append(f.k, history.AppendParams{Messages: number(1), Run: run, Fence: fence})
	}
	add("r", 0)
	add("r", 5)
	add("r", 5)
	f.wantFenced(history.AppendParams{Run: "r", Fence: 4})
	f.wantFenced(history.AppendParams{Run: "r"})
	add("other", 1)
	add("", 0)
	add("r", 1<<62)
	f.wantFenced(history.AppendParams{Run: "r", Fence: 5})
	f.wantSeqs("Messages()", f.all(f.k), seqs(1, 6)...)
	suite.Call(f.p.ClearRun(f.ctx, f.k, "r", 5)).Fails(f, history.ErrFenced, "ClearRun() with an older fence")
	suite.Call(f.p.ClearRun(f.ctx, f.k, "other", 1)).Check(f, "ClearRun() with the same fence")
	f.wantSeqs("Messages()", f.all(f.k), 1, 2, 3, 5, 6)
}

func appendRepeatedFence(f *fixture) {
	p := history.AppendParams{Messages: number(1), Run: "r", Fence: 1, IdempotencyKey: "k"}
	f.append(f.k, p)
	p.Fence = 2
	f.equal("Append() repeated", f.append(f.k, p), history.AppendResult{First: 1, Last: 1, Repeated: true})
	f.wantFenced(history.AppendParams{Run: "r", Fence: 1})
}

func appendPrecedence(f *fixture) {
	f.append(f.k, history.AppendParams{Messages: number(1), Run: "r", Fence: 2, IdempotencyKey: "k"})
	f.wantFenced(history.AppendParams{Run: "r", Fence: 1, IdempotencyKey: "k", Expected: new(int64(9))})
	r := f.append(f.k, history.AppendParams{Messages: number(1), Run: "r", Fence: 2, IdempotencyKey: "k", Expected: new(int64(9))})
	f.equal("Append() repeated", r, history.AppendResult{First: 1, Last: 1, Repeated: true})
	suite.Call(f.p.Append(f.ctx, f.k, history.AppendParams{Messages: number(1), Run: "r", Fence: 9, Expected: new(int64(9))})).Fails(f, history.ErrConflict, "Append()")
	// A rejected append has no effect, so it does not raise the fence.
	f.append(f.k, history.AppendParams{Messages: number(1), Run: "r", Fence: 2})
}

func (f *fixture) clearRun(run string, fence, want int64) {
	f.Helper()
	suite.Call(f.p.ClearRun(f.ctx, f.k, run, fence)).Want(f, want, "ClearRun(%q)", run)
}

func clearRun(f *fixture) {
	f.clearRun("r", 0, 0)
	for i, run := range []string{"r", "", "s", "r", "s ", "r"} {
		f.append(f.k, history.AppendParams{Messages: number(1 + i%2), Run: run})
	}
	f.clearRun("r", 0, 5)
	f.clearRun("r", 0, 0)
	f.wantSeqs("Messages()", f.all(f.k), 2, 3, 4, 7)
	f.clearRun("s", 0, 1)
	f.equal("Append()", f.append(f.k, history.AppendParams{Messages: number(1), Run: "r"}), history.AppendResult{First: 10, Last: 10})
	f.wantSeqs("Messages()", f.all(f.k), 2, 3, 7, 10)
	for _, m := range f.all(f.k)[:2] {
		suite.Equal(f, m.Run, "", "run of message %d", m.Seq)
	}
}

func clearRunFences(f *fixture) {
	f.clearRun("r", 2, 0)
	f.wantFenced(history.AppendParams{Run: "r", Fence: 1})
	f.equal("Append()", f.append(f.k, history.AppendParams{Messages: number(1), Run: "r", Fence: 2, Expected: new(int64(0))}), history.AppendResult{First: 1, Last: 1})
	f.clearRun("r", 3, 1)
	f.wantFenced(history.AppendParams{Run: "r", Fence: 2})
	f.wantFenced(history.AppendParams{Run: "r", Fence: 0})
	f.append(f.k, history.AppendParams{Messages: number(1), Run: "r", Fence: 3})
	f.wantSeqs("Messages()", f.all(f.k), 2)
}

func clearRunKeys(f *fixture) {
	p := history.AppendParams{Messages: number(2), Run: "r", IdempotencyKey: "k"}
	other := history.AppendParams{Messages: number(1), Run: "other", IdempotencyKey: "other"}
	f.append(f.k, p)
	f.append(f.k, other)
	f.clearRun("r", 0, 2)
	f.equal("Append()", f.append(f.k, p), history.AppendResult{First: 4, Last: 5})
	f.equal("Append() of another run", f.append(f.k, other), history.AppendResult{First: 3, Last: 3, Repeated: true})
}

func clearSession(f *fixture) {
	suite.Do(f.p.Clear(f.ctx, f.k)).Check(f, "Clear() of no session")
	p := history.AppendParams{Messages: number(history.MaxAppend), Run: "r", Fence: 9, IdempotencyKey: strings.Repeat("k", history.MaxName)}
	f.append(f.k, p)
	f.append(f.k, history.AppendParams{Messages: number(5)})
	suite.Do(f.p.Clear(f.ctx, f.k)).Check(f, "Clear()")
	f.equal("Messages()", f.all(f.k), []history.Message{})
	p.Fence, p.Messages = 1, number(1)
	f.equal("Append() after Clear()", f.append(f.k, p), history.AppendResult{First: 1, Last: 1})
}
