package store

import (
	"container/list"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// RecordUpdater changes records one at a time, each by a function of its current value. An
// [Updater] commits each change by itself. Within a turn, an engine commits the changes with
// the task.
type RecordUpdater interface {
	// ReadRecord returns a record. Its Version is 0 if it does not exist.
	ReadRecord(ctx context.Context, key RecordKey) (Record, error)
	// Records is as in [Records].
	Records(ctx context.Context, q RecordQuery) (RecordPage, error)
	// UpdateRecord changes a record by update and returns it as changed. A conflict with a
	// concurrent change is resolved by calling update again with the newer record. An error
	// of update has no effect on the record and is returned.
	UpdateRecord(ctx context.Context, key RecordKey, update RecordUpdate) (Record, error)
}

// RecordUpdate returns the change of a record: its Value, Expires and Delete. The other fields
// are ignored. nil changes nothing. The record has Version 0 if it does not exist. The function
// may be called several times and concurrently, and must depend on its argument only, which it
// must not modify.
type RecordUpdate func(Record) (*RecordChange, error)

// Limits of the records that an Updater remembers. It uses a remembered record for much less time
// than an expired record remains in the store, because a record that is removed and created again
// has the same versions again.
const (
	updaterRecords = 1024
	updaterBytes   = 16 << 20
	updaterAge     = time.Minute
	// updaterSpins is the number of conflicts after which an Updater pauses.
	updaterSpins = 3
)

// Updater is a [RecordUpdater] over the records of a store. It serializes the changes of a
// record within the process and remembers records that it changed, so that a change usually
// costs one write and no read. It is safe for concurrent use.
type Updater struct {
	records Records

	mu    sync.Mutex
	byKey map[RecordKey]*updaterEntry
	used  *list.List // of *updaterEntry, the most recently used first
	bytes int        // of all values
}

// updaterEntry is a record that is being changed or is remembered.
type updaterEntry struct {
	key     RecordKey
	lock    chan struct{} // has one element while a change is in progress
	waiting int           // changes in progress or waiting
	place   *list.Element
	last    Record // Version is 0 if the record is not known
	at      time.Time
}

// NewUpdater returns an Updater of the records of a store.
func NewUpdater(records Records) *Updater {
	return &Updater{records: records, byKey: make(map[RecordKey]*updaterEntry), used: list.New()}
}

// ReadRecord implements [RecordUpdater].
func (u *Updater) ReadRecord(ctx context.Context, key RecordKey) (Record, error) {
	r, err := u.records.Record(ctx, key)
	if errors.Is(err, ErrNotFound) {
		return Record{Key: key}, nil
	}
	return r, err
}

// Records implements [RecordUpdater].
func (u *Updater) Records(ctx context.Context, q RecordQuery) (RecordPage, error) {
	return u.records.Records(ctx, q)
}

// UpdateRecord implements [RecordUpdater]. Waiting ends when ctx is done.
func (u *Updater) UpdateRecord(ctx context.Context, key RecordKey, update RecordUpdate) (Record, error) {
	e := u.enter(key)
	defer u.leave(e)
	select {
	case e.lock <- struct{}{}:
		defer func() { <-e.lock }()
	case <-ctx.Done():
		return Record{}, context.Cause(ctx)
	}
	for conflicts := 0; ; conflicts++ {
		r, err := u.try(ctx, e, update)
		if !errors.Is(err, errOutdated) {
			return r, err
		}
		if conflicts < updaterSpins {
			continue
		}
		select {
		case <-time.After(rand.N(time.Duration(min(conflicts, 20)) * time.Millisecond)): //nolint:gosec // a pause needs no secrecy
		case <-ctx.Done():
			return Record{}, context.Cause(ctx)
		}
	}
}

// errOutdated means that a change was based on a record that is not the current one.
var errOutdated = errors.New("record was changed")

// try changes a record once. The caller holds the entry's lock.
func (u *Updater) try(ctx context.Context, e *updaterEntry, update RecordUpdate) (r Record, err error) {
	known := e.last.Version > 0 && time.Since(e.at) < updaterAge
	if r = e.last; !known {
		if r, err = u.ReadRecord(ctx, e.key); err != nil {
			return Record{}, err
		}
	}
	c, err := update(r)
	switch {
	case (err != nil || c == nil) && known:
		u.remember(e, Record{})
		return Record{}, errOutdated // decide with the current record
	case err != nil:
		return Record{}, err
	case c == nil:
		return r, nil
	}
	c.Namespace, c.Key, c.Version = e.key.Namespace, e.key.Key, r.Version
	if err := u.records.SaveRecords(ctx, e.key.Owner, *c); err != nil {
		u.remember(e, Record{})
		if errors.Is(err, ErrRecordConflict) {
			err = errOutdated
		}
		return Record{}, err
	}
	r = r.After(c)
	u.remember(e, r)
	r.Value = slices.Clone(r.Value)
	return r, nil
}

// After returns a record as it is after a change.
func (r Record) After(c *RecordChange) Record {
	if c.Delete {
		return Record{Key: r.Key}
	}
	return Record{Key: r.Key, Version: r.Version + 1, Value: c.Value, Expires: Time(c.Expires)}
}

// enter returns the entry of a record for a change. The caller must call leave.
func (u *Updater) enter(key RecordKey) *updaterEntry {
	u.mu.Lock()
	defer u.mu.Unlock()
	e := u.byKey[key]
	if e == nil {
		e = &updaterEntry{key: key, lock: make(chan struct{}, 1)}
		e.place = u.used.PushFront(e)
		u.byKey[key] = e
	}
	u.used.MoveToFront(e.place)
	e.waiting++
	return e
}

// leave ends a change and forgets the least recently used records above the limits.
func (u *Updater) leave(e *updaterEntry) {
	u.mu.Lock()
	defer u.mu.Unlock()
	e.waiting--
	for place := u.used.Back(); place != nil && (u.used.Len() > updaterRecords || u.bytes > updaterBytes); {
		old := place.Value.(*updaterEntry)
		place = place.Prev()
		if old.waiting == 0 {
			u.used.Remove(old.place)
			delete(u.byKey, old.key)
			u.bytes -= len(old.last.Value)
		}
	}
}

// remember sets the known record of an entry. The caller holds the entry's lock.
func (u *Updater) remember(e *updaterEntry, r Record) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.bytes += len(r.Value) - len(e.last.Value)
	e.last, e.at = r, time.Now()
}
