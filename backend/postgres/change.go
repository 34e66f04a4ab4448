package postgres

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/backend/internal/sqlrow"
	"github.com/holdfast-dev/holdfast/store"
)

// changeWriter applies changes of tasks in groups, and keeps the counters of lists.
type changeWriter struct {
	*database
	*notifier
	pks           *pkSource
	counterRows   addedRows[string] // rows added to counters since their last merge, by owner
	labelRows     addedRows[labelKey]
	eras          *eras
	waitingTasks  waitingBound
	waitingLanes  waitingBound
	queue         chan *request
	blocked       blockedRequests
	indeterminate indeterminateCommits
	workers       sync.WaitGroup // committers, maintenance and notifications
}

// change is a [store.Change] that its caller has prepared for a committer: checked, encoded,
// and with its large values extracted.
type change struct {
	*store.Change
	sqlrow.Content
	status      *store.Event // the last event with a status
	received    int64        // 1-based index of the last event with a client message, 0 for none
	messageTime int64        // latest time of a client message in milliseconds, 0 for none
	// strict makes the statement fail if the change's guard fails.
	strict bool
	pk     int64 // of the task to be created

	effects []effectCalls // that run in the statements' round trip

	// From the guard snapshot: the version before and after the change, 0 if not known.
	at, after int64

	applied    bool
	movedLanes bool // the task has webhooks, and their lanes were moved on
	result     store.Result
}

// request is the changes of one call.
type request struct {
	changes  []change
	bytes    int
	state    atomic.Int32
	deadline time.Time // for a blocked request, see blockedRequests
	done     chan error

	ungrouped bool // see errUngrouped
}

// The states of a request. A committer that accepts it and a caller that abandons it compete.
const (
	requestQueued int32 = iota
	requestAccepted
	requestAbandoned
)

// Commit implements [store.Tasks].
func (s *changeWriter) Commit(ctx context.Context, changes ...store.Change) ([]store.Result, error) {
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
		if err := s.resolveEarlierCommits(ctx, &changes[i]); err != nil {
			return nil, err
		}
		c.strict = c.strict || len(changes) > 1
		r.bytes += c.Size()
	}
	if len(changes) == 0 {
		return nil, nil
	}
	err := s.commitInGroup(ctx, r)
	if errors.Is(err, errUngrouped) {
		err = s.commitWithEffects(ctx, r)
	}
	if err != nil {
		return nil, err
	}
	results := make([]store.Result, len(changes))
	for i := range r.changes {
		results[i] = r.changes[i].Result(&changes[i], r.changes[i].result)
	}
	return results, nil
}

// submit queues a request for the committers and waits for its outcome. If ctx ends before a
// committer accepts it, it is not applied.
func (s *changeWriter) submit(ctx context.Context, r *request) error {
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
	if c.Content, err = sqlrow.Encode(from); err != nil {
		return err
	}
	for i := range from.Events {
		e := &from.Events[i]
		if e.Received != nil { // updates the context, even in an event with an artifact
			c.messageTime = max(c.messageTime, millis(e.Time))
		}
		if e.Artifact != nil {
			continue
		}
		c.status = e
		if e.Received != nil {
			c.received = int64(i + 1)
		}
	}
	// Changes of several tables are applied as a whole or not at all. Changes without events
	// have no log row by which recoverResults could find them.
	c.strict = c.Create != nil || c.Idempotency != nil || c.messageTime != 0 || len(c.Steps) > 0 || len(c.Webhooks) > 0 || len(c.Records) > 0 || len(c.Values) > 0 || len(c.Effects) > 0 || len(c.Events) == 0
	return nil
}

// needsGuards reports whether the change needs a guard snapshot before its first attempt:
// the version that its idempotency key records is unknown without one.
func (c *change) needsGuards() bool { return c.Idempotency != nil && c.Lease != nil }

// newVersion returns the version after the change, 0 if it is not known: a change under a
// lease without a guard snapshot.
func (c *change) newVersion() int64 {
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
