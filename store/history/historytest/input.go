package historytest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var isolationTests = []test{
	{"a call changes only the session that it names", isolationChanges},
	{"names with special characters are different sessions", isolationNames},
}

var inputTests = []test{
	{"invalid params are rejected by name and change nothing", inputInvalid},
	{"the longest names and the largest body are stored", inputLimits},
	{"callers may modify what they pass and receive", inputAliasing},
	{"a call with a canceled context has no effect", inputCanceled},
}

func isolationChanges(f *fixture) {
	all := neighbors(f.k)
	for i, k := range all {
		f.append(k, history.AppendParams{Messages: number(i + 1), Run: "r", Fence: int64(i + 1), IdempotencyKey: "k"})
	}
	check := func(changed int64) {
		f.Helper()
		f.wantSeqs("Messages()", f.all(f.k), seqs(1, changed)...)
		for i, k := range all[1:] {
			f.wantSeqs(fmt.Sprintf("Messages(%v)", k), f.all(k), seqs(1, int64(i+2))...)
		}
	}
	check(1)
	f.append(f.k, history.AppendParams{Messages: number(1), Run: "gone", Fence: 9})
	check(2)
	f.clearRun("gone", 9, 1)
	check(1)
	f.append(f.k, history.AppendParams{Messages: number(1)})
	f.wantSeqs("Messages()", f.all(f.k), 1, 3)
	if e, ok := f.p.(history.Editor); ok {
		suite.Call(e.Rewind(f.ctx, f.k, 1)).Check(f, "Rewind()")
		check(1)
	}
	if p, ok := f.p.(history.Pruner); ok {
		suite.Call(p.Prune(f.ctx, f.k, history.Policy{CreatedBefore: f.clock().Add(time.Hour * 9999)})).Check(f, "Prune()")
		check(0)
	}
	suite.Do(f.p.Clear(f.ctx, f.k)).Check(f, "Clear()")
	check(0)
	for i, k := range all[1:] {
		r := f.append(k, history.AppendParams{Messages: number(1), Run: "r", Fence: int64(i + 2), IdempotencyKey: "k"})
		f.equal("Append() repeated", r, history.AppendResult{First: 1, Last: int64(i + 2), Repeated: true})
	}
}

