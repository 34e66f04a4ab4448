package postgres

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// maxCallGroup is the number of requests that one transaction commits.
	maxCallGroup = 128
	// maxCallGroups is the number of concurrent transactions. The second starts for
	// secondCallGroup requests.
	maxCallGroups   = 2
	secondCallGroup = 32
)

// callGroups commits the calls of concurrent callers in common transactions: for many callers, the
// commits cost more than the statements. A request has its own guards and depends on no other request.
// If a transaction fails, each of its callers commits its calls alone. So no request can fail because
// of another, and a lock delays other requests by at most shortLockTimeout.
type callGroups struct {
	db *database

	mu      sync.Mutex
	waiting []*callRequest
	running int // transactions
}

// callRequest is calls that are committed together. The first row that they lock has the name order, and
// transactions lock rows in the order of these names. A request without an order is committed alone.
type callRequest struct {
	calls []*call
	order string
	done  chan error
}

// errAlone means that a transaction of several requests was rolled back.
var errAlone = errors.New("a group of requests was rolled back")

// commit commits the calls of a request in one round trip, alone or together with the calls of
// others. It returns errKitRejected if a guard fails, and errAnswerLost if the request was committed
// but rows of its result may be missing.
func (g *callGroups) commit(ctx context.Context, op string, r *callRequest) error {
	if err := g.db.enter(ctx); err != nil {
		return err
	}
	defer g.db.leave()
	if r.order == "" {
		return g.commitAlone(ctx, op, r)
	}
	first, start := g.add(r)
	if start {
		go g.commitWaiting()
	}
	if first {
		return g.commitFirst(ctx, op, r)
	}
	var err error
	select {
	case err = <-r.done:
	case <-ctx.Done():
		if g.remove(r) {
			return ctx.Err()
		}
		err = <-r.done
	}
	if errors.Is(err, errAlone) {
		return g.commitAlone(ctx, op, r)
	}
	return err
}

// commitFirst commits the first request while others wait, and then starts commitWaiting for them, at
// the latest after shortLockTimeout.
func (g *callGroups) commitFirst(ctx context.Context, op string, r *callRequest) error {
	others := sync.OnceFunc(func() { go g.commitWaiting() })
	late := time.AfterFunc(shortLockTimeout, others)
	defer others()
	defer late.Stop()
	return g.commitAlone(ctx, op, r)
}

// add adds a request unless it is the first one: while its caller commits it, others wait.
// start means that the caller must start commitWaiting.
func (g *callGroups) add(r *callRequest) (first, start bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if first = g.running == 0; first {
		g.running++
		return true, false
	}
	r.done = make(chan error, 1)
	g.waiting = append(g.waiting, r)
	if start = len(g.waiting) >= secondCallGroup && g.running < maxCallGroups; start {
		g.running++
	}
	return false, start
}

// next returns requests to commit. If there are none, the caller must stop.
func (g *callGroups) next() []*callRequest {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := min(len(g.waiting), maxCallGroup)
	group := slices.Clone(g.waiting[:n])
	g.waiting = slices.Delete(g.waiting, 0, n)
	if n == 0 {
		g.running--
	}
	return group
}

// remove removes a waiting request. It returns false if its transaction has started.
func (g *callGroups) remove(r *callRequest) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.waiting, r)
	if i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
	}
	return i >= 0
}

// commitWaiting commits waiting requests until there are none. The callers of the requests have
// entered the gate.
func (g *callGroups) commitWaiting() {
	for group := g.next(); len(group) > 0; group = g.next() {
		err := errAlone
		if len(group) > 1 {
			err = g.commitGroup(context.Background(), "write", group)
		}
		for _, r := range group {
			r.done <- err
		}
	}
}

// commitGroup commits the calls of requests with a short lock timeout. errAlone means that the
// transaction was rolled back, errAnswerLost that it was committed, and any other error that the
// outcome is unknown.
func (g *callGroups) commitGroup(ctx context.Context, op string, group []*callRequest) error {
	slices.SortStableFunc(group, func(a, b *callRequest) int { return cmp.Compare(a.order, b.order) })
	calls := []*call{lockTimeoutCall(min(shortLockTimeout, g.db.cfg.lockTimeout()))}
	for _, r := range group {
		calls = append(calls, r.calls...)
	}
	err := g.withSlot(ctx, func() error {
		return g.db.commitEntered(ctx, op, func(ctx context.Context, c *pgx.Conn, mark int64) error {
			err := g.db.exchange(ctx, c.PgConn(), true, append(calls[:len(calls):len(calls)], markCall(mark))...)
			if err == nil || indeterminate(err) {
				return err
			}
			return errors.Join(errAlone, err)
		})
	})
	if err == nil || errors.Is(err, errAnswerLost) || errors.Is(err, errIndeterminate) {
		return err
	}
	g.db.log.Debug("group of requests was rolled back, committing each alone", "error", err, "requests", len(group))
	return errAlone
}

// commitAlone commits the calls of one request, for callers that have entered the gate.
func (g *callGroups) commitAlone(ctx context.Context, op string, r *callRequest) error {
	timeout := g.db.cfg.lockTimeoutCalls()
	return g.withSlot(ctx, func() error {
		return g.db.commitEntered(ctx, op, func(ctx context.Context, c *pgx.Conn, mark int64) error {
			err := g.db.exchange(ctx, c.PgConn(), true, append(timeout, g.db.marked(r.calls, mark)...)...)
			if guardFailed(err) {
				return errKitRejected
			}
			return err
		})
	})
}

// withSlot runs f while it has a slot for client calls.
func (g *callGroups) withSlot(ctx context.Context, f func() error) error {
	if err := g.db.callSlots.acquire(ctx, g.db.cfg.Timeout); err != nil {
		return err
	}
	defer g.db.callSlots.release()
	return f()
}
