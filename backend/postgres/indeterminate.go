package postgres

import (
	"context"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// indeterminateCommits holds the marks of unresolved commits, by the tasks that they change. The
// server may still read and commit such a transaction. Reads of a task, and changes under its lease,
// therefore resolve its marks first. Other transactions need no entry. Transactions of transact and deletions hold
// locks until the server reads the commit, and other changes wait for these locks. Transactions of
// callGroups check their versions, fences and idempotency keys when the server reads them.
type indeterminateCommits struct {
	mu    sync.Mutex
	marks map[store.Key][]int64
}

func (d *indeterminateCommits) add(mark int64, accepted []*change) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.marks == nil {
		d.marks = make(map[store.Key][]int64)
	}
	for _, ch := range accepted {
		d.marks[ch.Key] = append(d.marks[ch.Key], mark)
	}
}

func (d *indeterminateCommits) of(key store.Key) []int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.marks[key])
}

func (d *indeterminateCommits) all() (marks []int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, of := range d.marks {
		marks = append(marks, of...)
	}
	slices.Sort(marks)
	return slices.Compact(marks)
}

func (d *indeterminateCommits) remove(mark int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for k, of := range d.marks {
		if of = slices.DeleteFunc(of, func(m int64) bool { return m == mark }); len(of) == 0 {
			delete(d.marks, k)
		} else {
			d.marks[k] = of
		}
	}
}

// resolveMarks resolves marks of indeterminate commits. It reports whether the transaction of
// any of them was committed.
func (s *changeWriter) resolveMarks(ctx context.Context, c *pgx.Conn, marks []int64) (committed bool, err error) {
	for _, mark := range marks {
		m, err := s.resolveMark(ctx, c, mark)
		if err != nil {
			return committed, err
		}
		s.indeterminate.remove(mark)
		s.log.Info("resolved the outcome of an earlier commit", "committed", m)
		committed = committed || m
	}
	return committed, nil
}

// readTask is readCall for the data of a task. It first resolves the task's indeterminate commits.
func (s *changeWriter) readTask(ctx context.Context, op string, key store.Key, f func(ctx context.Context, c *pgx.Conn) error) error {
	return s.readCall(ctx, op, func(ctx context.Context, c *pgx.Conn) error {
		if _, err := s.resolveMarks(ctx, c, s.indeterminate.of(key)); err != nil {
			return err
		}
		return f(ctx, c)
	})
}

// resolveEarlierCommits resolves indeterminate commits before a change under a lease. It
// fails if one of them was committed, which the caller does not know. Other changes need no
// such check: their guard is a version, or that the task does not exist.
func (s *changeWriter) resolveEarlierCommits(ctx context.Context, ch *store.Change) error {
	marks := s.indeterminate.of(ch.Key)
	if ch.Lease == nil || len(marks) == 0 {
		return nil
	}
	committed := false
	err := s.retry(ctx, "resolve an earlier commit", func(ctx context.Context, c *pgx.Conn) error {
		m, err := s.resolveMarks(ctx, c, marks)
		committed = committed || m
		return err
	})
	if err == nil && committed {
		err = a2a.Wrap(a2a.CodeUnavailable, errIndeterminate, "task %s: an earlier change was stored although its answer was lost", a2a.Quote(ch.Key.ID))
	}
	return err
}