// specialNames are valid names that a store might confuse.
var specialNames = []string{
	"a", "A", " a", "a ", "%", "_", "'", `"`, `\`, "a'b; --", "a/b", "a:b", "{a}", "a\nb", "\x01", "\u00e9", "e\u0301", "\u00df", "\U0001f600", "\U0010ffff", "$1", "?1", "null",
}

func isolationNames(f *fixture) {
	for i, name := range specialNames {
		for part, k := range []history.Key{{Owner: name, Agent: "x", Session: "x"}, {Owner: "x", Agent: name, Session: "x"}, {Owner: "x", Agent: "x", Session: name}} {
			f.append(k, history.AppendParams{Messages: messages(fmt.Sprint(part, i)), Run: name, Fence: 1, IdempotencyKey: name})
		}
	}
	for i, name := range specialNames {
		for part, k := range []history.Key{{Owner: name, Agent: "x", Session: "x"}, {Owner: "x", Agent: name, Session: "x"}, {Owner: "x", Agent: "x", Session: name}} {
			got := f.all(k)
			if len(got) != 1 || got[0].Run != name || string(got[0].Body) != fmt.Sprintf(`{"text":"%s"}`, fmt.Sprint(part, i)) {
				f.Errorf("Messages(%q) = %v, want its message", k, got)
			}
		}
	}
	if _, ok := f.p.(history.SessionLister); ok {
		f.k.Owner = "x"
		suite.Equal(f, len(f.sessions("", 7)), 2*len(specialNames), "Sessions()")
	}
}

// invalidCall is a call with an invalid param. field is part of its error.
type invalidCall struct {
	field string
	call  func() error
}

func inputInvalid(f *fixture) {
	calls := append(f.invalidAppends(), f.invalidReads()...)
	for _, c := range append(calls, f.invalidOptional()...) {
		if err := c.call(); a2a.CodeOf(err) != a2a.CodeInvalid || !strings.Contains(err.Error(), c.field) || !strings.HasPrefix(err.Error(), "history: ") {
			f.Errorf("call with invalid %s = %v, want an error with code invalid about it", c.field, err)
		}
	}
	f.equal("Messages()", f.all(f.k), []history.Message{})
}

func (f *fixture) invalidAppends() (calls []invalidCall) {
	appendWith := func(field string, change func(k *history.Key, p *history.AppendParams)) {
		k, p := f.k, history.AppendParams{Messages: number(3), Run: "r"}
		change(&k, &p)
		calls = append(calls, invalidCall{field, func() error { _, err := f.p.Append(f.ctx, k, p); return err }})
	}
	for _, name := range []string{"a\x00", "\xff", strings.Repeat("n", history.MaxName+1)} {
		appendWith("owner", func(k *history.Key, _ *history.AppendParams) { k.Owner = name })
		appendWith("agent", func(k *history.Key, _ *history.AppendParams) { k.Agent = name })
		appendWith("session", func(k *history.Key, _ *history.AppendParams) { k.Session = name })
		appendWith("run", func(_ *history.Key, p *history.AppendParams) { p.Run = name })
		appendWith("idempotency key", func(_ *history.Key, p *history.AppendParams) { p.IdempotencyKey = name })
		appendWith("message 1: role", func(_ *history.Key, p *history.AppendParams) { p.Messages[1].Role = name })
		appendWith("message 1: tool calls", func(_ *history.Key, p *history.AppendParams) { p.Messages[1].ToolCalls = []string{"a", name} })
		appendWith("message 2: tool results", func(_ *history.Key, p *history.AppendParams) { p.Messages[2].ToolResults = []string{name} })
	}
	appendWith("owner", func(k *history.Key, _ *history.AppendParams) { k.Owner = "" })
	appendWith("agent", func(k *history.Key, _ *history.AppendParams) { k.Agent = "" })
	appendWith("session", func(k *history.Key, _ *history.AppendParams) { k.Session = "" })
	appendWith("tool calls", func(_ *history.Key, p *history.AppendParams) { p.Messages[1].ToolCalls = []string{""} })
	appendWith("tool calls", func(_ *history.Key, p *history.AppendParams) {
		p.Messages[1].ToolCalls = strings.Split(strings.Repeat("a ", history.MaxToolIDs)+"a", " ")
	})
	appendWith("fence", func(_ *history.Key, p *history.AppendParams) { p.Fence = -1 })
	appendWith("fence", func(_ *history.Key, p *history.AppendParams) { p.Run, p.Fence = "", 1 })
	appendWith("expected sequence", func(_ *history.Key, p *history.AppendParams) { p.Expected = new(int64(-1)) })
	for _, ttl := range []time.Duration{-2, time.Microsecond, history.MaxTTL + 1} {
		appendWith("TTL", func(_ *history.Key, p *history.AppendParams) { p.TTL = ttl })
	}
	appendWith("messages", func(_ *history.Key, p *history.AppendParams) { p.Messages = nil })
	appendWith("messages", func(_ *history.Key, p *history.AppendParams) { p.Messages = number(history.MaxAppend + 1) })
	large := json.RawMessage(`"` + strings.Repeat("x", history.MaxBody-2) + `"`)
	appendWith("messages", func(_ *history.Key, p *history.AppendParams) {
		p.Messages = number(history.MaxAppendBytes/history.MaxBody + 1)
		for i := range p.Messages {
			p.Messages[i].Body = large
		}
	})
	for _, body := range []string{"", " ", "{", `{"a":1}}`, "\"\xff\"", "\"\x00\"", "nul", "'a'", string(large) + " "} {
		appendWith("message 2: body", func(_ *history.Key, p *history.AppendParams) { p.Messages[2].Body = []byte(body) })
	}
	appendWith("message 0: creation time", func(_ *history.Key, p *history.AppendParams) { p.Messages[0].CreatedAt = time.Unix(1<<40, 0) })
	return calls
}

func (f *fixture) invalidReads() []invalidCall {
	bad := f.k
	bad.Owner = "\x00"
	page := func(q history.Query) func() error {
		return func() error { _, err := f.p.Page(f.ctx, f.k, q); return err }
	}
	return []invalidCall{
		{"limit", page(history.Query{Limit: -1})},
		{"limit", page(history.Query{Limit: history.MaxPage + 1})},
		{"cursor", page(history.Query{After: -1})},
		{"cursor", page(history.Query{Before: -1})},
		{"owner", func() error { _, err := f.p.Page(f.ctx, bad, history.Query{}); return err }},
		{"owner", func() error { _, err := f.p.Messages(f.ctx, bad, 1, 0); return err }},
		{"limit", func() error { _, err := f.p.Messages(f.ctx, f.k, -1, 0); return err }},
		{"offset", func() error { _, err := f.p.Messages(f.ctx, f.k, 0, -1); return err }},
		{"owner", func() error { _, err := f.p.Count(f.ctx, bad); return err }},
		{"owner", func() error { return f.p.Clear(f.ctx, bad) }},
		{"owner", func() error { _, err := f.p.ClearRun(f.ctx, bad, "r", 0); return err }},
		{"run", func() error { _, err := f.p.ClearRun(f.ctx, f.k, "", 0); return err }},
		{"fence", func() error { _, err := f.p.ClearRun(f.ctx, f.k, "r", -1); return err }},
		{"limit", func() error { _, err := f.p.Expire(f.ctx, start, 0); return err }},
	}
}

func (f *fixture) invalidOptional() (calls []invalidCall) {
	bad := f.k
	bad.Session = ""
	if e, ok := f.p.(history.Editor); ok {
		fork := func(field string, p history.ForkParams) {
			calls = append(calls, invalidCall{field, func() error { _, err := e.Fork(f.ctx, p); return err }})
		}
		fork("session", history.ForkParams{From: bad, To: f.k})
		fork("session", history.ForkParams{From: f.k, To: bad})
		fork("sequence", history.ForkParams{From: f.k, To: f.k, Through: -1})
		fork("TTL", history.ForkParams{From: f.k, To: f.k, TTL: -1})
		calls = append(calls, invalidCall{"session", func() error { _, err := e.Rewind(f.ctx, bad, 1); return err }},
			invalidCall{"sequence", func() error { _, err := e.Rewind(f.ctx, f.k, -1); return err }})
	}
	if p, ok := f.p.(history.Pruner); ok {
		prune := func(field string, k history.Key, policy history.Policy) {
			calls = append(calls, invalidCall{field, func() error { _, err := p.Prune(f.ctx, k, policy); return err }})
		}
		prune("session", bad, history.Policy{MaxMessages: 1})
		prune("policy", f.k, history.Policy{})
		prune("policy", f.k, history.Policy{MaxBytes: -1, MaxMessages: 1})
	}
	if s, ok := f.p.(history.Searcher); ok {
		search := func(field string, q history.SearchQuery) {
			calls = append(calls, invalidCall{field, func() error { _, err := s.Search(f.ctx, q); return err }})
		}
		search("owner", history.SearchQuery{Text: "a"})
		search("agent", history.SearchQuery{Owner: "o", Session: "s", Text: "a"})
		search("agent", history.SearchQuery{Owner: "o", Agent: "\x00", Text: "a"})
		search("session", history.SearchQuery{Owner: "o", Agent: "a", Session: "\xff", Text: "a"})
		search("text", history.SearchQuery{Owner: "o"})
		search("text", history.SearchQuery{Owner: "o", Text: " \x00"})
		search("text", history.SearchQuery{Owner: "o", Text: "\xff"})
		search("text", history.SearchQuery{Owner: "o", Text: "%", Words: true})
		search("text", history.SearchQuery{Owner: "o", Text: strings.Repeat("a", history.MaxSearchQuery+1)})
		search("limit", history.SearchQuery{Owner: "o", Text: "a", Limit: -1})
		search("cursor: agent", history.SearchQuery{Owner: "o", Text: "a", Next: &history.SearchCursor{Agent: "\x00"}})
	}
	if l, ok := f.p.(history.SessionLister); ok {
		sessions := func(field string, q history.SessionQuery) {
			calls = append(calls, invalidCall{field, func() error { _, err := l.Sessions(f.ctx, q); return err }})
		}
		sessions("owner", history.SessionQuery{})
		sessions("agent", history.SessionQuery{Owner: "o", Agent: "\x00"})
		sessions("limit", history.SessionQuery{Owner: "o", Limit: history.MaxPage + 1})
		sessions("cursor: session", history.SessionQuery{Owner: "o", Next: &history.SessionCursor{Session: "\xff"}})
		calls = append(calls, invalidCall{"session", func() error { _, err := l.Session(f.ctx, bad); return err }})
	}
	return calls
}

func inputLimits(f *fixture) {
	name := strings.Repeat("\u00e9", history.MaxName/2)
	ids := make([]string, history.MaxToolIDs)
	for i := range ids {
		ids[i] = fmt.Sprintf("%d%s", i%10, name[2:])
	}
	k := history.Key{Owner: name, Agent: name, Session: name}
	body := json.RawMessage(`"` + strings.Repeat("\U0001f600", (history.MaxBody-2)/4) + `"`)
	p := history.AppendParams{
		Run: name, IdempotencyKey: name, Fence: 1, TTL: history.MaxTTL,
		Messages: []history.Message{{Body: body, Role: strings.Repeat("r", history.MaxRole), ToolCalls: ids, ToolResults: ids}},
	}
	f.append(k, p)
	got := f.all(k)
	if len(got) != 1 || !bytes.Equal(got[0].Body, body) || got[0].Run != name {
		f.Errorf("Messages() = %d messages, want the largest one", len(got))
	}
	f.equal("tool calls", got[0].ToolCalls, ids)
	f.equal("Append() repeated", f.append(k, p), history.AppendResult{First: 1, Last: 1, Repeated: true})
	suite.Call(f.p.ClearRun(f.ctx, k, name, 1)).Check(f, "ClearRun()")
}

func inputAliasing(f *fixture) {
	p := history.AppendParams{Messages: []history.Message{{Body: []byte(`"body"`), ToolCalls: []string{"a"}, ToolResults: []string{"b"}}}}
	scribble := func(all []history.Message) {
		for i := range all {
			copy(all[i].Body, "xxxxxx")
			all[i].ToolCalls[0], all[i].ToolResults[0] = "x", "x"
			all[i].Role = "x"
		}
	}
	f.append(f.k, p)
	want := f.all(f.k)
	scribble(p.Messages)
	f.equal("Messages() after the caller changed its params", f.all(f.k), want)
	scribble(f.all(f.k))
	scribble(f.page(history.Tail(1)).Messages)
	if _, ok := f.p.(history.Searcher); ok {
		scribble([]history.Message{f.search(history.SearchQuery{Owner: f.k.Owner, Text: "body"}).Hits[0].Message})
	}
	f.equal("Messages() after the caller changed results", f.all(f.k), want)
}

func inputCanceled(f *fixture) {
	f.append(f.k, history.AppendParams{Messages: number(2), Run: "r"})
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	to := f.k
	to.Session = "to"
	errs := map[string]error{
		"Append":   suite.Err(f.p.Append(ctx, f.k, history.AppendParams{Messages: number(1)})),
		"Messages": suite.Err(f.p.Messages(ctx, f.k, 0, 0)),
		"Page":     suite.Err(f.p.Page(ctx, f.k, history.Tail(1))),
		"Count":    suite.Err(f.p.Count(ctx, f.k)),
		"Clear":    f.p.Clear(ctx, f.k),
		"ClearRun": suite.Err(f.p.ClearRun(ctx, f.k, "r", 0)),
		"Expire":   suite.Err(f.p.Expire(ctx, start, 1)),
	}
	if e, ok := f.p.(history.Editor); ok {
		errs["Rewind"] = suite.Err(e.Rewind(ctx, f.k, 0))
		errs["Fork"] = suite.Err(e.Fork(ctx, history.ForkParams{From: f.k, To: to}))
	}
	if p, ok := f.p.(history.Pruner); ok {
		errs["Prune"] = suite.Err(p.Prune(ctx, f.k, history.Policy{MaxMessages: 1}))
	}
	if s, ok := f.p.(history.Searcher); ok {
		errs["Search"] = suite.Err(s.Search(ctx, history.SearchQuery{Owner: "owner", Text: "a"}))
	}
	if l, ok := f.p.(history.SessionLister); ok {
		errs["Session"] = suite.Err(l.Session(ctx, f.k))
		errs["Sessions"] = suite.Err(l.Sessions(ctx, history.SessionQuery{Owner: "owner"}))
	}
	suite.Canceled(f, errs)
	f.wantSeqs("Messages()", f.all(f.k), 1, 2)
	f.equal("Messages()", f.all(to), []history.Message{})
}
