package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobsql"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historysql"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorysql"
	"github.com/holdfast-dev/holdfast/store/suite"
)

// The tests of effects append to transcripts of the store. They skip a store without such effects.
var effectTests = []test{
	{"effects are applied with their change", effectsApply},
	{"effects of a rejected change are not applied", effectsRejected},
	{"a failing effect rejects its change with all effects", effectsFail},
	{"a failing effect rejects no other change of the call", effectsFailOne},
	{"changes of one call see the effects of earlier ones", effectsInOrder},
	{"effects of another store are rejected", effectsForeign},
	{"effects clear sessions and runs", effectsClear},
	{"an effect that repeats an append changes nothing", effectsRepeat},
	{"an effect appends to an expired session", effectsExpired},
	{"effects save and delete facts, all or none", effectsFacts},
	{"effects pin, unpin and delete blobs, all or none", effectsBlobs},
	{"concurrent changes with effects lose and repeat nothing", effectsConcurrent},
}

var session = history.Key{Owner: owner, Agent: "agent", Session: "session"}

// historyOf returns the transcripts of a store, nil if it has none with effects.
func historyOf(s store.Store) history.Provider {
	h := historysql.Of(s)
	if _, ok := h.(history.Transactional); ok {
		return h
	}
	return nil
}

// history returns the transcripts of the store.
func (f *fixture) history() history.Provider {
	f.Helper()
	h := historyOf(f.s)
	if h == nil {
		f.Skipf("store has no transcripts with effects")
	}
	return h
}

// effect returns an effect or fails the test.
func (f *fixture) effect(e store.Effect, err error) store.Effect {
	f.Helper()
	if err != nil {
		f.Fatalf("effect: %v, want nil", err)
	}
	return e
}

// appends returns an effect that appends texts to the session.
func (f *fixture) appends(texts ...string) store.Effect {
	f.Helper()
	return f.effect(appendEffect(f.history(), session, texts...))
}

func appendEffect(h history.Provider, k history.Key, texts ...string) (store.Effect, error) {
	return h.(history.Transactional).AppendEffect(k, appendParams(texts...))
}

func appendParams(texts ...string) (p history.AppendParams) {
	p.Run = "run"
	for _, t := range texts {
		p.Messages = append(p.Messages, history.Message{Body: fmt.Appendf(nil, "%q", t)})
	}
	return p
}

// fails returns an effect that fails with history.ErrConflict.
func (f *fixture) fails() store.Effect {
	f.Helper()
	p := appendParams("never")
	p.Expected = new(int64)
	*p.Expected = 1000
	return f.effect(f.history().(history.Transactional).AppendEffect(session, p))
}

// wantTexts checks the messages of the session.
func (f *fixture) wantTexts(want ...string) {
	f.Helper()
	f.equal("messages", f.texts(session), append([]string{}, want...))
}

func (f *fixture) texts(k history.Key) []string {
	f.Helper()
	messages := suite.Call(f.history().Messages(f.ctx, k, 0, 0)).Must(f, "Messages()")
	texts := []string{}
	for _, m := range messages {
		texts = append(texts, strings.Trim(string(m.Body), `"`))
	}
	return texts
}

// withEffects returns a change with effects.
func withEffects(c store.Change, effects ...store.Effect) store.Change {
	c.Effects = effects
	return c
}

