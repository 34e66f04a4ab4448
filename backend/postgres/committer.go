package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

const (
	// groupWeight is the maximum number of changes of one transaction, groupBytes their
	// maximum size.
	groupWeight = 256
	groupBytes  = 8 << 20
	// queueLength is the number of requests that may wait without blocking their callers.
	queueLength = 1024
	// maxGroupAttempts is the number of times that a group with failed guards is retried
	// before its requests are applied one by one. maxSoloAttempts is the number of retries
	// of a single request before it fails.
	maxGroupAttempts = 3
	maxSoloAttempts  = 20
)

// committer applies a group of requests in one transaction and one round trip, and
// answers them after the commit. It is used by one goroutine at a time.
type committer struct {
	s         *changeWriter
	freeCalls map[*statement][]*call
	group     []*request
	// lockTimeout is how long a transaction waits for a lock. Zero means the session's setting.
	lockTimeout time.Duration
}

func (s *changeWriter) newCommitter() *committer {
	return &committer{s: s, freeCalls: make(map[*statement][]*call)}
}

// dispatch assigns queued requests to committers until the queue is closed. While one
// committer works, it starts another only for secondGroupWeight changes, or if the newest
// group takes longer than slowCommit: few large groups are faster than many small ones. It
// does not delay a group to gather more requests.
func (s *changeWriter) dispatch() {
	free := make(chan *committer, maxCommitters)
	idle := make([]*committer, 0, maxCommitters)
	for range min(maxCommitters, max(1, s.cfg.PoolMax-1)) {
		idle = append(idle, s.newCommitter())
	}
	all := len(idle)
	slowGroup := false // the newest group takes longer than slowCommit
	timer := time.NewTimer(slowCommit)
	defer timer.Stop()
	var pending backlog
	for queue := s.queue; queue != nil || len(pending.requests) > 0 || len(idle) < all; {
		in := queue
		if pending.full() {
			in = nil
		}
		select {
		case r, ok := <-in:
			if !ok {
				queue = nil
				break
			}
			pending.add(r)
			pending.drain(queue)
		case c := <-free:
			idle = append(idle, c)
			pending.drain(queue)
		case <-timer.C:
			slowGroup = true
		}
		for len(pending.requests) > 0 && len(idle) > 0 && (len(idle) == all || pending.weight >= secondGroupWeight || slowGroup || queue == nil) {
			c := idle[len(idle)-1]
			idle = idle[:len(idle)-1]
			c.group, pending = pending.accept(c.group), backlog{}
			c.lockTimeout = s.blocked.lockTimeout()
			slowGroup = false
			timer.Reset(slowCommit)
			s.workers.Go(func() {
				c.run(c.group)
				clear(c.group)
				free <- c
			})
		}
	}
}

const (
	// secondGroupWeight is the number of waiting changes that justifies a second concurrent
	// transaction.
	secondGroupWeight = 128
	// slowCommit is the time after which new requests no longer wait for a running group.
	slowCommit = 100 * time.Millisecond
)

// backlog holds requests that no committer has accepted.
type backlog struct {
	requests     []*request
	weight, size int
}

func (b *backlog) full() bool { return b.weight >= groupWeight || b.size >= groupBytes }

func (b *backlog) add(r *request) {
	b.requests = append(b.requests, r)
	b.weight, b.size = b.weight+len(r.changes), b.size+r.bytes
}

// drain adds queued requests until the queue is empty or the backlog is full.
func (b *backlog) drain(queue chan *request) {
	for queue != nil && !b.full() {
		select {
		case r, ok := <-queue:
			if !ok {
				return
			}
			b.add(r)
		default:
			return
		}
	}
}

// accept moves the requests into a group, except those that their callers have abandoned.
func (b *backlog) accept(group []*request) []*request {
	group = group[:0]
	for _, r := range b.requests {
		if r.state.CompareAndSwap(requestQueued, requestAccepted) {
			group = append(group, r)
		}
	}
	return group
}

