package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/internal/content"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// The statements of reads. A log row is read without its events where its
// snapshot makes them needless.
const (
	sqlSelectRow   = `SELECT ` + rowColumns + ` FROM task_rows t WHERE t.owner = ? AND t.id = ?`
	sqlSelectRowPK = `SELECT ` + rowColumns + ` FROM task_rows t WHERE t.pk = ?`

	sqlTaskLog = `l.id, l.snapshot, CASE WHEN l.snapshot IS NULL OR l.id > (t.pk << 24) + t.checkpoint THEN l.events END
		FROM task_rows t JOIN task_log l ON l.id BETWEEN (t.pk << 24) + t.checkpoint AND (t.pk << 24) + 16777215`
	sqlReadTask   = `SELECT ` + rowColumns + `, ` + sqlTaskLog + ` WHERE t.owner = ? AND t.id = ? ORDER BY l.id`
	sqlReadTaskPK = `SELECT ` + rowColumns + `, ` + sqlTaskLog + ` WHERE t.pk = ? ORDER BY l.id`

	sqlReadLog = `SELECT id, snapshot, events FROM task_log WHERE id BETWEEN ? AND ? ORDER BY id`
	// The row that holds the event after a sequence may begin before it.
	sqlEventsFrom = ` FROM task_log WHERE id >= coalesce((SELECT max(id) FROM task_log WHERE id BETWEEN ?1 AND ?2), ?2) AND id <= ?3 ORDER BY id`
	sqlReadEvents = `SELECT id, events` + sqlEventsFrom
	sqlLogRows    = `SELECT id, n, octet_length(events) + large` + sqlEventsFrom + ` LIMIT ?4`
	// A row that is too large is null.
	sqlLaneEvents = `SELECT id, CASE WHEN octet_length(events) + large <= ?4 THEN events END` + sqlEventsFrom

	sqlReadContent = `SELECT data FROM task_contents WHERE task_pk = ? AND hash = ?`

	sqlSelectKey     = `SELECT owner, key, hash, task_id, seq, created_at FROM idempotency_keys WHERE owner = ? AND key = ?`
	sqlReadSteps     = `SELECT id, name, result, artifacts FROM task_steps WHERE task_pk = ? AND turn = ?`
	sqlReadHeartbeat = `SELECT beats FROM heartbeat WHERE pk = 2`
)

// reader is a connection of the read pool.
type reader struct {
	*conn

	begin, end                  *stmt
	selectRow, selectRowPK      *stmt
	task, taskPK                *stmt
	log, events, content        *stmt
	logRows, laneEvents         *stmt
	steps, key                  *stmt
	context                     *stmt
	contextFirst, contextNewest *stmt
	pendingDeletions, tallies   *stmt
	feedback, taskFeedback      *stmt
	heartbeat, backlog, queued  *stmt
	lane, pushBacklog           *stmt
	endpoints                   *stmt
	allStates, contextStates    *stmt

	// lists are the statements that walk and count, made when they are first used.
	lists map[string]*stmt
}

func openReader(path string, mode access, cacheKB int) (*reader, error) {
	c, err := openConn(path, mode, "busy_timeout(5000)", "query_only(1)", "temp_store(memory)", fmt.Sprintf("cache_size(-%d)", cacheKB))
	if err != nil {
		return nil, err
	}
	r := &reader{conn: c, lists: make(map[string]*stmt)}
	err = r.prepareAll(map[**stmt]string{
		&r.begin: `BEGIN`, &r.end: `COMMIT`,
		&r.selectRow: sqlSelectRow, &r.selectRowPK: sqlSelectRowPK, &r.task: sqlReadTask, &r.taskPK: sqlReadTaskPK,
		&r.log: sqlReadLog, &r.events: sqlReadEvents, &r.logRows: sqlLogRows, &r.laneEvents: sqlLaneEvents,
		&r.content: sqlReadContent,
		&r.steps:   sqlReadSteps, &r.key: sqlSelectKey, &r.heartbeat: sqlReadHeartbeat, &r.backlog: sqlBacklog, &r.queued: sqlQueued, &r.allStates: sqlStates, &r.contextStates: sqlContextStates,
		&r.context: sqlReadContext, &r.contextFirst: sqlContextFirst, &r.contextNewest: sqlContextNewest,
		&r.pendingDeletions: sqlPendingDeletions, &r.tallies: sqlTallies, &r.feedback: sqlFeedback, &r.taskFeedback: sqlTaskFeedback,
		&r.lane: sqlClaimedLane, &r.pushBacklog: sqlPushBacklog, &r.endpoints: sqlEndpoints,
	})
	if err != nil {
		_ = c.close()
		return nil, err
	}
	return r, nil
}

