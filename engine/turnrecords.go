package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// Changes of records by a handler are part of the commits of its turn, like its writes to other
// contracts (see turncontract.go). Calls are numbered in the order in which the handler makes them,
// within each step and outside of steps. A commit that changes something also stores a step with
// the results of these calls and of earlier ones. A later attempt returns the stored results
// instead of repeating the calls.

const (
	// callsPrefix is the start of the name of a step that records calls. Steps of handlers have
	// other names.
	callsPrefix = "\x01"
	// maxCallBytes is the size of results above which a commit stores them without a change.
	maxCallBytes = 1 << 20
	// maxRecordConflicts is the number of conflicts after which a commit pauses.
	maxRecordConflicts = 20
)

// recordCall is a call by a handler that is not committed.
type recordCall struct {
	turn   int
	scope  string
	index  int // number of calls in the scope before it
	result callRecord

	key    store.RecordKey
	update store.RecordUpdate // nil for a read, and for a change that failed
	err    error              // of the update
	// change is the result of the update for the record that it is applied to first, nil if unknown.
	change *store.RecordChange

	effects []store.Effect // to be committed
	size    int            // of the effects in bytes
	written bool           // to a store outside of the agent's database
}

// callRecord is the stored form of a call.
type callRecord struct {
	Kind callKind `json:"kind" wire:"required"`
	// At is the time of the call, which expiry is based on.
	At time.Time `json:"at" wire:"required"`
	// Failed is set if the change failed. Records then has the record that it failed for,
	// otherwise the result.
	Failed  bool          `json:"failed,omitempty"`
	Records []recordValue `json:"records,omitempty"`
	More    bool          `json:"more,omitempty"`
	// Op names the operation on a contract other than records, and Data is its result as JSON. If it
	// failed, Data is a callFailure.
	Op   string `json:"op,omitempty"`
	Data []byte `json:"data,omitempty"`
}

type callKind string

const (
	readCall   callKind = "read"
	listCall   callKind = "list"
	updateCall callKind = "update"
	// silentCall is a change without a result for the handler.
	silentCall callKind = "silent"
	// queryCall and writeCall are calls on contracts other than records.
	queryCall callKind = "query"
	writeCall callKind = "write"
)

// recordValue is the stored form of a record.
type recordValue struct {
	Namespace string    `json:"namespace"`
	Key       string    `json:"key"`
	Version   int64     `json:"version,omitempty"`
	Value     []byte    `json:"value,omitempty"`
	Expires   time.Time `json:"expires,omitempty"`
}

func valueOf(r store.Record) recordValue {
	return recordValue{Namespace: r.Key.Namespace, Key: r.Key.Key, Version: r.Version, Value: r.Value, Expires: r.Expires}
}

func (v *recordValue) record(owner string) store.Record {
	k := store.RecordKey{Owner: owner, Namespace: v.Namespace, Key: v.Key}
	return store.Record{Key: k, Version: v.Version, Value: slices.Clone(v.Value), Expires: v.Expires}
}

// callsRow is the content of a step that records calls.
type callsRow struct {
	Scope string       `json:"scope,omitempty"`
	First int          `json:"first,omitempty"` // index of the first call in the scope
	Calls []callRecord `json:"calls" wire:"required"`
}

// addCalls adds the calls of a stored step. Steps are in the order of their commits.
func (e *earlierAttempts) addCalls(s *store.Step) error {
	var row callsRow
	if err := wire.Unmarshal(s.Result, &row); err != nil {
		return fmt.Errorf("calls on records: %w", err)
	}
	if known := len(e.calls[row.Scope]); row.First != known {
		return fmt.Errorf("calls on records of step %s: stored ones start at %d, want %d", a2a.Quote(row.Scope), row.First, known)
	}
	e.calls[row.Scope] = append(e.calls[row.Scope], row.Calls...)
	return nil
}