// run applies a group of requests and answers them. It applies them one by one if the group
// fails as a whole.
func (c *committer) run(group []*request) {
	if len(group) == 0 {
		return
	}
	err := c.apply(group)
	if lockTimedOut(err) {
		c.split(group, err)
		return
	}
	final := err != nil && (len(group) == 1 || unanswered(err) || errors.Is(err, errIndeterminate))
	if err != nil && !final {
		c.s.log.Debug("group of changes was rolled back, applying them one by one", "error", err, "requests", len(group))
	}
	for i, r := range group {
		switch {
		case err == nil || r.ungrouped || r.applied(): // perhaps by a transaction before the failed one
			c.finish(r, nil)
		case final:
			c.finish(r, err)
		default:
			c.run(group[i : i+1])
		}
	}
}

// applied reports whether all changes of a request were applied.
func (r *request) applied() bool {
	return !slices.ContainsFunc(r.changes, func(ch change) bool { return !ch.applied })
}

// finish returns the outcome of a request to its caller and announces its changes.
func (c *committer) finish(r *request, err error) {
	if r.ungrouped {
		r.done <- errUngrouped
		return
	}
	due := false
	for i := range r.changes {
		if ch := &r.changes[i]; err == nil && ch.result.Err == nil {
			queued := ch.Queue != nil && ch.Queue.Phase == store.PhaseQueued
			if queued && !ch.Queue.DueAt.IsZero() {
				c.s.waitingTasks.added(millis(ch.Queue.DueAt))
			}
			c.s.outbox.add(queued, ch.Key)
			due = due || ch.movedLanes || len(ch.Webhooks) > 0
		}
	}
	c.s.lanesDue(due)
	r.done <- wrapError(context.Background(), err, "commit")
}

var errContention = errors.New("contention between changes")

// errIndeterminate is part of errors after which changes may have been applied. The store
// does not retry such changes: their caller reads the task first.
var errIndeterminate = errors.New("the outcome of a commit is unknown")

// apply applies requests in one transaction, all or none, and sets the result of each
// change. The first attempt relies on the guards of the statements alone. If a guard fails,
// apply reads a guard snapshot, rejects the changes that it does not permit, and retries the
// others.
func (c *committer) apply(group []*request) error {
	var pending []*change
	withGuards := false
	for _, r := range group {
		for i := range r.changes {
			ch := &r.changes[i]
			withGuards = withGuards || ch.needsGuards() || ch.Create != nil && hasChangeOf(r.changes[:i], ch.Key)
			pending = append(pending, ch)
		}
	}
	for guardAttempts, effectAttempts, retries := 0, 0, 0; ; {
		for _, ch := range pending {
			ch.applied, ch.movedLanes, ch.result, ch.at, ch.after = false, false, store.Result{}, 0, 0
		}
		accepted := pending
		var err error
		if withGuards {
			accepted, err = c.s.checkGuards(pending)
		}
		if err == nil && len(accepted) > 0 {
			err = c.commit(accepted, withGuards)
		}
		if err != nil {
			for _, ch := range accepted {
				ch.applied = false // it was rolled back
			}
		}
		var refused *refusedEffect
		effect := failedEffect(err, accepted)
		switch {
		case err == nil:
			if pending = notApplied(accepted); len(pending) == 0 {
				return nil
			}
			guardAttempts, withGuards = guardAttempts+1, true
		case errors.As(err, &refused):
			pending, withGuards = refused.others(accepted), true
			if len(pending) == 0 {
				return nil
			}
		case effect != nil:
			effectAttempts++
			if pending = ungroup(group, effect, effectAttempts > maxGroupAttempts, accepted); len(pending) == 0 {
				return nil
			}
		case guardFailed(err):
			c.s.pks.reassign(err, accepted)
			guardAttempts, withGuards = guardAttempts+1, true
			if len(group) > 1 && guardAttempts > maxGroupAttempts {
				return errContention
			}
		case lockTimedOut(err) || errors.Is(err, errIndeterminate) || retries >= c.s.cfg.MaxRetries || !transient(err) || !c.s.backoff(context.Background(), retries, err):
			return err
		default:
			retries++
		}
		if guardAttempts > maxSoloAttempts {
			return a2a.Wrap(a2a.CodeUnavailable, errors.Join(err, errContention), "too much contention between changes; retry later")
		}
	}
}

