package postgres

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/store"
)

// sqlReadTaskBatch is sqlReadTask for several tasks, without large values. Its last columns are
// the size of the row's large values and the ordinal of the task. The condition on the ordinal
// prevents the planner from caching log rows by owner and number (Memoize), which costs 5 % of a
// read, because no task occurs twice.
var sqlReadTaskBatch = `SELECT ` + rowColumns + `, l.seq, l.snapshot,
		CASE WHEN l.snapshot IS NULL OR l.seq > t.checkpoint THEN l.events END, l.large, u.ord
	FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS u(owner, id, ord)
	CROSS JOIN LATERAL (SELECT * FROM {s}.task_rows r
		WHERE r.owner = u.owner COLLATE "POSIX" AND r.id = u.id COLLATE "POSIX" OFFSET 0) t
	LEFT JOIN LATERAL (SELECT * FROM {s}.task_log g
		WHERE g.owner = t.owner AND g.task_pk = t.pk AND g.seq >= t.checkpoint AND u.ord > 0 ORDER BY g.seq) l ON true`

// sqlReadVersionBatch is sqlReadTaskBatch without the logs.
var sqlReadVersionBatch = `SELECT ` + rowColumns + `, u.ord
	FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS u(owner, id, ord)
	CROSS JOIN LATERAL (SELECT * FROM {s}.task_rows r
		WHERE r.owner = u.owner COLLATE "POSIX" AND r.id = u.id COLLATE "POSIX" OFFSET 0) t`

const (
	// maxReadBatches is the maximum number of concurrent batches.
	maxReadBatches = 2
	// maxBatchTasks is the maximum number of tasks of a batch.
	maxBatchTasks = 64
	// maxBatchedTaskBytes is the maximum size of a task in a batch. Larger tasks are read by
	// statements of their own.
	maxBatchedTaskBytes = 256 << 10
)

// readBatcher combines concurrent reads of tasks: reads that arrive while others run are
// combined into the next batch.
type readBatcher struct {
	// read reads a batch.
	read func(group []*batchedRead) error

	mu      sync.Mutex
	waiting []*batchedRead
	running int // number of batches that are being read
}

// batchedRead is a call of Task or Versions that waits for its rows.
type batchedRead struct {
	key      store.Key
	rows     []record // as sqlReadTask returns them, or only the row of the task
	bytes    int
	tooLarge bool // the task has too much content for a batch
	err      error
	done     chan struct{}
}

// readBatched reads a task together with the tasks of concurrent calls. It returns nil if the
// task needs a statement of its own.
func (s *taskStore) readBatched(ctx context.Context, key store.Key) (*batchedRead, error) {
	if len(s.indeterminate.of(key)) > 0 || !storable(key.Owner, key.ID) {
		return nil, nil
	}
	r, err := s.taskBatches.do(ctx, key)
	if err != nil || r.tooLarge {
		return nil, err
	}
	return r, nil
}

// do adds a read to the next batch and waits for it.
func (g *readBatcher) do(ctx context.Context, key store.Key) (*batchedRead, error) {
	r := &batchedRead{key: key, done: make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, r)
	if g.running < maxReadBatches {
		g.running++
		go g.run()
	}
	g.mu.Unlock()
	select {
	case <-r.done:
		return r, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// run reads batches until no reads are waiting.
func (g *readBatcher) run() {
	for {
		g.mu.Lock()
		n := min(len(g.waiting), maxBatchTasks)
		group := g.waiting[:n:n]
		if g.waiting = g.waiting[n:]; n == 0 {
			g.running--
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

func batchKeys(group []*batchedRead) (owners, ids []string) {
	for _, r := range group {
		owners, ids = append(owners, r.key.Owner), append(ids, r.key.ID)
	}
	return owners, ids
}

func (s *taskStore) readTaskBatch(group []*batchedRead) error {
	owners, ids := batchKeys(group)
	return s.readCall(context.Background(), "read tasks", func(ctx context.Context, c *pgx.Conn) error {
		for _, r := range group {
			r.rows, r.bytes, r.tooLarge = nil, 0, false
		}
		return s.eachRow(ctx, c, sqlReadTaskBatch, func(rec record) error {
			end := rowWidth + 3
			r := group[rec.int(end+1)-1]
			for _, value := range rec[:end] {
				r.bytes += len(value)
			}
			if r.tooLarge = r.tooLarge || !rec.null(end) || r.bytes > maxBatchedTaskBytes && len(group) > 1; r.tooLarge {
				r.rows = nil
				return nil
			}
			r.rows = append(r.rows, rec[:end].clone())
			return nil
		}, owners, ids)
	})
}

func (s *taskStore) readVersionBatch(group []*batchedRead) error {
	owners, ids := batchKeys(group)
	return s.readCall(context.Background(), "read versions of tasks", func(ctx context.Context, c *pgx.Conn) error {
		return s.eachRow(ctx, c, sqlReadVersionBatch, func(rec record) error {
			group[rec.int(rowWidth)-1].rows = []record{rec[:rowWidth].clone()}
			return nil
		}, owners, ids)
	})
}