// read runs f with a connection of the pool.
func (s *Store) read(ctx context.Context, f func(r *reader) error) error {
	return s.allowed(ctx, func() error { return s.withReader(ctx, f) })
}

// allowed runs f unless the store is closed or ctx is done, and keeps the store from being
// closed meanwhile.
func (s *Store) allowed(ctx context.Context, f func() error) error {
	defer s.gate.RUnlock()
	if s.gate.RLock(); s.closed {
		return store.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return f()
}

// withReader is read for callers that are inside the gate.
func (s *Store) withReader(ctx context.Context, f func(r *reader) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var r *reader
	select {
	case r = <-s.readers:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { s.readers <- r }()
	if err := s.reads.enter(ctx); err != nil {
		return err
	}
	defer s.reads.leave()
	return failed(f(r), "read")
}

// readList is read for lists, which may take long: they leave readers for others.
func (s *Store) readList(ctx context.Context, f func(r *reader) error) error {
	select {
	case s.lists <- struct{}{}:
		defer func() { <-s.lists }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.read(ctx, f)
}

// Task implements store.Store.
func (s *Store) Task(ctx context.Context, key store.Key, opts store.TaskOptions) (*store.Task, error) {
	var t *store.Task
	err := s.read(ctx, func(r *reader) error {
		if opts.Outline {
			row, err := r.row(key)
			t = row.outline()
			return err
		}
		var err error
		t, err = r.readTask(r.task, opts, key.Owner, key.ID)
		return err
	})
	if err != nil {
		return nil, err
	}
	t.Cut(opts)
	return t, nil
}

// readTask folds the rows of a task's log from its checkpoint on.
func (r *reader) readTask(s *stmt, opts store.TaskOptions, args ...any) (*store.Task, error) {
	var t *store.Task
	var row taskRow
	err := s.query(context.Background(), func(rec record) error {
		if t == nil {
			row.scan(rec)
			t = row.task()
		}
		return r.foldLog(t, &row, rec[rowWidth:], opts.OmitArtifacts)
	}, args...)
	switch {
	case err != nil:
		return nil, err
	case t == nil:
		return nil, store.ErrNotFound
	}
	row.settle(t)
	return t, nil
}

// taskAsOf returns a task as it stood when its row was as given, whatever has
// happened since: the log only grows.
func (s *Store) taskAsOf(ctx context.Context, row *taskRow) (*store.Task, error) {
	t := row.task()
	err := s.withReader(ctx, func(r *reader) error {
		return r.log.query(context.Background(), func(rec record) error {
			return r.foldLog(t, row, rec, false)
		}, row.logID(row.checkpoint), row.logID(row.seq))
	})
	if errors.Is(err, errSuperseded) {
		whole := *row
		whole.checkpoint = 1
		return s.taskAsOf(ctx, &whole)
	}
	row.settle(t)
	return t, err
}

// errSuperseded reports that the snapshot from which a log was to be read was replaced by a
// newer one after the task's row was read. The log from its start folds to the same task.
var errSuperseded = errors.New("snapshot was replaced")

// foldLog adds a log row (id, snapshot, events) to a task.
func (r *reader) foldLog(t *store.Task, row *taskRow, rec record, omitArtifacts bool) error {
	id := rec.int(0)
	first := id & logMask
	if first == row.checkpoint && !rec.null(1) {
		data, err := r.whole(id, rec.json(1), omitArtifacts)
		if err != nil {
			return fmt.Errorf("task %s: snapshot: %w", row.key.ID, err)
		}
		t.LogSize = int64(len(data))
		return foldSnapshot(t, data, omitArtifacts)
	}
	if first == row.checkpoint && first > 1 {
		return errSuperseded
	}
	data, err := r.whole(id, rec.json(2), omitArtifacts)
	if err != nil {
		return fmt.Errorf("task %s: event %d: %w", row.key.ID, first, err)
	}
	t.LogSize += int64(len(data))
	events, err := store.DecodeEvents(data, first, row.key, row.contextID)
	if err != nil {
		return fmt.Errorf("task %s: event %d: %w", row.key.ID, first, err)
	}
	t.Apply(events...)
	return nil
}

// whole returns JSON of a log row with the large values in place.
func (r *reader) whole(logID int64, data []byte, omitArtifacts bool) ([]byte, error) {
	return content.Join(data, omitArtifacts, func(hash []byte) (value []byte, err error) {
		err = r.content.query(context.Background(), func(rec record) error {
			value = rec.json(0)
			return nil
		}, logID>>logShift, hash)
		if err == nil && value == nil {
			err = store.ErrNotFound
		}
		return value, err
	})
}

func foldSnapshot(t *store.Task, data []byte, omitArtifacts bool) error {
	var err error
	if omitArtifacts {
		var o outline
		err = wire.UnmarshalShared(data, &o)
		t.Status, t.History, t.Metadata = o.Status.status(), o.History, o.Metadata
	} else {
		var s snapshot
		err = wire.UnmarshalShared(data, &s)
		t.Status, t.History, t.Artifacts, t.Metadata = s.Status.status(), s.History, s.Artifacts, s.Metadata
	}
	if err != nil {
		return fmt.Errorf("task %s: snapshot: %w", t.Key.ID, err)
	}
	return nil
}

// settle restores what the row knows better than a log that was read in part.
func (t *taskRow) settle(task *store.Task) {
	task.Seq, task.ReceivedSeq, task.CreatedAt, task.Bytes = t.seq, t.receivedSeq, fromMillis(t.createdAt), t.bytes
}

// Events implements store.Store.
func (s *Store) Events(ctx context.Context, key store.Key, after int64, limit int) (events []store.Event, err error) {
	err = s.read(ctx, func(r *reader) error {
		row, err := r.row(key)
		if err != nil || limit <= 0 || after >= row.seq {
			return err
		}
		after = max(after, 0)
		last := min(row.seq, after+int64(limit))
		return r.events.query(context.Background(), func(rec record) error {
			first := rec.int(0) & logMask
			data, err := r.whole(rec.int(0), rec.json(1), false)
			if err != nil {
				return fmt.Errorf("task %s: event %d: %w", key.ID, first, err)
			}
			found, err := store.DecodeEvents(data, first, key, row.contextID)
			if err != nil {
				return fmt.Errorf("task %s: event %d: %w", key.ID, first, err)
			}
			for i := range found {
				if e := &found[i]; e.Seq > after && e.Seq <= last {
					events = append(events, *e)
				}
			}
			return nil
		}, row.logID(1), row.logID(after+1), row.logID(last))
	})
	return events, err
}

// LogRows implements store.Store.
func (s *Store) LogRows(ctx context.Context, key store.Key, after int64, limit int) (rows []store.LogRow, err error) {
	err = s.read(ctx, func(r *reader) error {
		row, err := r.row(key)
		if err != nil || limit <= 0 || after >= row.seq {
			return err
		}
		return r.logRows.query(context.Background(), func(rec record) error {
			rows = append(rows, store.LogRow{Seq: rec.int(0) & logMask, Events: int(rec.int(1)), Bytes: rec.int(2)})
			return nil
		}, row.logID(1), row.logID(max(after, 0)+1), row.logID(row.seq), int64(limit))
	})
	return rows, err
}

// row returns a task's row.
func (r *reader) row(key store.Key) (taskRow, error) { return r.rowBy(r.selectRow, key.Owner, key.ID) }

func (r *reader) rowBy(s *stmt, args ...any) (row taskRow, err error) {
	found := false
	err = s.query(context.Background(), func(rec record) error {
		row.scan(rec)
		found = true
		return nil
	}, args...)
	if err == nil && !found {
		err = store.ErrNotFound
	}
	return row, err
}

// Versions implements store.Store.
func (s *Store) Versions(ctx context.Context, keys []store.Key) (map[store.Key]store.TaskVersion, error) {
	versions := make(map[store.Key]store.TaskVersion, len(keys))
	err := s.allowed(ctx, func() error {
		at := s.rest.at()
		keys = slices.DeleteFunc(slices.Clone(keys), func(key store.Key) bool {
			row, ok := s.rest.get(key)
			if ok {
				versions[key] = row.outline().Version()
			}
			return ok
		})
		if len(keys) == 0 {
			return nil
		}
		return s.withReader(ctx, func(r *reader) error {
			for _, key := range keys {
				row, err := r.row(key)
				if errors.Is(err, store.ErrNotFound) {
					continue
				}
				if err != nil {
					return err
				}
				s.rest.put(at, row)
				versions[key] = row.outline().Version()
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return versions, nil
}

// Steps implements store.Store.
func (s *Store) Steps(ctx context.Context, key store.Key, turn int) (steps []store.Step, err error) {
	err = s.read(ctx, func(r *reader) error {
		row, err := r.row(key)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		var order []int64
		err = r.steps.query(context.Background(), func(rec record) error {
			at, _ := slices.BinarySearch(order, rec.int(0))
			order = slices.Insert(order, at, rec.int(0))
			step := store.Step{Turn: turn, Name: rec.text(1), Result: []byte(rec.text(2))}
			if !rec.null(3) {
				step.Artifacts = []byte(rec.text(3))
			}
			steps = slices.Insert(steps, at, step)
			return nil
		}, row.pk, int64(turn))
		return err
	})
	return steps, err
}
