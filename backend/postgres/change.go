package postgres

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/content"
	"github.com/holdfast-dev/holdfast/store"
)

// change is a store.Change made ready by its caller: whatever needs no look at
// the database is done before a committer sees it.
type change struct {
	*store.Change
	events   string
	snapshot string
	contents []content.Value // of both
	large    int64           // bytes of those of events
	logSize  int64           // of the task after the change
	status   *store.Event    // the last event that tells a status
	received int64           // the place of the last message of the client among the events, from 1
	touches  int64           // the latest time of such a message
	// strict changes are made by statements that fail when one of them is refused.
	strict bool
	pk     int64 // of a task to be created

	// What a look at the database has found: the version the change is made at, and
	// the one it leaves behind.
	at, after int64

	applied  bool
	followed bool // by lanes
	result   store.Result
}

// request is the changes of one call.
type request struct {
	changes []change
	bytes   int
	state   atomic.Int32
	until   time.Time // when it is given up while it is stuck
	done    chan error
}

// The states of a request: a caller that gives up and a committer compete for it.
const (
	requestQueued int32 = iota
	requestTaken
	requestAbandoned
)

// Commit implements store.Store.
func (s *Store) Commit(ctx context.Context, changes ...store.Change) ([]store.Result, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	r := &request{changes: make([]change, len(changes)), done: make(chan error, 1)}
	for i := range changes {
		c := &r.changes[i]
		if err := c.prepare(&changes[i]); err != nil {
			return nil, err
		}
		if err := s.undoubted(ctx, &changes[i]); err != nil {
			return nil, err
		}
		c.strict = c.strict || len(changes) > 1
		r.bytes += c.size()
	}
	if len(changes) == 0 {
		return nil, nil
	}
	if err := s.submit(ctx, r); err != nil {
		return nil, err
	}
	results := make([]store.Result, len(changes))
	for i := range r.changes {
		results[i] = r.changes[i].result
		if t := changes[i].Snapshot; t != nil && results[i].Err == nil && results[i].Seq == t.Seq {
			results[i].LogSize = r.changes[i].logSize
		}
	}
	return results, nil
}

// submit hands a request to the committers and waits for its end. When ctx ends
// before one of them has taken it, it is not applied.
func (s *Store) submit(ctx context.Context, r *request) error {
	select {
	case s.queue <- r:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		if r.state.CompareAndSwap(requestQueued, requestAbandoned) {
			return ctx.Err()
		}
		return <-r.done
	}
}

func (c *change) prepare(from *store.Change) (err error) {
	if err = from.Check(); err != nil {
		return err
	}
	c.Change = from
	if len(from.Events) > 0 {
		events, err := store.EncodeEvents(from.Events, from.Key, from.ContextID())
		if c.events = string(events); err != nil {
			return a2a.Wrap(a2a.CodeInvalid, err, "task %s cannot be written as JSON", a2a.Quote(from.Key.ID))
		}
	}
	if c.snapshot, err = encodeSnapshot(from.Snapshot, len(c.events)); err != nil {
		return a2a.Wrap(a2a.CodeInvalid, err, "task %s cannot be written as JSON", a2a.Quote(from.Key.ID))
	}
	c.cut()
	for i := range from.Events {
		e := &from.Events[i]
		if e.Received != nil { // it moves the context, whatever else the event tells
			c.touches = max(c.touches, millis(e.Time))
		}
		if e.Artifact != nil {
			continue
		}
		c.status = e
		if e.Received != nil {
			c.received = int64(i + 1)
		}
	}
	// What has several parts is made whole or not at all; what leaves no trace in the
	// log is not found there when the answer was lost.
	c.strict = c.Create != nil || c.Idempotency != nil || c.touches != 0 || len(c.Steps) > 0 || len(c.Push) > 0 || len(c.contents) > 0 || len(c.Events) == 0
	return nil
}

// cut takes large values out of the events and the snapshot.
func (c *change) cut() {
	switch {
	case c.snapshot != "":
		c.logSize = int64(len(c.snapshot))
	case c.Snapshot != nil:
		c.logSize = c.Snapshot.LogSize + int64(len(c.events))
	}
	whole := len(c.events)
	c.events, c.contents = content.Cut(c.events, nil)
	c.large = int64(whole - len(c.events))
	c.snapshot, c.contents = content.Cut(c.snapshot, c.contents)
}

// size is how many bytes of JSON the change writes.
func (c *change) size() int {
	size := len(c.events) + len(c.snapshot)
	for i := range c.contents {
		size += len(c.contents[i].JSON)
	}
	return size
}

// blind reports that the change can be tried without a look at the database.
func (c *change) blind() bool { return c.Idempotency == nil || c.Lease == nil }

// leaves returns the version that the change leaves behind, which is known unless
// it is made under a lease.
func (c *change) leaves() int64 {
	switch n := int64(len(c.Events)); {
	case c.after > 0:
		return c.after
	case c.Create != nil:
		return n
	case c.Version > 0:
		return c.Version + n
	}
	return 0
}
