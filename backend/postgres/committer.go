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
	// groupWeight bounds the changes of one transaction, groupBytes their size.
	groupWeight = 256
	groupBytes  = 8 << 20
	// queueLength is how many requests may wait without blocking their callers.
	queueLength = 1024
	// crowdTries is how often a group with refused changes is looked through before
	// its requests are applied one by one, lonelyTries how often a request alone is.
	crowdTries  = 3
	lonelyTries = 20
)

// committer applies a group of requests in one transaction and one round trip, and
// answers after the commit. Everything in it belongs to one goroutine at a time.
type committer struct {
	s     *Store
	spare map[*statement][]*call
	group []*request
	// patience is how long a transaction waits for a lock, zero for as long as the
	// session says.
	patience time.Duration
}

func (s *Store) newCommitter() *committer {
	return &committer{s: s, spare: make(map[*statement][]*call)}
}

// dispatch hands what is queued to committers until the queue is closed. As long
// as one is at work, another is only started for what is many already, or has waited
// for long: a few large groups are faster than many small ones. It does not wait for
// requests to come.
func (s *Store) dispatch() {
	free := make(chan *committer, committers)
	idle := make([]*committer, 0, committers)
	for range min(committers, max(1, s.cfg.PoolMax-1)) {
		idle = append(idle, s.newCommitter())
	}
	all := len(idle)
	late := false // the newest group takes long
	timer := time.NewTimer(slow)
	defer timer.Stop()
	var waiting backlog
	for queue := s.queue; queue != nil || len(waiting.requests) > 0 || len(idle) < all; {
		in := queue
		if waiting.full() {
			in = nil
		}
		select {
		case r, ok := <-in:
			if !ok {
				queue = nil
				break
			}
			waiting.add(r)
			waiting.drain(queue)
		case c := <-free:
			idle = append(idle, c)
			waiting.drain(queue)
		case <-timer.C:
			late = true
		}
		for len(waiting.requests) > 0 && len(idle) > 0 && (len(idle) == all || waiting.weight >= crowd || late || queue == nil) {
			c := idle[len(idle)-1]
			idle = idle[:len(idle)-1]
			c.group, waiting = waiting.take(c.group), backlog{}
			c.patience = s.stuck.patience()
			late = false
			timer.Reset(slow)
			s.workers.Go(func() {
				c.run(c.group)
				clear(c.group)
				free <- c
			})
		}
	}
}

const (
	// crowd is how many waiting changes are worth a second transaction beside the one
	// under way.
	crowd = 128
	// slow is how long a group may take before others do not wait for its end.
	slow = 100 * time.Millisecond
)

// backlog are requests that no committer has taken.
type backlog struct {
	requests     []*request
	weight, size int
}

func (b *backlog) full() bool { return b.weight >= groupWeight || b.size >= groupBytes }

func (b *backlog) add(r *request) {
	b.requests = append(b.requests, r)
	b.weight, b.size = b.weight+len(r.changes), b.size+r.bytes
}

// drain adds what is queued, up to the bounds of a group.
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

// take moves the requests that have not been given up into a group.
func (b *backlog) take(group []*request) []*request {
	group = group[:0]
	for _, r := range b.requests {
		if r.state.CompareAndSwap(requestQueued, requestTaken) {
			group = append(group, r)
		}
	}
	return group
}

// run applies requests and answers them, together if that can be done.
func (c *committer) run(group []*request) {
	if len(group) == 0 {
		return
	}
	err := c.apply(group)
	if blocked(err) {
		c.part(group, err)
		return
	}
	final := err != nil && (len(group) == 1 || unanswered(err) || errors.Is(err, errOpen))
	if err != nil && !final {
		c.s.log.Debug("group of changes was rolled back, trying them one by one", "error", err, "requests", len(group))
	}
	for i, r := range group {
		switch {
		case err == nil || r.applied(): // perhaps by a transaction before the one that failed
			c.answer(r, nil)
		case final:
			c.answer(r, err)
		default:
			c.run(group[i : i+1])
		}
	}
}

// applied reports whether all changes of a request have been made.
func (r *request) applied() bool {
	return !slices.ContainsFunc(r.changes, func(ch change) bool { return !ch.applied })
}

// answer tells the caller of a request how it ended, and others what it changed.
func (c *committer) answer(r *request, err error) {
	due := false
	for i := range r.changes {
		if ch := &r.changes[i]; err == nil && ch.result.Err == nil {
			c.s.news.add(ch.Run != nil && ch.Run.Phase == store.PhaseQueued, ch.Key)
			due = due || ch.followed || len(ch.Push) > 0
		}
	}
	c.s.lanesDue(due)
	r.done <- failed(context.Background(), err, "commit")
}

var errCrowded = errors.New("changes of a group get in each other's way")

