package storetest

import (
	"errors"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var recordTests = []test{
	{"records are committed with their task", recordsCommit},
	{"a change with a conflicting record has no effect", recordsConflict},
	{"other reasons to reject a change precede a conflicting record", recordsPrecedence},
	{"changes of one call see the records of earlier ones", recordsInOrder},
	{"records are saved without a task, all or none", recordsSave},
	{"records are listed by namespace and key", recordsList},
	{"records have limits", recordsLimits},
	{"records belong to owners", recordsPerOwner},
	{"a change of a task changes records of the server", recordsOfSystem},
	{"records remain when their task and context are deleted", recordsRemain},
	{"one of concurrent changes of a record succeeds", recordsRace},
	{"records that expired before a time are removed, up to a limit", recordsExpire},
}

func valueChange(namespace, key string, version int64, value string) store.RecordChange {
	return store.RecordChange{Namespace: namespace, Key: key, Version: version, Value: []byte(value)}
}

func valueRemoval(namespace, key string, version int64) store.RecordChange {
	return store.RecordChange{Namespace: namespace, Key: key, Version: version, Delete: true}
}

func value(namespace, key string, version int64, text string) store.Record {
	return store.Record{Key: store.RecordKey{Owner: owner, Namespace: namespace, Key: key}, Version: version, Value: []byte(text)}
}

// values returns all records of an owner, read in pages of two.
func (f *fixture) values(owner, namespace string) (all []store.Record) {
	f.Helper()
	q := store.RecordQuery{Owner: owner, Namespace: namespace, Limit: 2}
	for {
		page, err := f.s.Records(f.ctx, q)
		if err != nil || len(page.Records) > q.Limit || page.More && len(page.Records) == 0 {
			f.Fatalf("Records(%+v) = %+v, %v", q, page, err)
		}
		all = append(all, page.Records...)
		if len(all) > 1000 {
			f.Fatalf("Records(%+v) has more than 1000 records, or its pages repeat", q)
		}
		if !page.More {
			return all
		}
		q.After = page.Records[len(page.Records)-1].Key
	}
}

func (f *fixture) saveValues(changes ...store.RecordChange) {
	f.Helper()
	suite.Do(f.s.SaveRecords(f.ctx, owner, changes...)).Must(f, "SaveRecords()")
}

func recordsCommit(f *fixture) {
	k := key("t1")
	c := newTask(k, "c1", at(0))
	c.Records = []store.RecordChange{valueChange("n", "a", 0, "1"), valueChange("n", "b", 0, "\x00\xff"), valueChange("n", "empty", 0, "")}
	f.commit(c)
	f.equal("Records()", f.values(owner, "n"), []store.Record{value("n", "a", 1, "1"), value("n", "b", 1, "\x00\xff"), value("n", "empty", 1, "")})
	c = changeAt(k, 1)
	c.Records = []store.RecordChange{valueChange("n", "a", 1, "2"), valueRemoval("n", "b", 1)}
	f.commit(c)
	got := suite.Call(f.s.Record(f.ctx, store.RecordKey{Owner: owner, Namespace: "n", Key: "a"})).Must(f, "Record()")
	f.equal("Record()", got, value("n", "a", 2, "2"))
	suite.Call(f.s.Record(f.ctx, store.RecordKey{Owner: owner, Namespace: "n", Key: "b"})).Fails(f, store.ErrNotFound, "Record() of a removed record")
	if f.h.Reopen != nil {
		f.s = f.h.Reopen(f, f.s)
	}
	f.equal("Records() after reopening", f.values(owner, "n"), []store.Record{value("n", "a", 2, "2"), value("n", "empty", 1, "")})
}

func recordsConflict(f *fixture) {
	f.saveValues(valueChange("n", "a", 0, "1"))
	k := key("t1")
	for _, r := range []store.RecordChange{valueChange("n", "a", 0, "2"), valueChange("n", "a", 2, "2"), valueRemoval("n", "a", 2), valueChange("n", "none", 1, "2"), valueRemoval("n", "none", 1)} {
		c := withKey(newTask(k, "c1", at(0)), "key", at(0))
		c.Records = []store.RecordChange{valueChange("n", "other", 0, "x"), r}
		f.wantRejected(store.ErrRecordConflict, c)
		f.wantNoTask(k)
		f.wantNoContext(owner, "c1")
		f.wantNoRecord(owner, "key")
	}
	f.create(k, at(0))
	c := changeAt(k, 1, statusEvent(at(1), a2a.StateWorking))
	c.Records = []store.RecordChange{valueChange("n", "a", 0, "2")}
	f.wantRejected(store.ErrRecordConflict, c)
	f.equal("version", f.task(k).Seq, int64(1))
	f.equal("Records()", f.values(owner, ""), []store.Record{value("n", "a", 1, "1")})
}

func recordsPrecedence(f *fixture) {
	k := key("t1")
	f.commit(withKey(newTask(k, "c1", at(0)), "key", at(0)))
	f.saveContext(store.ContextChange{Context: closedContext("closed"), Create: true})
	conflict := []store.RecordChange{valueChange("n", "none", 1, "")}
	for _, test := range []struct {
		want error
		c    store.Change
	}{
		{store.ErrDuplicate, withKey(newTask(key("t2"), "c1", at(0)), "key", at(0))},
		{store.ErrExists, newTask(k, "c1", at(0))},
		{store.ErrExists, newTask(k, "closed", at(0))},
		{store.ErrContextClosed, newTask(key("t2"), "closed", at(0))},
		{store.ErrNotFound, changeAt(key("t2"), 1)},
		{store.ErrConflict, changeAt(k, 2)},
		{store.ErrLeaseLost, changeUnder(k, worker, 1)},
		{store.ErrRecordConflict, changeAt(k, 1)},
	} {
		test.c.Records = conflict
		f.wantRejected(test.want, test.c)
	}
}

func closedContext(id string) store.Context {
	c := fullContext(owner, id, 0)
	c.Status = a2a.ContextArchived
	return c
}

func recordsInOrder(f *fixture) {
	k := key("t1")
	var changes []store.Change
	for i, r := range []store.RecordChange{
		valueChange("n", "a", 0, "1"), valueChange("n", "a", 1, "2"), valueChange("n", "a", 1, "conflict"), valueRemoval("n", "a", 2), valueChange("n", "a", 0, "3"),
	} {
		c := newTask(store.Key{Owner: owner, ID: k.ID + string(rune('a'+i))}, "c1", at(i))
		c.Records = []store.RecordChange{r}
		changes = append(changes, c)
	}
	for i, r := range f.commitResults(changes...) {
		if want := i == 2; errors.Is(r.Err, store.ErrRecordConflict) != want || r.Err != nil && !want {
			f.Errorf("Commit() of change %d = %v, want a record conflict: %t", i, r.Err, want)
		}
	}
	f.equal("Records()", f.values(owner, ""), []store.Record{value("n", "a", 1, "3")})
}

func recordsSave(f *fixture) {
	f.saveValues(valueChange("n", "a", 0, "1"), valueChange("m", "a", 0, "2"))
	f.saveValues(valueChange("n", "a", 1, "3"), valueRemoval("m", "a", 1), valueChange("m", "b", 0, "4"))
	want := []store.Record{value("m", "b", 1, "4"), value("n", "a", 2, "3")}
	f.equal("Records()", f.values(owner, ""), want)
	suite.Do(f.s.SaveRecords(f.ctx, owner, valueChange("x", "new", 0, ""), valueChange("n", "a", 1, "5"))).Fails(f, store.ErrRecordConflict, "SaveRecords()")
	f.equal("Records() after a conflict", f.values(owner, ""), want)
	f.saveValues(valueRemoval("m", "b", 1), valueRemoval("n", "a", 2))
	f.equal("Records() after removal", f.values(owner, ""), []store.Record{})
	f.saveValues()
}

func recordsList(f *fixture) {
	names := []string{"!", "B", "a", "a/b", "aa", "b", "\u00e9", "\U0001f600"} // in the order of their bytes
	var all []store.Record
	for _, namespace := range names[1:4] {
		for i := range names {
			name := names[(i*3)%len(names)]
			f.saveValues(valueChange(namespace, name, 0, name))
		}
		for _, name := range names {
			all = append(all, value(namespace, name, 1, name))
		}
	}
	f.equal("Records()", f.values(owner, ""), all)
	f.equal("Records() of a namespace", f.values(owner, "a"), all[len(names):2*len(names)])
	f.equal("Records() of no namespace", f.values(owner, "c"), []store.Record{})
	for _, q := range []store.RecordQuery{
		{Namespace: "a", After: store.RecordKey{Namespace: "B", Key: "b"}, Limit: 50},
		{Namespace: "a", After: store.RecordKey{Namespace: "a", Key: "zzz"}, Limit: 50},
		{Namespace: "a", After: store.RecordKey{Namespace: "a/b"}, Limit: 50},
	} {
		q.Owner = owner
		page, err := f.s.Records(f.ctx, q)
		want, _ := newModelWith(f, all).Records(f.ctx, q)
		if err != nil {
			f.Fatalf("Records(%+v) = %v", q, err)
		}
		f.equal("Records() after a key", page, want)
	}
}

// newModelWith returns a model with records.
func newModelWith(f *fixture, records []store.Record) *model {
	m := newModel()
	for _, r := range records {
		suite.Do(m.SaveRecords(f.ctx, r.Key.Owner, store.RecordChange{Namespace: r.Key.Namespace, Key: r.Key.Key, Value: r.Value})).Must(f, "SaveRecords() of the model")
	}
	return m
}

func recordsLimits(f *fixture) {
	longest := valueChange(strings.Repeat("n", store.MaxRecordNamespace), strings.Repeat("k", store.MaxRecordKey), 0, strings.Repeat("v", store.MaxRecordValue))
	f.saveValues(longest)
	if got := f.values(owner, ""); len(got) != 1 || len(got[0].Value) != store.MaxRecordValue {
		f.Errorf("Records() = %d records, want the one with the longest names and value", len(got))
	}
	for _, test := range []struct {
		part    string
		changes []store.RecordChange
	}{
		{"namespace", []store.RecordChange{valueChange("", "k", 0, "")}},
		{"namespace", []store.RecordChange{valueChange(longest.Namespace+"n", "k", 0, "")}},
		{"key", []store.RecordChange{valueChange("n", "", 0, "")}},
		{"key", []store.RecordChange{valueChange("n", longest.Key+"k", 0, "")}},
		{"key", []store.RecordChange{valueChange("n", "a\x00", 0, "")}},
		{"key", []store.RecordChange{valueChange("n", "a\xff", 0, "")}},
		{"value", []store.RecordChange{valueChange("n", "k", 0, string(longest.Value)+"v")}},
		{"version", []store.RecordChange{valueChange("n", "k", -1, "")}},
		{"version", []store.RecordChange{valueRemoval("n", "k", 0)}},
		{"twice", []store.RecordChange{valueChange("n", "k", 0, ""), valueChange("n", "k", 1, "")}},
	} {
		suite.Do(f.s.SaveRecords(f.ctx, owner, test.changes...)).Contains(f, test.part, "SaveRecords()")
		c := newTask(key("t1"), "c1", at(0))
		c.Records = test.changes
		suite.Do(suite.Err(f.s.Commit(f.ctx, c))).Contains(f, test.part, "Commit()")
	}
	f.wantNoTask(key("t1"))
}

func recordsPerOwner(f *fixture) {
	f.saveValues(valueChange("n", "a", 0, "mine"))
	theirs := store.RecordKey{Owner: otherOwner, Namespace: "n", Key: "a"}
	suite.Call(f.s.Record(f.ctx, theirs)).Fails(f, store.ErrNotFound, "Record() of another owner")
	f.equal("Records() of another owner", f.values(otherOwner, ""), []store.Record{})
	c := newTask(store.Key{Owner: otherOwner, ID: "t1"}, "c1", at(0))
	c.Records = []store.RecordChange{valueChange("n", "a", 0, "theirs")}
	f.commit(c)
	f.equal("Records()", f.values(owner, ""), []store.Record{value("n", "a", 1, "mine")})
	f.equal("Records() of another owner", f.values(otherOwner, ""), []store.Record{{Key: theirs, Version: 1, Value: []byte("theirs")}})
}

func recordsRemain(f *fixture) {
	for _, id := range []string{"t1", "t2"} {
		c := idleTask(key(id), "c1", 0, a2a.StateCompleted)
		c.Records = []store.RecordChange{valueChange("n", id, 0, id)}
		f.commit(c)
	}
	suite.Call(f.s.DeleteTask(f.ctx, key("t1"), false)).Must(f, "DeleteTask()")
	suite.Call(f.s.DeleteContext(f.ctx, owner, "c1", 9)).Must(f, "DeleteContext()")
	want := []store.Record{value("n", "t1", 1, "t1"), value("n", "t2", 1, "t2")}
	f.equal("Records()", f.values(owner, ""), want)
	f.saveValues(valueRemoval("n", "t1", 1), valueRemoval("n", "t2", 1))
	f.equal("Records() after removal", f.values(owner, ""), []store.Record{})
}

func recordsExpire(f *fixture) {
	expiring := func(key string, version int64, expires time.Time) store.RecordChange {
		c := valueChange("n", key, version, key)
		c.Expires = expires
		return c
	}
	c := newTask(key("t1"), "c1", at(0))
	c.Records = []store.RecordChange{expiring("a", 0, at(1)), expiring("b", 0, at(2)), expiring("kept", 0, time.Time{}), expiring("later", 0, at(1))}
	f.commit(c)
	f.saveValues(expiring("c", 0, at(3).Add(time.Microsecond)), expiring("cleared", 0, at(1)))
	f.saveValues(expiring("later", 1, at(9)), expiring("cleared", 1, time.Time{}))
	expires := func(r store.Record, at time.Time) store.Record { r.Expires = at; return r }
	all := []store.Record{
		expires(value("n", "a", 1, "a"), at(1)), expires(value("n", "b", 1, "b"), at(2)), expires(value("n", "c", 1, "c"), at(3)),
		value("n", "cleared", 2, "cleared"), value("n", "kept", 1, "kept"), expires(value("n", "later", 2, "later"), at(9)),
	}
	f.equal("Records()", f.values(owner, "n"), all)
	for _, call := range []struct{ ms, limit, removed int }{{1, 9, 0}, {4, 0, 0}, {2, 9, 1}, {4, 1, 1}, {4, 9, 1}, {4, 9, 0}} {
		suite.Call(f.s.ExpireRecords(f.ctx, at(call.ms), call.limit)).Want(f, call.removed, "ExpireRecords(%d ms, %d)", call.ms, call.limit)
	}
	if f.h.Reopen != nil {
		f.s = f.h.Reopen(f, f.s)
	}
	f.equal("Records() after the expiry", f.values(owner, "n"), all[3:])
	f.saveValues(valueRemoval("n", "later", 2))
	suite.Call(f.s.ExpireRecords(f.ctx, at(99), 9)).Want(f, 0, "ExpireRecords() after a removal")
}

// Concurrent increments of one counter, half of them with a task, lose no increment.
func recordsRace(f *fixture) {
	const workers, each = 4, 8
	f.saveValues(valueChange("n", "a", 0, ""))
	k := store.RecordKey{Owner: owner, Namespace: "n", Key: "a"}
	suite.Concurrently(workers, func(w int) {
		for n := 0; n < each; {
			r, err := f.s.Record(f.ctx, k)
			if err != nil {
				f.Errorf("Record() = %v", err)
				return
			}
			change := valueChange("n", "a", r.Version, string(r.Value)+"x")
			if w%2 == 0 {
				err = f.s.SaveRecords(f.ctx, owner, change)
			} else {
				c := newTask(key(strings.Repeat("t", 1+w)+strings.Repeat("n", n)), "c1", at(0))
				c.Records = []store.RecordChange{change}
				var results []store.Result
				if results, err = f.s.Commit(f.ctx, c); err == nil {
					err = results[0].Err
				}
			}
			switch {
			case err == nil:
				n++
			case !errors.Is(err, store.ErrRecordConflict):
				f.Errorf("change of a record = %v, want nil or ErrRecordConflict", err)
				return
			}
		}
	})
	f.equal("Records()", f.values(owner, ""), []store.Record{value("n", "a", 1+workers*each, strings.Repeat("x", workers*each))})
}

// recordChanges returns changes of records that the model often accepts.
func recordsOfSystem(f *fixture) {
	k := key("t1")
	own, system := valueChange("n", "a", 0, "owner's"), valueChange("n", "a", 0, "server's")
	system.System = true
	c := newTask(k, "c1", at(0))
	c.Records = []store.RecordChange{own, system}
	f.commit(c)
	stored := value("n", "a", 1, "server's")
	stored.Key.Owner = store.System
	check := func() {
		f.equal("Records()", f.values(owner, ""), []store.Record{value("n", "a", 1, "owner's")})
		f.equal("Records() of the server", f.values(store.System, ""), []store.Record{stored})
	}
	check()
	own.Version = 1
	c = changeAt(k, 1, statusEvent(at(1), a2a.StateWorking))
	c.Records = []store.RecordChange{own, system}
	f.wantRejected(store.ErrRecordConflict, c)
	check()
	system.Version, system.Delete = 1, true
	c.Records = []store.RecordChange{own, system}
	f.commit(c)
	f.equal("Records()", f.values(owner, ""), []store.Record{value("n", "a", 2, "owner's")})
	f.equal("Records() of the server", f.values(store.System, ""), []store.Record{})
}

func (r *randomRun) recordChanges(owner string) (changes []store.RecordChange) {
	for i := range r.pick("records", 3) {
		c := valueChange(rapid.SampledFrom([]string{"n", "m"}).Draw(r.t, "namespace"), string(rune('a'+2*i))+r.key().ID, 0, string(rune('0'+r.pick("value", 3))))
		c.System = r.oneIn("system", 4)
		at, err := r.want.Record(r.ctx, c.Record(owner))
		c.Version = at.Version
		c.Delete = err == nil && r.oneIn("delete", 4)
		if r.oneIn("expires", 3) {
			c.Expires = r.time()
		}
		if r.oneIn("wrong version", 6) {
			c.Version++
		}
		changes = append(changes, c)
	}
	return changes
}

func (r *randomRun) callRecords() {
	owner := r.key().Owner
	if r.oneIn("system", 4) {
		owner = store.System
	}
	if r.oneIn("list", 2) {
		q := store.RecordQuery{Owner: owner, Namespace: rapid.SampledFrom([]string{"", "m", "n"}).Draw(r.t, "namespace"), Limit: 1 + r.pick("limit", 3)}
		if r.oneIn("after", 2) {
			q.After = store.RecordKey{Namespace: rapid.SampledFrom([]string{"m", "n"}).Draw(r.t, "after"), Key: string(rune('a' + r.pick("key", 5)))}
		}
		compareCalls(r, "Records()", func(s store.Store) (store.RecordPage, error) { return s.Records(r.ctx, q) })
		return
	}
	if before := r.time(); r.oneIn("expire", 5) { // all, since the contract does not define which ones a limit selects
		compareCalls(r, "ExpireRecords()", func(s store.Store) (int, error) { return s.ExpireRecords(r.ctx, before, 100) })
		return
	}
	changes := r.recordChanges(owner)
	compareCalls(r, "SaveRecords()", func(s store.Store) (struct{}, error) {
		return struct{}{}, s.SaveRecords(r.ctx, owner, changes...)
	})
}
