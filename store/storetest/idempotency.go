package storetest

import (
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

// Tests of steps and idempotency records.

var stepTests = []test{
	{"steps are read back per turn in order", stepsPerTurn},
	{"an existing step is replaced at its position", stepsReplaced},
	{"an absent task has no steps", stepsAbsent},
	{"a step's result may be empty", stepsEmptyResult},
	{"artifacts of steps are read back", stepsKeepArtifacts},
}

var idempotencyTests = []test{
	{"a record contains the version after its change", recordSeq},
	{"a duplicate returns the existing record", recordDuplicate},
	{"a key can be used once within one call", recordTwiceInCall},
	{"owners have separate keys", recordPerOwner},
	{"records from before a time expire, up to a limit", recordExpiry},
}

func step(turn int, name, result string) store.Step {
	return store.Step{Turn: turn, Name: name, Result: []byte(result)}
}

func stepsPerTurn(f *fixture) {
	k := key("t1")
	c := newTask(k, "c1", at(0))
	c.Steps = []store.Step{step(1, "z", "first"), step(1, "a", "second"), step(2, "z", "of another turn")}
	f.commit(c)
	c = changeAt(k, 1)
	c.Steps = []store.Step{step(1, "m", "third")}
	f.commit(c)
	c = changeAt(k, 1, statusEvent(at(1), a2a.StateWorking))
	c.Steps = []store.Step{step(2, "a", "second"), step(1, "b", "fourth")}
	f.commit(c)
	f.equal("Steps() of turn 1", f.steps(k, 1), []store.Step{step(1, "z", "first"), step(1, "a", "second"), step(1, "m", "third"), step(1, "b", "fourth")})
	f.equal("Steps() of turn 2", f.steps(k, 2), []store.Step{step(2, "z", "of another turn"), step(2, "a", "second")})
	f.equal("Steps() of turn 3", f.steps(k, 3), []store.Step{})
}

func stepsReplaced(f *fixture) {
	k := key("t1")
	c := newTask(k, "c1", at(0))
	c.Steps = []store.Step{step(1, "a", "1"), step(1, "b", "2"), step(1, "c", "3"), step(1, "c", "4")}
	f.commit(c)
	c = changeAt(k, 1)
	c.Steps = []store.Step{step(1, "a", "5"), step(2, "b", "6")}
	f.commit(c)
	f.equal("Steps()", f.steps(k, 1), []store.Step{step(1, "a", "5"), step(1, "b", "2"), step(1, "c", "4")})
}

func stepsKeepArtifacts(f *fixture) {
	k := key("t1")
	c := newTask(k, "c1", at(0))
	a, b, d := step(1, "a", "1"), step(1, "b", "2"), step(1, "d", "")
	a.Artifacts, d.Artifacts = []byte(`{"a1":3}`), []byte("\x00\xff\xfe")
	c.Steps = []store.Step{a, b, d}
	f.commit(c)
	f.equal("Steps()", f.steps(k, 1), []store.Step{a, b, d})
	a.Artifacts, b.Artifacts = nil, []byte(`{"a2":1}`)
	c = changeAt(k, 1)
	c.Steps = []store.Step{a, b}
	f.commit(c)
	f.equal("Steps() after a replacement", f.steps(k, 1), []store.Step{a, b, d})
}

func stepsAbsent(f *fixture) {
	f.equal("Steps()", f.steps(key("none"), 1), []store.Step{})
}

func stepsEmptyResult(f *fixture) {
	c := newTask(key("t1"), "c1", at(0))
	c.Steps = []store.Step{{Turn: 1, Name: "none"}, step(1, "empty", ""), step(1, "binary", "\x00\xff\xfe")}
	f.commit(c)
	f.equal("Steps()", f.steps(key("t1"), 1), c.Steps)
}

func recordSeq(f *fixture) {
	k := key("t1")
	f.commit(withKey(newTask(k, "c1", at(0)), "create", at(1)))
	second := withKey(changeAt(k, 1, statusEvent(at(1), a2a.StateWorking), statusEvent(at(2), a2a.StateWorking)), "more", at(2))
	second.Idempotency.Seq = 99
	f.commit(second)
	f.commit(withKey(changeAt(k, 3), "quiet", at(3)))
	if second.Idempotency.Seq != 99 {
		f.Errorf("Commit() modified the record of its argument")
	}
	for _, want := range []struct {
		key string
		seq int64
		ms  int
	}{{"create", 1, 1}, {"more", 3, 2}, {"quiet", 3, 3}} {
		f.equal("Idempotency()", f.record(owner, want.key), store.IdempotencyRecord{
			Owner: owner, Key: want.key, Hash: [32]byte{1, 2, 255}, TaskID: "t1", Seq: want.seq, CreatedAt: at(want.ms),
		})
	}
	f.wantNoRecord(owner, "none")
	f.wantNoRecord(owner, "")
}

func recordDuplicate(f *fixture) {
	k := key("t1")
	f.commit(withKey(newTask(k, "c1", at(0)), "key", at(1)))
	f.commit(changeAt(k, 1, statusEvent(at(1), a2a.StateWorking)))
	again := withKey(newTask(key("t2"), "c2", at(5)), "key", at(9))
	again.Idempotency.Hash = [32]byte{9}
	r := f.wantRejected(store.ErrDuplicate, again)
	want := f.record(owner, "key")
	f.equal("Result.Record", r.Record, &want)
	if want.Seq != 1 || want.TaskID != "t1" || want.Hash != [32]byte{1, 2, 255} {
		f.Errorf("Idempotency() = %+v, want the record of the first change", want)
	}
	f.wantNoTask(key("t2"))
	f.wantNoContext(owner, "c2")
}

func recordTwiceInCall(f *fixture) {
	results := f.commitResults(
		withKey(changeAt(key("none"), 1), "key", at(0)),
		withKey(newTask(key("t1"), "c1", at(0)), "key", at(1)),
		withKey(newTask(key("t2"), "c1", at(0)), "key", at(2)),
		withKey(newTask(key("t3"), "c1", at(0)), "other key", at(2)),
	)
	var errs []error
	for _, r := range results {
		errs = append(errs, r.Err)
	}
	f.equal("Commit() errors", fmt.Sprint(errs), fmt.Sprint([]error{store.ErrNotFound, nil, store.ErrDuplicate, nil}))
	if r := results[2].Record; r == nil || r.TaskID != "t1" || r.Seq != 1 {
		f.Errorf("Result.Record = %+v, want the record of t1", r)
	}
	f.wantNoTask(key("t2"))
}

func recordPerOwner(f *fixture) {
	f.commit(withKey(newTask(key("t1"), "c1", at(0)), "key", at(0)))
	f.wantNoRecord(otherOwner, "key")
	theirs := store.Key{Owner: otherOwner, ID: "t9"}
	f.commit(withKey(newTask(theirs, "c1", at(0)), "key", at(0)))
	suite.Equal(f, f.record(otherOwner, "key").TaskID, "t9", "Idempotency().TaskID")
	suite.Equal(f, f.record(owner, "key").TaskID, "t1", "Idempotency().TaskID")
}

func recordExpiry(f *fixture) {
	for i := range 10 {
		o := []string{owner, otherOwner}[i%2]
		f.commit(withKey(newTask(store.Key{Owner: o, ID: fmt.Sprint("t", i)}, "c1", at(0)), fmt.Sprint("k", i), at(i)))
	}
	left := func() int {
		n := 0
		for i := range 10 {
			if _, err := f.s.Idempotency(f.ctx, []string{owner, otherOwner}[i%2], fmt.Sprint("k", i)); err == nil {
				n++
			} else if !errors.Is(err, store.ErrNotFound) {
				f.Errorf("Idempotency() = %v, want ErrNotFound", err)
			}
		}
		return n
	}
	for _, call := range []struct{ ms, limit, removed, left int }{
		{0, 10, 0, 10}, {6, 0, 0, 10}, {6, 4, 4, 6}, {6, 4, 2, 4}, {6, 4, 0, 4}, {100, 3, 3, 1},
	} {
		suite.Call(f.s.ExpireIdempotency(f.ctx, at(call.ms), call.limit)).Want(f, call.removed, "ExpireIdempotency(%d ms, %d)", call.ms, call.limit)
		if got := left(); got != call.left {
			f.Errorf("ExpireIdempotency(%d ms, %d) leaves %d records, want %d", call.ms, call.limit, got, call.left)
		}
	}
	f.task(key("t0"))
	f.commit(withKey(changeAt(key("t0"), 1), "k0", at(50)))
}
