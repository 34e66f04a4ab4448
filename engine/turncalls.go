package engine

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// callNumbers numbers the calls of a turn on records and contracts within their scope: the name of
// a step, or "" outside of steps. Callers of the methods hold Turn.mu, which guards the fields.
type callNumbers struct {
	next   map[string]int   // by scope
	newIDs map[idSeries]int // number of ids in each series
	// direct has the writes that are made at once and have no recorded result, by scope.
	direct map[string]*directWrite
}

// idSeries identifies the new ids of a kind in a scope.
type idSeries struct{ kind, scope string }

// take returns the number of the next call in a scope.
func (n *callNumbers) take(scope string) int {
	if n.next == nil {
		n.next = make(map[string]int)
	}
	n.next[scope]++
	return n.next[scope] - 1
}

// takeID returns the number of the next new id in a series, starting at 1.
func (n *callNumbers) takeID(series idSeries) int {
	if n.newIDs == nil {
		n.newIDs = make(map[idSeries]int)
	}
	n.newIDs[series]++
	return n.newIDs[series]
}

// turnRecords is the store.RecordUpdater of one operation of a handler. It is used by one
// goroutine.
type turnRecords struct {
	t *Turn
	// silent changes return no record and are committed with the next commit. Other changes are
	// committed before they return.
	silent bool
	// now is the time of the last call. A repeated call has the time of the recorded one.
	now time.Time
	// write is the write that the operation makes at once, nil if it makes none.
	write *directWrite
}

func newTurnRecords(t *Turn, silent bool) *turnRecords {
	return &turnRecords{t: t, silent: silent, now: store.Time(t.r.e.cfg.clock())}
}

func (u *turnRecords) clock() time.Time { return u.now }

// repeated returns the next recorded call of an earlier attempt on records, or nil. key is not
// checked for a list.
func (u *turnRecords) repeated(ctx context.Context, kind callKind, key store.RecordKey) (*callRecord, error) {
	return u.recorded(ctx, func(c *callRecord) bool {
		return c.Kind == kind && (kind == listCall || len(c.Records) == 0 || c.Records[0].record(key.Owner).Key == key)
	})
}

// recorded returns the next recorded call of an earlier attempt, or nil. It returns an error unless
// the call is the same.
func (u *turnRecords) recorded(ctx context.Context, same func(*callRecord) bool) (*callRecord, error) {
	t := u.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return nil, ErrEnded
	}
	scope := t.scopeOf(ctx).scopeName()
	if err := t.calls.direct[scope].refuses(u.write); err != nil {
		return nil, err
	}
	n := t.calls.next[scope]
	if t.earlier == nil || n >= len(t.earlier.calls[scope]) {
		u.reserve(scope)
		return nil, nil
	}
	t.calls.take(scope)
	c := &t.earlier.calls[scope][n]
	if !same(c) {
		return nil, a2a.Errorf(a2a.CodeInvalid, "call %d on the agent's data, such as its state, differs from the one of an earlier attempt; each attempt must make the same calls in the same order", n+1)
	}
	u.now = c.At
	return c, nil
}

// add adds a call to the next commit. do is called with output.mu held.
func (u *turnRecords) add(ctx context.Context, c *recordCall, do func(*pendingRecords)) error {
	t := u.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return ErrEnded
	}
	t.r.out.mu.Lock()
	defer t.r.out.mu.Unlock()
	if t.r.out.endErr != nil {
		return t.r.out.endErr
	}
	c.turn, c.scope, c.result.At = t.entry.Turn, t.scopeOf(ctx).scopeName(), u.now
	if d := t.calls.direct[c.scope]; d != u.write {
		return d.refuses(nil)
	}
	delete(t.calls.direct, c.scope)
	c.index = t.calls.take(c.scope)
	do(&t.r.out.records)
	if t.r.out.records.due() {
		t.r.out.startTimer()
	}
	return nil
}

// read returns a record with the changes of the turn.
func (u *turnRecords) read(ctx context.Context, key store.RecordKey) (store.Record, error) {
	u.t.r.out.mu.Lock()
	rec := u.t.r.out.records.byKey[key]
	if rec != nil {
		defer u.t.r.out.mu.Unlock()
		return rec.current, nil
	}
	u.t.r.out.mu.Unlock()
	var r store.Record
	err := u.t.r.stores.waitOut(ctx, "records.read", nil, func() (err error) {
		r, err = u.t.r.e.readRecord(ctx, key)
		return err
	})
	if err != nil {
		return r, u.t.r.stores.hide(err)
	}
	u.t.r.out.mu.Lock()
	defer u.t.r.out.mu.Unlock()
	u.t.r.out.records.known = r
	return r, nil
}