// hasChangeOf reports whether any of the changes is of the task with the key. If a change creates
// a task after another change of it, a guard snapshot is needed, because the statements create tasks
// first.
func hasChangeOf(changes []change, key store.Key) bool {
	return slices.ContainsFunc(changes, func(ch change) bool { return ch.Key == key })
}

// notApplied returns the changes that were not applied.
func notApplied(accepted []*change) (rest []*change) {
	for _, ch := range accepted {
		if !ch.applied {
			rest = append(rest, ch)
		}
	}
	return rest
}

// commit applies changes in one transaction. With strict, it fails unless all of them are
// applied. If the answer is lost, it resolves the outcome.
func (c *committer) commit(accepted []*change, strict bool) error {
	mark := c.s.newMark()
	err := c.send(accepted, mark, strict)
	if err == nil || !indeterminate(err) {
		return err
	}
	committed, e := c.s.resolveOutcome(mark, err)
	switch {
	case e != nil:
		c.s.indeterminate.add(mark, accepted)
		return e
	case committed:
		if e := c.s.recoverResults(accepted, mark); e != nil {
			return a2a.Wrap(a2a.CodeUnavailable, errors.Join(errIndeterminate, err, e), "the database does not respond: the change was stored")
		}
		return nil
	}
	return err
}

// call is a statement with its arguments.
type call struct {
	*statement
	columns []array
	scalars []int64
	args    []any          // if set, used instead of columns and scalars
	row     func(r record) // receives the rows of the result
	changes []*change      // the changes of stmtUpdate, in the order of its arguments
	changed int64          // number of rows that the statement changed
	planned bool           // planned for its arguments, and neither prepared nor kept
}

// newCall returns a call without arguments.
func newCall(st *statement) *call {
	k := &call{statement: st, columns: make([]array, len(st.arrays))}
	for i := range k.columns {
		k.columns[i].elem = st.arrays[i]
		k.columns[i].reset()
	}
	return k
}

// reuseCall returns a call without arguments, from freeCalls if possible.
func (c *committer) reuseCall(st *statement) *call {
	free := c.freeCalls[st]
	if len(free) == 0 {
		return newCall(st)
	}
	k := free[len(free)-1]
	c.freeCalls[st] = free[:len(free)-1]
	for i := range k.columns {
		k.columns[i].reset()
	}
	k.scalars, k.changes = k.scalars[:0], k.changes[:0]
	return k
}

func (k *call) rows() int { return k.columns[0].n }

func (k *call) params() [][]byte {
	params := make([][]byte, 0, len(k.args)+len(k.columns)+len(k.scalars))
	for _, v := range k.args {
		params = append(params, param(v))
	}
	for i := range k.columns {
		params = append(params, k.columns[i].encoded())
	}
	for _, v := range k.scalars {
		params = append(params, int8Param(v))
	}
	return params
}

// send applies changes in one transaction and one round trip.
func (c *committer) send(accepted []*change, mark int64, strict bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), c.s.cfg.CommandTimeout)
	defer cancel()
	for _, ch := range accepted {
		if ch.Create != nil && ch.pk == 0 {
			ch.pk = c.s.pks.next()
		}
	}
	calls := c.calls(accepted, mark, strict)
	defer func() {
		for _, k := range calls {
			if k.args != nil {
				continue // of an effect
			}
			clear(k.changes)
			c.freeCalls[k.statement] = append(c.freeCalls[k.statement], k)
		}
	}()
	if err := c.s.transactCalls(ctx, calls, accepted); err != nil {
		return err
	}
	for _, ch := range accepted {
		if ch.Create != nil {
			ch.applied, ch.result.Seq = true, int64(len(ch.Events))
			c.s.counterRows.add(ch.Key.Owner, 1)
		}
	}
	return nil
}