func effectsApply(f *fixture) {
	k := key("t1")
	c := withKey(newTask(k, "c1", at(0)), "key", at(0))
	c.Records = []store.RecordChange{valueChange("n", "a", 0, "1")}
	f.commit(withEffects(c, f.appends("a", "b"), f.appends("c")))
	f.wantTexts("a", "b", "c")
	f.equal("Records()", f.values(owner, ""), []store.Record{value("n", "a", 1, "1")})
	f.commit(withEffects(changeAt(k, 1), f.appends("without events")))
	f.commit(withEffects(changeAt(k, 1, statusEvent(at(1), a2a.StateWorking)), f.appends("with events")))
	f.wantTexts("a", "b", "c", "without events", "with events")
	f.equal("version", f.task(k).Seq, int64(2))
	f.claim(store.ClaimParams{Worker: worker, Now: at(9), Until: at(99), Limit: 1, Event: statusEvent(at(9), a2a.StateWorking)})
	held := f.task(k).Queue.Lease
	done := changeUnder(k, worker, held.Fence, statusEvent(at(10), a2a.StateCompleted))
	done.Queue = &store.QueueEntry{Phase: store.PhaseIdle, Lease: store.Lease{Fence: held.Fence}}
	f.commit(withEffects(done, f.appends("under a lease")))
	f.wantTexts("a", "b", "c", "without events", "with events", "under a lease")
	if f.h.Reopen != nil {
		f.s = f.h.Reopen(f, f.s)
		f.wantTexts("a", "b", "c", "without events", "with events", "under a lease")
	}
}

func effectsRejected(f *fixture) {
	k := key("t1")
	e := f.appends("never")
	f.commit(withKey(newTask(k, "c1", at(0)), "key", at(0)))
	f.saveContext(store.ContextChange{Context: closedContext("closed"), Create: true})
	unread := changeAt(k, 1)
	unread.Seen = 1
	f.commit(changeAt(k, 1, clientMessage(at(1), "m2")))
	unread.Version = 2
	conflict := changeAt(k, 2, statusEvent(at(2), a2a.StateWorking))
	conflict.Records = []store.RecordChange{valueChange("n", "none", 1, "")}
	newConflict := newTask(key("t2"), "c2", at(0))
	newConflict.Records = conflict.Records
	for _, test := range []struct {
		want error
		c    store.Change
	}{
		{store.ErrDuplicate, withKey(newTask(key("t2"), "c1", at(0)), "key", at(0))},
		{store.ErrExists, newTask(k, "c1", at(0))},
		{store.ErrExists, newTask(k, "closed", at(0))},
		{store.ErrContextClosed, withKey(newTask(key("t2"), "closed", at(0)), "new", at(0))},
		{store.ErrNotFound, changeAt(key("t2"), 1)},
		{store.ErrConflict, changeAt(k, 1)},
		{store.ErrLeaseLost, changeUnder(k, worker, 1)},
		{store.ErrUnread, unread},
		{store.ErrRecordConflict, conflict},
		{store.ErrRecordConflict, newConflict},
	} {
		f.wantRejected(test.want, withEffects(test.c, e))
		f.wantRejected(test.want, withEffects(test.c, e, f.fails())) // the other reason precedes
	}
	f.wantTexts()
	f.equal("version", f.task(k).Seq, int64(2))
	f.wantNoTask(key("t2"))
	f.wantNoRecord(owner, "new")
}

// wantEffectError applies a change that must be rejected because an effect failed.
func (f *fixture) wantEffectError(index int, want error, c store.Change) {
	f.Helper()
	r := f.wantRejected(want, c)
	var e *store.EffectError
	if !errors.As(r.Err, &e) || e.Index != index {
		f.Errorf("Commit() = %v, want an EffectError of effect %d", r.Err, index)
	}
}

