package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/backend/internal/sqlrow"
	"github.com/holdfast-dev/holdfast/internal/content"
	"github.com/holdfast-dev/holdfast/store"
)

// The statements of reads. They return the events of a log row only if its snapshot
// does not contain them.
var (
	sqlSelectRow   = `SELECT ` + rowColumns + ` FROM task_rows t WHERE t.owner = ? AND t.id = ?`
	sqlSelectRowPK = `SELECT ` + rowColumns + ` FROM task_rows t WHERE t.pk = ?`

	sqlTaskLog = `l.id, l.snapshot, CASE WHEN l.snapshot IS NULL OR l.id > (t.pk << 24) + t.checkpoint THEN l.events END
		FROM task_rows t JOIN task_log l ON l.id BETWEEN (t.pk << 24) + t.checkpoint AND (t.pk << 24) + 16777215`
	sqlReadTask   = `SELECT ` + rowColumns + `, ` + sqlTaskLog + ` WHERE t.owner = ? AND t.id = ? ORDER BY l.id`
	sqlReadTaskPK = `SELECT ` + rowColumns + `, ` + sqlTaskLog + ` WHERE t.pk = ? ORDER BY l.id`

	sqlReadLog = `SELECT id, snapshot, events FROM task_log WHERE id BETWEEN ? AND ? ORDER BY id`
	// The row that contains the event after a sequence may start before it.
	sqlEventsFrom = ` FROM task_log WHERE id >= coalesce((SELECT max(id) FROM task_log WHERE id BETWEEN ?1 AND ?2), ?2) AND id <= ?3 ORDER BY id`
	sqlReadEvents = `SELECT id, events` + sqlEventsFrom
	sqlLogRows    = `SELECT id, n, octet_length(events) + large` + sqlEventsFrom + ` LIMIT ?4`
	// Events of rows larger than ?4 are null.
	sqlLaneEvents = `SELECT id, CASE WHEN octet_length(events) + large <= ?4 THEN events END` + sqlEventsFrom

	sqlReadContent = `SELECT data FROM task_contents WHERE task_pk = ? AND hash = ?`

	sqlReadSteps = `SELECT id, name, result, artifacts FROM task_steps WHERE task_pk = ? AND turn = ?`
)

// taskStore reads, claims and deletes tasks.
type taskStore struct {
	*changeWriter
	terminal *terminalCache
}

// reader is a connection of the read pool.
type reader struct{ *conn }

func openReader(path string, mode access, cacheKB int) (*reader, error) {
	c, err := openConn(path, mode, "busy_timeout(5000)", "query_only(1)", "temp_store(memory)", fmt.Sprintf("cache_size(-%d)", cacheKB))
	if err != nil {
		return nil, err
	}
	return &reader{c}, nil
}

// Task implements store.Tasks.
func (s *taskStore) Task(ctx context.Context, key store.Key, opts store.TaskOptions) (*store.Task, error) {
	var t *store.Task
	err := s.read(ctx, func(r *reader) error {
		if opts.Outline {
			row, err := r.row(key)
			t = row.Outline()
			return err
		}
		var err error
		t, err = r.readTask(sqlReadTask, opts, key.Owner, key.ID)
		return err
	})
	if err != nil {
		return nil, err
	}
	t.Cut(opts)
	return t, nil
}

// readTask applies the rows of a task's log, starting at the row that [sqlrow.Task] names in
// Checkpoint: the newest row with a snapshot or, if there is none, the first row.
func (r *reader) readTask(text string, opts store.TaskOptions, args ...any) (*store.Task, error) {
	var t *store.Task
	var row taskRow
	err := r.query(text, func(rec record) error {
		if t == nil {
			row.scan(rec)
			t = row.Value()
		}
		return r.foldLog(t, &row, rec[rowWidth:], opts.OmitArtifacts)
	}, args...)
	switch {
	case err != nil:
		return nil, err
	case t == nil:
		return nil, store.ErrNotFound
	}
	row.CopyTo(t)
	return t, nil
}

// taskAsOf returns a task in the state it had when its row was read, ignoring later
// changes.
func (s *taskStore) taskAsOf(ctx context.Context, row *taskRow) (*store.Task, error) {
	t := row.Value()
	err := s.withReader(ctx, func(r *reader) error {
		return r.query(sqlReadLog, func(rec record) error {
			return r.foldLog(t, row, rec, false)
		}, row.logID(row.Checkpoint), row.logID(row.Seq))
	})
	if errors.Is(err, sqlrow.ErrSuperseded) {
		whole := *row
		whole.Checkpoint = 1
		return s.taskAsOf(ctx, &whole)
	}
	row.CopyTo(t)
	return t, err
}

