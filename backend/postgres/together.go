package postgres

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/store"
)

// sqlReadTasks is sqlReadTask for several tasks, without their large values. Its last columns
// tell whether a row has some, and which task it is of.
const sqlReadTasks = `SELECT ` + rowColumns + `, l.seq, l.snapshot,
		CASE WHEN l.snapshot IS NULL OR l.seq > t.checkpoint THEN l.events END, l.large, u.ord
	FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS u(owner, id, ord)
	CROSS JOIN LATERAL (SELECT * FROM {s}.task_rows r
		WHERE r.owner = u.owner COLLATE "POSIX" AND r.id = u.id COLLATE "POSIX" OFFSET 0) t
	LEFT JOIN LATERAL (SELECT * FROM {s}.task_log g
		WHERE g.task_pk = t.pk AND g.seq >= t.checkpoint ORDER BY g.seq) l ON true`

// sqlReadVersionsTogether is the same without the logs.
const sqlReadVersionsTogether = `SELECT ` + rowColumns + `, u.ord
	FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS u(owner, id, ord)
	CROSS JOIN LATERAL (SELECT * FROM {s}.task_rows r
		WHERE r.owner = u.owner COLLATE "POSIX" AND r.id = u.id COLLATE "POSIX" OFFSET 0) t`

const (
	// togetherGroups is how many statements read tasks together at the same time.
	togetherGroups = 2
	// togetherTasks is how many tasks one of them reads at most.
	togetherTasks = 64
	// togetherBytes is how much of a task is held for a caller that waits with others:
	// larger tasks are read one by one.
	togetherBytes = 256 << 10
)

// taskReads groups concurrent reads of tasks: those that are asked for while statements
// are under way are read by the next one.
type taskReads struct {
	// read reads a group.
	read func(group []*taskRead) error

	mu      sync.Mutex
	waiting []*taskRead
	groups  int // that are under way
}

// taskRead is a call of Task or Versions that waits for its rows.
type taskRead struct {
	key   store.Key
	rows  []record // as sqlReadTask returns them, or the row alone
	bytes int
	alone bool // it has too much content to be read with others
	err   error
	done  chan struct{}
}

// readTogether reads a task with others that are asked for at the same time. It returns
// no read if the task is to be read alone.
func (s *Store) readTogether(ctx context.Context, key store.Key) (*taskRead, error) {
	if len(s.doubts.of(key)) > 0 || !storable(key.Owner, key.ID) {
		return nil, nil
	}
	r, err := s.reads.do(ctx, key)
	if err != nil || r.alone {
		return nil, err
	}
	return r, nil
}

// do reads with others that are asked for at the same time.
func (g *taskReads) do(ctx context.Context, key store.Key) (*taskRead, error) {
	r := &taskRead{key: key, done: make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, r)
	if g.groups < togetherGroups {
		g.groups++
		go g.readGroups()
	}
	g.mu.Unlock()
	select {
	case <-r.done:
		return r, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// readGroups reads tasks until none is asked for.
func (g *taskReads) readGroups() {
	for {
		g.mu.Lock()
		n := min(len(g.waiting), togetherTasks)
		group := g.waiting[:n:n]
		if g.waiting = g.waiting[n:]; n == 0 {
			g.groups--
			g.waiting = nil
		}
		g.mu.Unlock()
		if n == 0 {
			return
		}
		err := g.read(group)
		for _, r := range group {
			r.err = err
			close(r.done)
		}
	}
}

func namesOf(group []*taskRead) (owners, ids []string) {
	for _, r := range group {
		owners, ids = append(owners, r.key.Owner), append(ids, r.key.ID)
	}
	return owners, ids
}

func (s *Store) readGroup(group []*taskRead) error {
	owners, ids := namesOf(group)
	return s.readCall(context.Background(), "read tasks", func(ctx context.Context, c *pgx.Conn) error {
		for _, r := range group {
			r.rows, r.bytes, r.alone = nil, 0, false
		}
		return s.each(ctx, c, sqlReadTasks, func(rec record) error {
			end := rowWidth + 3
			r := group[rec.int(end+1)-1]
			for _, value := range rec[:end] {
				r.bytes += len(value)
			}
			if r.alone = r.alone || !rec.null(end) || r.bytes > togetherBytes && len(group) > 1; r.alone {
				r.rows = nil
				return nil
			}
			r.rows = append(r.rows, rec[:end].clone())
			return nil
		}, owners, ids)
	})
}

func (s *Store) readGroupVersions(group []*taskRead) error {
	owners, ids := namesOf(group)
	return s.readCall(context.Background(), "read versions of tasks", func(ctx context.Context, c *pgx.Conn) error {
		return s.each(ctx, c, sqlReadVersionsTogether, func(rec record) error {
			group[rec.int(rowWidth)-1].rows = []record{rec[:rowWidth].clone()}
			return nil
		}, owners, ids)
	})
}
