package historytest

import (
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var restoreTests = []test{
	{"a restored session has the sequences, runs and times of the first one", restoreEqual},
	{"a session is restored in parts", restoreParts},
	{"messages are not restored before those that exist", restoreConflict},
	{"a session that has expired is not restored", restoreExpired},
	{"invalid messages are not restored", restoreInvalid},
}

// described returns the session with its messages.
func (f *fixture) described(k history.Key) (history.Session, []history.Message) {
	f.Helper()
	s := suite.Call(optional[history.SessionLister](f).Session(f.ctx, k)).Must(f, "Session()")
	return s, f.all(k)
}

// varied adds a session with gaps, runs, tool calls and a TTL.
func (f *fixture) varied() {
	f.Helper()
	calls := message("call")
	calls.ToolCalls = []string{"a", "b"}
	f.append(f.k, history.AppendParams{Messages: []history.Message{message("1"), calls}, TTL: time.Hour})
	f.append(f.k, history.AppendParams{Messages: messages("removed"), Run: "r1", Fence: 1})
	f.advance(time.Second)
	f.append(f.k, history.AppendParams{Messages: messages("4", "5"), Run: "r2", Fence: 7, IdempotencyKey: "k"})
	f.clearRun("r1", 2, 1)
}

func restoreEqual(f *fixture) {
	r := optional[history.Restorer](f)
	f.varied()
	s, all := f.described(f.k)
	s.Key.Session = "copy"
	suite.Do(r.Restore(f.ctx, s, all)).Must(f, "Restore()")
	got, copied := f.described(s.Key)
	f.equal("Session() of the copy", got, s)
	f.equal("Messages() of the copy", copied, all)
	// Neither fences nor idempotency keys are restored.
	f.append(s.Key, history.AppendParams{Messages: messages("6"), Run: "r2", Fence: 1, IdempotencyKey: "k"})
	f.wantSeqs("Messages() after an append", f.all(s.Key), 1, 2, 4, 5, 6)
	f.setsClock()
	f.advance(time.Hour - time.Second)
	suite.Call(f.p.Count(f.ctx, s.Key)).Want(f, 5, "Count() before the expiry")
	f.advance(time.Second)
	suite.Call(f.p.Count(f.ctx, s.Key)).Want(f, 0, "Count() after the TTL")
}

func restoreParts(f *fixture) {
	r := optional[history.Restorer](f)
	f.varied()
	s, all := f.described(f.k)
	s.Key.Session = "copy"
	for i := range all {
		suite.Do(r.Restore(f.ctx, s, all[i:i+1])).Must(f, "Restore() of message %d", i)
	}
	got, copied := f.described(s.Key)
	f.equal("Session() of the copy", got, s)
	f.equal("Messages() of the copy", copied, all)
}

func restoreConflict(f *fixture) {
	r := optional[history.Restorer](f)
	f.varied()
	s, all := f.described(f.k)
	suite.Do(r.Restore(f.ctx, s, all[1:])).Fails(f, history.ErrConflict, "Restore() to the session itself")
	got, copied := f.described(f.k)
	f.equal("Session()", got, s)
	f.equal("Messages()", copied, all)
}

func restoreExpired(f *fixture) {
	r := optional[history.Restorer](f)
	f.setsClock()
	f.varied()
	s, all := f.described(f.k)
	s.Key.Session = "copy"
	f.advance(2 * time.Hour)
	suite.Do(r.Restore(f.ctx, s, all)).Check(f, "Restore()")
	suite.Call(f.p.Count(f.ctx, s.Key)).Want(f, 0, "Count()")
	// A session of the same name that has expired is replaced.
	s.Key, s.CreatedAt, s.UpdatedAt, s.ExpiresAt = f.k, f.clock(), f.clock(), f.clock().Add(time.Hour)
	suite.Do(r.Restore(f.ctx, s, all)).Must(f, "Restore() over an expired session")
	got, copied := f.described(f.k)
	f.equal("Session()", got, s)
	f.equal("Messages()", copied, all)
}

func restoreInvalid(f *fixture) {
	r := optional[history.Restorer](f)
	f.varied()
	session, all := f.described(f.k)
	session.Key.Session = "copy"
	for name, change := range map[string]func(s *history.Session, m []history.Message) []history.Message{
		"no messages":      func(*history.Session, []history.Message) []history.Message { return nil },
		"no owner":         func(s *history.Session, m []history.Message) []history.Message { s.Key.Owner = ""; return m },
		"no creation time": func(s *history.Session, m []history.Message) []history.Message { s.CreatedAt = time.Time{}; return m },
		"an early expiry":  func(s *history.Session, m []history.Message) []history.Message { s.ExpiresAt = s.UpdatedAt; return m },
		"a message twice":  func(_ *history.Session, m []history.Message) []history.Message { return append(m, m[len(m)-1]) },
		"no sequence":      func(_ *history.Session, m []history.Message) []history.Message { m[0].Seq = 0; return m },
		"no time of a message": func(_ *history.Session, m []history.Message) []history.Message {
			m[1].CreatedAt = time.Time{}
			return m
		},
		"no JSON":        func(_ *history.Session, m []history.Message) []history.Message { m[1].Body = []byte("{"); return m },
		"a run with NUL": func(_ *history.Session, m []history.Message) []history.Message { m[1].Run = "\x00"; return m },
	} {
		s := session
		m := change(&s, append([]history.Message(nil), all...))
		suite.Do(r.Restore(f.ctx, s, m)).Rejected(f, a2a.CodeInvalid, "Restore() with %s", name)
	}
	suite.Call(f.p.Count(f.ctx, session.Key)).Want(f, 0, "Count()")
}