func effectsFail(f *fixture) {
	k := key("t1")
	c := withKey(newTask(k, "c1", at(0)), "key", at(0))
	c.Records = []store.RecordChange{valueChange("n", "a", 0, "1")}
	f.wantEffectError(1, history.ErrConflict, withEffects(c, f.appends("lost"), f.fails()))
	f.wantEffectError(0, history.ErrConflict, withEffects(c, f.fails(), f.appends("lost")))
	f.wantTexts()
	f.wantNoTask(k)
	f.wantNoContext(owner, "c1")
	f.wantNoRecord(owner, "key")
	f.equal("Records()", f.values(owner, ""), []store.Record{})
	f.commit(withEffects(c, f.appends("a")))
	f.wantTexts("a")
	change := withKey(changeAt(k, 1, statusEvent(at(1), a2a.StateWorking)), "second", at(1))
	change.Steps = []store.Step{step(1, "s", "result")}
	change.Records = []store.RecordChange{valueChange("n", "a", 1, "2")}
	change.Queue = &store.QueueEntry{Phase: store.PhaseQueued, Turn: 7}
	before := f.task(k)
	f.wantEffectError(2, history.ErrConflict, withEffects(change, f.appends("lost"), f.appends("lost"), f.fails()))
	f.equal("Task()", f.task(k), before)
	f.equal("Steps()", f.steps(k, 1), []store.Step{})
	f.equal("Records()", f.values(owner, ""), []store.Record{value("n", "a", 1, "1")})
	f.wantNoRecord(owner, "second")
	f.commit(withEffects(change, f.appends("b")))
	f.wantTexts("a", "b")
	f.equal("sequence of the newest message", f.newest(), int64(2))
}

// newest returns the sequence of the session's newest message.
func (f *fixture) newest() int64 {
	f.Helper()
	page, err := f.history().Page(f.ctx, session, history.Tail(1))
	if err != nil || len(page.Messages) != 1 {
		f.Fatalf("Page() = %+v, %v, want a message", page, err)
	}
	return page.Messages[0].Seq
}

func effectsFailOne(f *fixture) {
	k := key("t2")
	results := f.commitResults(
		withEffects(newTask(key("t1"), "c1", at(0)), f.appends("a")),
		withEffects(newTask(k, "c2", at(0)), f.appends("lost"), f.fails()),
		withEffects(changeAt(k, 1), f.appends("lost")),
		newTask(key("t3"), "c1", at(0)),
		withEffects(newTask(key("t4"), "c1", at(0)), f.appends("b")),
	)
	for i, want := range []error{nil, history.ErrConflict, store.ErrNotFound, nil, nil} {
		if !errors.Is(results[i].Err, want) {
			f.Errorf("Commit() of change %d = %v, want %v", i, results[i].Err, want)
		}
	}
	f.wantTexts("a", "b")
	f.wantNoTask(k)
	f.wantNoContext(owner, "c2")
	f.equal("version", f.task(key("t3")).Seq, int64(1))
}

func effectsInOrder(f *fixture) {
	var changes []store.Change
	for i := range 5 {
		p := appendParams(fmt.Sprint(i))
		expected := int64(i)
		p.Expected = &expected
		c := newTask(key(fmt.Sprint("t", 9-i)), "c1", at(i))
		changes = append(changes, withEffects(c, f.effect(f.history().(history.Transactional).AppendEffect(session, p))))
	}
	f.commit(changes...)
	f.wantTexts("0", "1", "2", "3", "4")
}

func effectsForeign(f *fixture) {
	other := newFixture(f, f.h)
	c := newTask(key("t1"), "c1", at(0))
	f.wantRejected(store.ErrForeignEffect, withEffects(c, f.appends("lost"), other.appends("lost")))
	f.wantTexts()
	other.wantTexts()
	f.wantNoTask(key("t1"))
}

func effectsClear(f *fixture) {
	t := f.history().(history.Transactional)
	mine := appendParams("mine")
	mine.Run = "mine"
	f.commit(withEffects(newTask(key("t1"), "c1", at(0)), f.appends("a"), f.effect(t.AppendEffect(session, mine)), f.appends("b")))
	clearRun, clearAll := f.effect(t.ClearRunEffect(session, "mine", 0)), f.effect(t.ClearEffect(session))
	f.wantEffectError(2, history.ErrConflict, withEffects(changeAt(key("t1"), 1), clearRun, clearAll, f.fails()))
	f.wantTexts("a", "mine", "b")
	f.commit(withEffects(changeAt(key("t1"), 1), clearRun))
	f.wantTexts("a", "b")
	f.wantEffectError(1, history.ErrConflict, withEffects(changeAt(key("t1"), 1), clearAll, f.fails()))
	f.commit(withEffects(changeAt(key("t1"), 1), clearAll))
	f.wantTexts()
	f.commit(withEffects(changeAt(key("t1"), 1), f.appends("c"), clearAll, f.appends("d"), clearAll, f.appends("e")))
	f.wantTexts("e")
	f.equal("sequence of the newest message", f.newest(), int64(1))
}