// pendingRecords are the calls on records and contracts since the last commit. output.mu guards the
// fields.
type pendingRecords struct {
	calls []*recordCall
	byKey map[store.RecordKey]*pendingRecord
	bytes int // of results
	// effects is the number of effects of the calls, and size their bytes. reads is the number of
	// calls that returned data or an error to the handler. written requires a commit of the calls
	// even without a change, because a call has written to a store outside of the agent's database,
	// or a call is about to.
	effects, size, reads int
	written              bool
	// known is the record that the turn has read or changed last, as it was in the store. A
	// change that is based on it saves a read; the commit detects if it is outdated.
	known  store.Record
	failed error // a change failed for the current record after its call had returned, or an effect failed
}

// changed reports whether a commit has something to change.
func (p *pendingRecords) changed() bool { return len(p.byKey) > 0 || p.effects > 0 }

// due reports whether the calls should be committed soon.
func (p *pendingRecords) due() bool { return p.changed() || p.written || p.bytes > maxCallBytes }

// pendingRecord is a record with changes that are not committed.
type pendingRecord struct {
	base, current store.Record // as stored, and with the changes
	writes        []*recordCall
}

// recordCommit is a commit of the oldest pending calls.
type recordCommit struct {
	calls   int
	changes []store.RecordChange
	after   map[store.RecordKey]store.Record // the changed records
	steps   []store.Step
	effects []store.Effect
}

func (p *pendingRecords) add(c *recordCall) {
	p.calls = append(p.calls, c)
	p.count(c)
}

func (p *pendingRecords) count(c *recordCall) {
	p.effects += len(c.effects)
	p.size += c.size
	p.written = p.written || c.written
	if k := c.result.Kind; k != silentCall && k != writeCall || c.result.Failed {
		p.reads++
	}
	p.bytes += len(c.result.Data)
	for i := range c.result.Records {
		p.bytes += len(c.result.Records[i].Value)
	}
}

// apply adds a change of a record. base is the stored form of the record, unless changes are
// pending. An error of the update is part of the call.
func (p *pendingRecords) apply(c *recordCall, base store.Record) {
	if p.byKey == nil {
		p.byKey = make(map[store.RecordKey]*pendingRecord)
	}
	rec := p.byKey[c.key]
	if rec == nil {
		rec = &pendingRecord{base: base, current: base}
	} else {
		c.change = nil
	}
	if rec.apply(c) {
		p.byKey[c.key] = rec
	}
	p.add(c)
}

// apply applies a change to the record and sets the call's result. It reports whether the
// record changed.
func (rec *pendingRecord) apply(c *recordCall) bool {
	change, err := c.change, error(nil)
	if c.change = nil; change == nil {
		change, err = c.update(rec.current)
	}
	c.err = err
	if c.result.Failed = err != nil; err != nil || change == nil {
		c.update = nil
		c.result.Records = []recordValue{valueOf(rec.current)}
		return false
	}
	if rec.current = rec.base.After(change); change.Delete {
		rec.current.Version = 0
	}
	rec.writes = append(rec.writes, c)
	c.result.Records = nil
	if c.result.Kind != silentCall {
		c.result.Records = []recordValue{valueOf(rec.current)}
	}
	return true
}

// rebase applies the pending changes of a record to another base. If a change fails after its call
// has returned, rebase sets failed.
func (p *pendingRecords) rebase(key store.RecordKey, base store.Record, writes []*recordCall) {
	rec := &pendingRecord{base: base, current: base}
	delete(p.byKey, key)
	for _, c := range writes {
		if rec.apply(c) {
			p.byKey[key] = rec
		} else if c.result.Kind == silentCall && c.err != nil {
			p.failed = c.err
		}
	}
}

// commit returns the changes, effects and steps to commit, nothing if they can wait. last reports
// that the turn ends with the commit, so that no later attempt reads the calls.
func (p *pendingRecords) commit(last bool) (out recordCommit, err error) {
	if p.failed != nil || !p.changed() && (last || !p.due()) {
		return out, p.failed
	}
	out.calls, out.after = len(p.calls), make(map[store.RecordKey]store.Record, len(p.byKey))
	for _, c := range p.calls {
		out.effects = append(out.effects, c.effects...)
	}
	for k, rec := range p.byKey {
		out.after[k] = rec.current
		c := store.RecordChange{
			Namespace: k.Namespace, Key: k.Key, Version: rec.base.Version, Value: rec.current.Value, Expires: rec.current.Expires, Delete: rec.current.Version == 0,
		}
		if !c.Delete || c.Version > 0 {
			out.changes = append(out.changes, c)
		}
	}
	if !last {
		out.steps, err = callSteps(p.calls)
	}
	return out, err
}

