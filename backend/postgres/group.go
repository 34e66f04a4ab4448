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

// requestGroups commits the requests of concurrent callers in common transactions: for many callers, the
// commits cost more than the statements. If a transaction fails, each of its callers commits its request
// alone, so no request can fail because of another, and a lock delays others by shortLockTimeout.
type requestGroups[R any] struct {
	db *database
	// alone commits one request, together several with a short lock timeout. Their callers have entered
	// the gate. An error of together is errAlone if the transaction was rolled back; any other error except
	// errAnswerLost means that the outcome is unknown.
	alone    func(ctx context.Context, r R) error
	together func(ctx context.Context, group []R) error

	mu      sync.Mutex
	waiting []*waitingRequest[R]
	running int // transactions
}

type waitingRequest[R any] struct {
	request R
	done    chan error
}

// errAlone means that a transaction of several requests was rolled back.
var errAlone = errors.New("a group of requests was rolled back")

// commit commits a request, alone or together with the requests of others. It returns the error of its
// transaction.
func (g *requestGroups[R]) commit(ctx context.Context, r R) error {
	if err := g.db.enter(ctx); err != nil {
		return err
	}
	defer g.db.leave()
	w, start := g.add(r)
	if start {
		go g.commitWaiting()
	}
	if w == nil {
		return g.commitFirst(ctx, r)
	}
	var err error
	select {
	case err = <-w.done:
	case <-ctx.Done():
		if g.remove(w) {
			return ctx.Err()
		}
		err = <-w.done
	}
	if errors.Is(err, errAlone) {
		return g.alone(ctx, r)
	}
	return err
}

// commitAlone commits a request without others.
func (g *requestGroups[R]) commitAlone(ctx context.Context, r R) error {
	if err := g.db.enter(ctx); err != nil {
		return err
	}
	defer g.db.leave()
	return g.alone(ctx, r)
}

// commitFirst commits the first request while others wait, and then starts commitWaiting for them, at
// the latest after shortLockTimeout.
func (g *requestGroups[R]) commitFirst(ctx context.Context, r R) error {
	others := sync.OnceFunc(func() { go g.commitWaiting() })
	late := time.AfterFunc(shortLockTimeout, others)
	defer others()
	defer late.Stop()
	return g.alone(ctx, r)
}

// add adds a request unless it is the first one, for which it returns nil: while its caller commits it,
// others wait. start means that the caller must start commitWaiting.
func (g *requestGroups[R]) add(r R) (w *waitingRequest[R], start bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running == 0 {
		g.running++
		return nil, false
	}
	w = &waitingRequest[R]{r, make(chan error, 1)}
	g.waiting = append(g.waiting, w)
	if start = len(g.waiting) >= secondCallGroup && g.running < maxCallGroups; start {
		g.running++
	}
	return w, start
}

// next returns requests to commit. If there are none, the caller must stop.
func (g *requestGroups[R]) next() []*waitingRequest[R] {
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
func (g *requestGroups[R]) remove(w *waitingRequest[R]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.waiting, w)
	if i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
	}
	return i >= 0
}

// commitWaiting commits waiting requests until there are none. The callers of the requests have
// entered the gate.
func (g *requestGroups[R]) commitWaiting() {
	for group := g.next(); len(group) > 0; group = g.next() {
		err := errAlone
		if len(group) > 1 {
			requests := make([]R, len(group))
			for i, w := range group {
				requests[i] = w.request
			}
			err = g.together(context.Background(), requests)
		}
		for _, w := range group {
			w.done <- err
		}
	}
}

// commitGroup runs attempt, which commits several requests in one transaction with a short lock
// timeout, for together.
func (g *requestGroups[R]) commitGroup(ctx context.Context, op string, requests int, attempt func(ctx context.Context, c *pgx.Conn, mark int64) error) error {
	err := g.db.withCallSlot(ctx, func() error {
		return g.db.commitEntered(ctx, op, func(ctx context.Context, c *pgx.Conn, mark int64) error {
			err := attempt(ctx, c, mark)
			if err == nil || indeterminate(err) {
				return err
			}
			return errors.Join(errAlone, err)
		})
	})
	if err == nil || errors.Is(err, errAnswerLost) || errors.Is(err, errIndeterminate) {
		return err
	}
	g.db.log.Debug("group of requests was rolled back, committing each alone", "error", err, "requests", requests)
	return errAlone
}

// callRequest has calls that are committed together. Their guards make them independent of other requests.
// They lock one row first, which order names; a transaction of several requests runs them in this order. A
// request without an order is committed alone.
type callRequest struct {
	op    string // for the log
	calls []*call
	order string
}

// callGroups commits calls.
type callGroups struct{ requestGroups[*callRequest] }

// commit commits the calls of a request in one round trip, alone or together with the calls of
// others. It returns errKitRejected if a guard fails, and errAnswerLost if the request was committed
// but rows of its result may be missing.
func (g *callGroups) commit(ctx context.Context, r *callRequest) error {
	if r.order != "" {
		return g.requestGroups.commit(ctx, r)
	}
	return g.commitAlone(ctx, r)
}

func (g *callGroups) runTogether(ctx context.Context, group []*callRequest) error {
	slices.SortStableFunc(group, func(a, b *callRequest) int { return cmp.Compare(a.order, b.order) })
	calls := []*call{g.db.cfg.groupLockTimeoutCall()}
	for _, r := range group {
		calls = append(calls, r.calls...)
	}
	return g.commitGroup(ctx, "write", len(group), func(ctx context.Context, c *pgx.Conn, mark int64) error {
		return g.db.exchange(ctx, c.PgConn(), true, append(calls[:len(calls):len(calls)], markCall(mark))...)
	})
}

func (g *callGroups) runAlone(ctx context.Context, r *callRequest) error {
	timeout := g.db.cfg.lockTimeoutCalls()
	return g.db.withCallSlot(ctx, func() error {
		return g.db.commitEntered(ctx, r.op, func(ctx context.Context, c *pgx.Conn, mark int64) error {
			err := g.db.exchange(ctx, c.PgConn(), true, append(timeout, g.db.marked(r.calls, mark)...)...)
			if guardFailed(err) {
				return errKitRejected
			}
			return err
		})
	})
}
