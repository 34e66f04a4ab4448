package postgres

import (
	"context"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// doubts are marks that could not be settled, by the tasks that their transactions
// change: one may yet be committed, when the server reads it at last. So whoever
// reads a task, or changes it under a lease, settles its marks first; then what is
// read is all there is. What transact does needs none of this: its locks are held
// until the server reads the commit, and whoever changes the same waits for them.
type doubts struct {
	mu    sync.Mutex
	marks map[store.Key][]int64
}

func (d *doubts) add(mark int64, live []*change) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.marks == nil {
		d.marks = make(map[store.Key][]int64)
	}
	for _, ch := range live {
		d.marks[ch.Key] = append(d.marks[ch.Key], mark)
	}
}

func (d *doubts) of(key store.Key) []int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.marks[key])
}

func (d *doubts) all() (marks []int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, of := range d.marks {
		marks = append(marks, of...)
	}
	slices.Sort(marks)
	return slices.Compact(marks)
}

func (d *doubts) remove(mark int64) {
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

// clear settles marks that could not be settled before. It reports whether the
// transaction of one of them was committed.
func (s *Store) clear(ctx context.Context, c *pgx.Conn, marks []int64) (made bool, err error) {
	for _, mark := range marks {
		m, err := s.ruleOut(ctx, c, mark)
		if err != nil {
			return made, err
		}
		s.doubts.remove(mark)
		s.log.Info("outcome of a commit is known now", "made", m)
		made = made || m
	}
	return made, nil
}

// readTask is read for what belongs to a task.
func (s *Store) readTask(ctx context.Context, doing string, key store.Key, f func(ctx context.Context, c *pgx.Conn) error) error {
	return s.readCall(ctx, doing, func(ctx context.Context, c *pgx.Conn) error {
		if _, err := s.clear(ctx, c, s.doubts.of(key)); err != nil {
			return err
		}
		return f(ctx, c)
	})
}

// undoubted refuses a change under a lease while another under it may have been
// made that its caller does not know of. Others are guarded by a version or by what
// must not be there yet.
func (s *Store) undoubted(ctx context.Context, ch *store.Change) error {
	marks := s.doubts.of(ch.Key)
	if ch.Lease == nil || len(marks) == 0 {
		return nil
	}
	made := false
	err := s.repeat(ctx, "settle an earlier commit", func(ctx context.Context, c *pgx.Conn) error {
		m, err := s.clear(ctx, c, marks)
		made = made || m
		return err
	})
	if err == nil && made {
		err = a2a.Wrap(a2a.CodeUnavailable, errOpen, "task %s: a change before was stored though its answer was lost", a2a.Quote(ch.Key.ID))
	}
	return err
}