// base returns the record that a change is based on. The record may be outdated, unless update
// fails for it or changes nothing. change is the result of update, nil if base has not called it.
func (u *turnRecords) base(ctx context.Context, key store.RecordKey, update store.RecordUpdate) (r store.Record, change *store.RecordChange, err error) {
	u.t.r.out.mu.Lock()
	known := u.t.r.out.records.known
	pending := u.t.r.out.records.byKey[key] != nil
	u.t.r.out.mu.Unlock()
	if known.Key == key && !pending {
		if c, err := update(known); c != nil && err == nil {
			return known, c, nil
		}
	}
	r, err = u.read(ctx, key)
	return r, nil, err
}

// ReadRecord implements [store.RecordUpdater].
func (u *turnRecords) ReadRecord(ctx context.Context, key store.RecordKey) (store.Record, error) {
	if done, err := u.repeated(ctx, readCall, key); done != nil || err != nil {
		return u.result(done, key), err
	}
	r, err := u.read(ctx, key)
	if err != nil {
		return r, err
	}
	c := &recordCall{result: callRecord{Kind: readCall, Records: []recordValue{valueOf(r)}}}
	r.Value = slices.Clone(r.Value)
	return r, u.add(ctx, c, func(p *pendingRecords) { p.add(c) })
}

// Records implements [store.RecordUpdater]. It commits pending changes first.
func (u *turnRecords) Records(ctx context.Context, q store.RecordQuery) (page store.RecordPage, err error) {
	done, err := u.repeated(ctx, listCall, store.RecordKey{})
	if err != nil {
		return page, err
	}
	if done != nil {
		for i := range done.Records {
			page.Records = append(page.Records, done.Records[i].record(q.Owner))
		}
		page.More = done.More
		return page, nil
	}
	if err := u.commit(ctx); err != nil {
		return page, err
	}
	err = u.t.r.stores.waitOut(ctx, "records.list", nil, func() (err error) {
		page, err = u.t.r.e.cfg.Store.Records(ctx, q)
		return err
	})
	if err != nil {
		return page, u.t.r.stores.hide(err)
	}
	c := &recordCall{result: callRecord{Kind: listCall, More: page.More}}
	for _, r := range page.Records {
		c.result.Records = append(c.result.Records, valueOf(r))
	}
	return page, u.add(ctx, c, func(p *pendingRecords) { p.add(c) })
}

// commit commits pending changes of records.
func (u *turnRecords) commit(ctx context.Context) error {
	return u.commitIf(ctx, func(p *pendingRecords) bool { return p.changed() })
}

// commitReads commits the results of reads, so that a later attempt gets the same results. It is
// called before each write that is made at once: otherwise a later attempt could decide differently
// and make another call under the key of the write.
func (u *turnRecords) commitReads(ctx context.Context) error {
	return u.commitIf(ctx, func(p *pendingRecords) bool {
		p.written = p.written || p.reads > 0
		return p.reads > 0
	})
}

func (u *turnRecords) commitIf(ctx context.Context, needed func(*pendingRecords) bool) error {
	u.t.r.out.mu.Lock()
	commit := needed(&u.t.r.out.records)
	u.t.r.out.mu.Unlock()
	if !commit {
		return nil
	}
	return u.t.r.out.flush(ctx)
}

// result returns the record of a recorded call.
func (u *turnRecords) result(c *callRecord, key store.RecordKey) store.Record {
	if c == nil || len(c.Records) == 0 {
		return store.Record{Key: key}
	}
	return c.Records[0].record(key.Owner)
}

// UpdateRecord implements [store.RecordUpdater].
func (u *turnRecords) UpdateRecord(ctx context.Context, key store.RecordKey, update store.RecordUpdate) (store.Record, error) {
	kind := updateCall
	if u.silent {
		kind = silentCall
	}
	done, err := u.repeated(ctx, kind, key)
	if err != nil {
		return store.Record{}, err
	}
	if done != nil {
		r := u.result(done, key)
		if done.Failed {
			_, err = update(r)
		}
		return r, err
	}
	if err := u.t.r.ensureLease(ctx); err != nil {
		return store.Record{}, err
	}
	if err := context.Cause(ctx); err != nil {
		return store.Record{}, err
	}
	base, change, err := u.base(ctx, key, update)
	if err != nil {
		return store.Record{}, err
	}
	c := &recordCall{key: key, update: update, change: change, result: callRecord{Kind: kind}}
	if err := u.add(ctx, c, func(p *pendingRecords) { p.apply(c, base) }); err != nil {
		return store.Record{}, err
	}
	return u.wait(ctx, c)
}

// wait returns the result of a change after its commit.
func (u *turnRecords) wait(ctx context.Context, c *recordCall) (store.Record, error) {
	out := &u.t.r.out
	out.mu.Lock()
	failed := c.err != nil
	out.mu.Unlock()
	if !u.silent && !failed {
		if err := u.commit(ctx); err != nil {
			return store.Record{}, err
		}
	}
	out.mu.Lock()
	defer out.mu.Unlock()
	return u.result(&c.result, c.key), c.err
}