// foldLog applies a log row (id, snapshot, events) to a task.
func (r *reader) foldLog(t *store.Task, row *taskRow, rec record, omitArtifacts bool) error {
	first := rec.int(0) & logMask
	snapshot, err := r.whole(rec, 1, omitArtifacts)
	if err != nil {
		return fmt.Errorf("task %s: snapshot: %w", row.Key.ID, err)
	}
	events, err := r.whole(rec, 2, omitArtifacts)
	if err != nil {
		return fmt.Errorf("task %s: event %d: %w", row.Key.ID, first, err)
	}
	return row.Fold(t, first, snapshot, events, omitArtifacts)
}

// whole returns the JSON of a column with its large values inserted, or nil if it is null.
// rec is a log row that starts with its id.
func (r *reader) whole(rec record, column int, omitArtifacts bool) ([]byte, error) {
	if rec.null(column) {
		return nil, nil
	}
	return content.Join(rec.json(column), omitArtifacts, func(hash []byte) (value []byte, err error) {
		err = r.query(sqlReadContent, func(rec record) error {
			value = rec.json(0)
			return nil
		}, rec.int(0)>>logShift, hash)
		if err == nil && value == nil {
			err = store.ErrNotFound
		}
		return value, err
	})
}

// Events implements store.Tasks.
func (s *taskStore) Events(ctx context.Context, key store.Key, after int64, limit int) (events []store.Event, err error) {
	err = s.read(ctx, func(r *reader) error {
		row, err := r.row(key)
		if err != nil || limit <= 0 || after >= row.Seq {
			return err
		}
		after = max(after, 0)
		last := min(row.Seq, after+int64(limit))
		return r.query(sqlReadEvents, func(rec record) error {
			found, err := r.decodeEvents(rec, key, row.ContextID)
			if err != nil {
				return err
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

// decodeEvents returns the events of a log row (id, events).
func (r *reader) decodeEvents(rec record, key store.Key, contextID string) ([]store.Event, error) {
	first := rec.int(0) & logMask
	data, err := r.whole(rec, 1, false)
	if err != nil {
		return nil, fmt.Errorf("task %s: event %d: %w", key.ID, first, err)
	}
	return sqlrow.DecodeEvents(data, first, key, contextID)
}

// LogRows implements store.Tasks.
func (s *taskStore) LogRows(ctx context.Context, key store.Key, after int64, limit int) (rows []store.LogRow, err error) {
	err = s.read(ctx, func(r *reader) error {
		row, err := r.row(key)
		if err != nil || limit <= 0 || after >= row.Seq {
			return err
		}
		return r.query(sqlLogRows, func(rec record) error {
			rows = append(rows, store.LogRow{Seq: rec.int(0) & logMask, Events: int(rec.int(1)), Bytes: rec.int(2)})
			return nil
		}, row.logID(1), row.logID(max(after, 0)+1), row.logID(row.Seq), int64(limit))
	})
	return rows, err
}

// row returns the row of a task, or store.ErrNotFound.
func (r *reader) row(key store.Key) (taskRow, error) { return r.rowBy(sqlSelectRow, key.Owner, key.ID) }

func (r *reader) rowBy(text string, args ...any) (row taskRow, err error) {
	found := false
	err = r.query(text, func(rec record) error {
		row.scan(rec)
		found = true
		return nil
	}, args...)
	if err == nil && !found {
		err = store.ErrNotFound
	}
	return row, err
}

// Versions implements store.Tasks.
func (s *taskStore) Versions(ctx context.Context, keys []store.Key) (map[store.Key]store.TaskVersion, error) {
	versions := make(map[store.Key]store.TaskVersion, len(keys))
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	at := s.terminal.version()
	keys = slices.DeleteFunc(slices.Clone(keys), func(key store.Key) bool {
		row, ok := s.terminal.get(key)
		if ok {
			versions[key] = row.Outline().Version()
		}
		return ok
	})
	if len(keys) == 0 {
		return versions, nil
	}
	err := s.withReader(ctx, func(r *reader) error {
		for _, key := range keys {
			row, err := r.row(key)
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			s.terminal.put(at, row)
			versions[key] = row.Outline().Version()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return versions, nil
}

// Steps implements store.Tasks.
func (s *taskStore) Steps(ctx context.Context, key store.Key, turn int) (steps []store.Step, err error) {
	err = s.read(ctx, func(r *reader) error {
		row, err := r.row(key)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		var order []int64
		err = r.query(sqlReadSteps, func(rec record) error {
			at, _ := slices.BinarySearch(order, rec.int(0))
			order = slices.Insert(order, at, rec.int(0))
			step := store.Step{Turn: turn, Name: rec.text(1), Result: []byte(rec.text(2))}
			if !rec.null(3) {
				step.Artifacts = []byte(rec.text(3))
			}
			steps = slices.Insert(steps, at, step)
			return nil
		}, row.PK, int64(turn))
		return err
	})
	return steps, err
}