// callSteps returns the steps that record calls, one for each scope.
func callSteps(calls []*recordCall) (steps []store.Step, err error) {
	var rows []*callsRow
	for _, c := range calls {
		i := slices.IndexFunc(rows, func(row *callsRow) bool { return row.Scope == c.scope })
		if i < 0 {
			i = len(rows)
			rows = append(rows, &callsRow{Scope: c.scope, First: c.index})
		}
		rows[i].Calls = append(rows[i].Calls, c.result)
	}
	for _, row := range rows {
		result, err := wire.Marshal(row)
		if err != nil {
			return nil, err
		}
		name := strings.Join([]string{"", row.Scope, strconv.Itoa(row.First)}, callsPrefix)
		steps = append(steps, store.Step{Turn: calls[0].turn, Name: name, Result: result})
	}
	return steps, nil
}

// committed removes the calls of a successful commit.
func (p *pendingRecords) committed(c recordCommit) {
	if c.calls > len(p.calls) {
		return // an aborted run has dropped them
	}
	done := p.calls[:c.calls]
	p.calls, p.bytes, p.effects, p.size, p.reads, p.written = slices.Clone(p.calls[c.calls:]), 0, 0, 0, 0, false
	for _, later := range p.calls {
		p.count(later)
	}
	for k, after := range c.after {
		if after.Version > 0 {
			p.known = after
		}
		rec := p.byKey[k]
		if rec == nil {
			continue
		}
		later := slices.DeleteFunc(rec.writes, func(w *recordCall) bool { return slices.Contains(done, w) })
		p.rebase(k, after, later)
	}
}

// rebaseRecords reads the records that have pending changes and applies the changes again. The
// caller holds l.commit.
func (o *output) rebaseRecords() error {
	for _, k := range o.changedRecords() {
		base, err := o.hub.readRecord(context.WithoutCancel(o.ctx), k)
		if err != nil {
			return err
		}
		o.mu.Lock()
		if rec := o.records.byKey[k]; rec != nil {
			o.records.rebase(k, base, rec.writes)
		}
		o.mu.Unlock()
	}
	return nil
}

// changedRecords returns the keys of the records that the next commit changes, in order.
func (o *output) changedRecords() []store.RecordKey {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.SortedFunc(maps.Keys(o.records.byKey), func(a, b store.RecordKey) int {
		return cmp.Or(cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Key, b.Key))
	})
}

// lockRecords locks the records that the next commit changes within this process. The caller must call unlock.
func (o *output) lockRecords() (unlock func()) {
	var unlocks []func()
	for _, k := range o.changedRecords() {
		if unlock, err := o.hub.recordLocks.Lock(context.Background(), k); err == nil {
			unlocks = append(unlocks, unlock)
		}
	}
	return func() {
		for _, unlock := range unlocks {
			unlock()
		}
	}
}

// recordsApplied reports whether the store has a commit that changed records.
func (o *output) recordsApplied(ctx context.Context, c *recordCommit) (bool, error) {
	if len(c.steps) == 0 {
		return false, nil
	}
	stored, err := o.hub.cfg.Store.Steps(ctx, o.l.key, c.steps[0].Turn)
	return slices.ContainsFunc(stored, func(s store.Step) bool { return s.Name == c.steps[0].Name }), err
}

// readRecord reads a record. Its version is 0 if it does not exist.
func (s *settings) readRecord(ctx context.Context, key store.RecordKey) (store.Record, error) {
	r, err := s.cfg.Store.Record(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return store.Record{Key: key}, nil
	}
	return r, err
}