func effectsRepeat(f *fixture) {
	t := f.history().(history.Transactional)
	p := appendParams("once")
	p.Run, p.Fence, p.IdempotencyKey = "fenced", 7, "key"
	once := f.effect(t.AppendEffect(session, p))
	f.commit(withEffects(newTask(key("t1"), "c1", at(0)), once, f.appends("a"), once))
	f.commit(withEffects(changeAt(key("t1"), 1), once))
	f.wantTexts("once", "a")
	old := appendParams("old")
	old.Run, old.Fence = "fenced", 6
	f.wantEffectError(1, history.ErrFenced, withEffects(changeAt(key("t1"), 1), f.appends("lost"), f.effect(t.AppendEffect(session, old))))
	f.wantTexts("once", "a")
	suite.Call(t.AppendEffect(session, history.AppendParams{})).Rejected(f, a2a.CodeInvalid, "AppendEffect() without messages")
}

func effectsExpired(f *fixture) {
	h := f.history()
	for i, idempotencyKey := range []string{"", "key"} {
		old := appendParams("old")
		old.TTL = time.Millisecond
		suite.Call(h.Append(f.ctx, session, old)).Must(f, "Append()")
		time.Sleep(20 * time.Millisecond) // stores of this suite have the clock of the system
		p := appendParams("new")
		p.IdempotencyKey, p.TTL = idempotencyKey, history.NoTTL
		f.commit(withEffects(newTask(key(fmt.Sprint("t", i)), "c1", at(0)), f.effect(h.(history.Transactional).AppendEffect(session, p))))
		f.wantTexts("new")
		f.equal("sequence of the newest message", f.newest(), int64(1))
		suite.Do(h.Clear(f.ctx, session)).Must(f, "Clear()")
	}
}

func effectsFacts(f *fixture) {
	f.history()
	facts := memorysql.Of(f.s, memory.LongTermConfig{})
	t := facts.(memory.Transactional)
	scope := memory.Scope{Owner: owner, Agent: "agent"}
	found := func() []string {
		f.Helper()
		all := suite.Call(facts.Search(f.ctx, scope, memory.SearchParams{})).Must(f, "Search()")
		texts := make([]string, len(all.Facts))
		for i, m := range all.Facts {
			texts[i] = fmt.Sprint(m.Content, " ", m.Version)
		}
		return texts
	}
	save := func(content string) store.Effect {
		return f.effect(t.SaveEffect(f.ctx, scope, content, memory.SaveParams{Key: "color"}))
	}
	k := key("t1")
	f.wantEffectError(2, history.ErrConflict, withEffects(newTask(k, "c1", at(0)), save("lost"), f.effect(t.SaveEffect(f.ctx, scope, "lost", memory.SaveParams{})), f.fails()))
	f.equal("facts", found(), []string{})
	f.commit(withEffects(newTask(k, "c1", at(0)), save("red"), save("green")))
	f.equal("facts", found(), []string{"green 2"})
	all, err := facts.Search(f.ctx, scope, memory.SearchParams{})
	if err != nil || len(all.Facts) != 1 {
		f.Fatalf("Search() = %+v, %v", all, err)
	}
	remove := f.effect(t.DeleteEffect(scope, all.Facts[0].ID))
	f.wantEffectError(3, history.ErrConflict, withEffects(changeAt(k, 1), save("blue"), remove, save("lost"), f.fails()))
	f.equal("facts", found(), []string{"green 2"})
	f.commit(withEffects(changeAt(k, 1), save("blue"), remove, remove))
	f.equal("facts", found(), []string{})
	suite.Call(t.SaveEffect(f.ctx, scope, "", memory.SaveParams{})).Rejected(f, a2a.CodeInvalid, "SaveEffect() without content")
}