// errOpen is part of failures after which changes may have been made: whoever asked
// for them looks before going on, so that they are not tried again here.
var errOpen = errors.New("the outcome of a commit is not known")

// apply applies requests in one transaction, all or none, and tells each change
// its result. Changes are tried as they are; when some of them are refused the
// database is looked at, to tell why and to go on without them.
func (c *committer) apply(group []*request) error {
	var pending []*change
	look := false
	for _, r := range group {
		for i := range r.changes {
			ch := &r.changes[i]
			look = look || !ch.blind() || ch.Create != nil && changesTask(r.changes[:i], ch.Key)
			pending = append(pending, ch)
		}
	}
	for looks, tries := 0, 0; ; {
		for _, ch := range pending {
			ch.applied, ch.followed, ch.result, ch.at, ch.after = false, false, store.Result{}, 0, 0
		}
		live := pending
		var err error
		if look {
			live, err = c.s.look(pending)
		}
		if err == nil && len(live) > 0 {
			err = c.commit(live, look)
		}
		if err != nil {
			for _, ch := range live {
				ch.applied = false // it was rolled back
			}
		}
		switch {
		case err == nil:
			if pending = refused(live); len(pending) == 0 {
				return nil
			}
			looks, look = looks+1, true
		case raised(err):
			c.s.pks.renumber(err, live)
			looks, look = looks+1, true
			if len(group) > 1 && looks > crowdTries {
				return errCrowded
			}
		case blocked(err) || errors.Is(err, errOpen) || tries >= c.s.cfg.MaxRetries || !passing(err) || !c.s.pause(context.Background(), tries, err):
			return err
		default:
			tries++
		}
		if looks > lonelyTries {
			return a2a.Wrap(a2a.CodeUnavailable, errors.Join(err, errCrowded), "too many changes at the same time")
		}
	}
}

// changesTask reports whether one of some changes is of a task. Statements create
// tasks first, so one that is created after a change of it needs a look.
func changesTask(changes []change, key store.Key) bool {
	return slices.ContainsFunc(changes, func(ch change) bool { return ch.Key == key })
}

// refused returns the changes that were not applied.
func refused(live []*change) (rest []*change) {
	for _, ch := range live {
		if !ch.applied {
			rest = append(rest, ch)
		}
	}
	return rest
}

// commit applies changes in one transaction. When its answer is lost, it finds out
// what became of it.
func (c *committer) commit(live []*change, all bool) error {
	mark := c.s.newMark()
	err := c.send(live, mark, all)
	if err == nil || !unsure(err) {
		return err
	}
	made, e := c.s.settle(mark, err)
	switch {
	case e != nil:
		c.s.doubts.add(mark, live)
		return e
	case made:
		if e := c.s.recall(live, mark); e != nil {
			return a2a.Wrap(a2a.CodeUnavailable, errors.Join(errOpen, err, e), "the database does not answer: the change was stored")
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
	args    []any          // instead of these
	row     func(r record) // takes the rows of the result
	changes []*change      // of stmtUpdate, in the order of its arguments
}

// newCall returns a call without arguments yet.
func newCall(st *statement) *call {
	k := &call{statement: st, columns: make([]array, len(st.arrays))}
	for i := range k.columns {
		k.columns[i].elem = st.arrays[i]
		k.columns[i].reset()
	}
	return k
}

// call returns a statement without arguments yet.
func (c *committer) call(st *statement) *call {
	spare := c.spare[st]
	if len(spare) == 0 {
		return newCall(st)
	}
	k := spare[len(spare)-1]
	c.spare[st] = spare[:len(spare)-1]
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

// send makes one transaction of changes in one round trip. With all, it fails
// unless all of them are applied.
func (c *committer) send(live []*change, mark int64, all bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), c.s.cfg.CommandTimeout)
	defer cancel()
	if err := c.number(ctx, live); err != nil {
		return err
	}
	calls := c.calls(live, mark, all)
	defer func() {
		for _, k := range calls {
			clear(k.changes)
			c.spare[k.statement] = append(c.spare[k.statement], k)
		}
	}()
	if err := c.s.pipeline(ctx, calls); err != nil {
		return err
	}
	for _, ch := range live {
		if ch.Create != nil {
			ch.applied, ch.result.Seq = true, int64(len(ch.Events))
			c.s.tallies.note(ch.Key.Owner, 1)
		}
	}
	return nil
}

// number gives pks to tasks to be created.
func (c *committer) number(ctx context.Context, live []*change) error {
	for _, ch := range live {
		if ch.Create == nil || ch.pk != 0 {
			continue
		}
		pk, err := c.s.pks.next(ctx)
		if err != nil {
			return err
		}
		ch.pk = pk
	}
	return nil
}