func effectsBlobs(f *fixture) {
	f.history()
	blobs := blobsql.Of(f.s, blob.Config{})
	info := suite.Call(blobs.Put(f.ctx, strings.NewReader("content"), blob.PutParams{Owner: owner})).Must(f, "Put()")
	holders := func() []string {
		f.Helper()
		info := suite.Call(blobs.Stat(f.ctx, owner, info.Ref)).Must(f, "Stat()")
		return append([]string{}, info.Holders...)
	}
	k := key("t1")
	pin, unpin := f.effect(blobs.PinEffect(owner, info.Ref, "task")), f.effect(blobs.UnpinEffect(owner, info.Ref, "task"))
	remove := f.effect(blobs.DeleteEffect(owner, info.Ref))
	f.wantEffectError(1, history.ErrConflict, withEffects(newTask(k, "c1", at(0)), pin, f.fails()))
	f.equal("holders", holders(), []string{})
	f.commit(withEffects(newTask(k, "c1", at(0)), pin, pin))
	f.equal("holders", holders(), []string{"task"})
	f.wantEffectError(2, history.ErrConflict, withEffects(changeAt(k, 1), unpin, remove, f.fails()))
	f.equal("holders", holders(), []string{"task"})
	f.commit(withEffects(changeAt(k, 1), unpin, unpin))
	f.equal("holders", holders(), []string{})
	f.commit(withEffects(changeAt(k, 1), remove, remove, unpin))
	suite.Call(blobs.Stat(f.ctx, owner, info.Ref)).Fails(f, blob.ErrNotFound, "Stat() of a deleted blob")
	f.wantEffectError(0, blob.ErrNotFound, withEffects(changeAt(k, 1), pin))
	suite.Call(blobs.PinEffect(owner, info.Ref, "")).Rejected(f, a2a.CodeInvalid, "PinEffect() without a holder")
}

func effectsConcurrent(f *fixture) {
	const writers, changes = 8, 10
	h := f.history()
	other := session
	other.Session = "other"
	suite.Concurrently(writers, func(w int) {
		sessions := []history.Key{session, other}
		if w%2 == 0 { // the opposite order
			sessions = []history.Key{other, session}
		}
		for n := range changes {
			c := newTask(key(fmt.Sprintf("w%d-n%d", w, n)), "c1", at(n))
			for _, k := range sessions {
				c.Effects = append(c.Effects, f.effect(appendEffect(h, k, c.Key.ID)))
			}
			results, err := f.s.Commit(context.WithoutCancel(f.ctx), c)
			if err != nil || results[0].Err != nil {
				f.Errorf("Commit() = %+v, %v, want nil", results, err)
			}
		}
	})
	for _, k := range []history.Key{session, other} {
		seen := make(map[string]bool)
		for _, text := range f.texts(k) {
			seen[text] = true
		}
		if n := len(f.texts(k)); n != writers*changes || len(seen) != n {
			f.Errorf("session %s has %d messages, %d different ones, want %d", k.Session, n, len(seen), writers*changes)
		}
	}
}

// durableEffects checks that effects are preserved with their changes.
func durableEffects(f *fixture, reopen func()) {
	f.commit(withEffects(newTask(key("t1"), "c1", at(0)), f.appends("a")))
	f.commit(withEffects(changeAt(key("t1"), 1, statusEvent(at(1), a2a.StateWorking)), f.appends("b")))
	f.wantEffectError(1, history.ErrConflict, withEffects(changeAt(key("t1"), 2), f.appends("lost"), f.fails()))
	reopen()
	f.wantTexts("a", "b")
	f.equal("version", f.task(key("t1")).Seq, int64(2))
	f.commit(withEffects(changeAt(key("t1"), 2), f.appends("c")))
	f.wantTexts("a", "b", "c")
}
