package postgres

import (
	"bytes"
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/backend/internal/sqlrow"
	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store"
)

// The statements of reads. They omit the events of a log row if its snapshot includes them.
var (
	sqlReadTask = `SELECT ` + rowColumns + `, l.seq, CASE WHEN l.seq = t.checkpoint THEN ` + inlineContents("l.snapshot", "$3::boolean") + ` END,
			CASE WHEN l.snapshot IS NULL OR l.seq > t.checkpoint THEN ` + inlineContents("l.events", "$3::boolean") + ` END
		FROM {s}.task_rows t
		LEFT JOIN {s}.task_log l ON l.owner = t.owner AND l.task_pk = t.pk AND l.seq >= t.checkpoint
		WHERE t.owner = $1::text COLLATE "POSIX" AND t.id = $2::text COLLATE "POSIX" ORDER BY l.seq`

	// sqlReadLogs reads the logs of tasks up to the versions of their rows.
	sqlReadLogs = `SELECT u.ord, l.seq, CASE WHEN l.seq = u.first THEN ` + inlineContents("l.snapshot", "$5::boolean") + ` END,
			CASE WHEN l.snapshot IS NULL OR l.seq > u.first THEN ` + inlineContents("l.events", "$5::boolean") + ` END
		FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[]) WITH ORDINALITY AS u(owner, pk, first, last, ord)
		CROSS JOIN LATERAL (SELECT * FROM {s}.task_log l
			WHERE l.owner = u.owner AND l.task_pk = u.pk AND l.seq BETWEEN u.first AND u.last ORDER BY l.seq) l`

	sqlReadVersions = `SELECT ` + rowColumns + ` FROM unnest($1::text[], $2::text[]) AS u(owner, id) CROSS JOIN LATERAL (
			SELECT * FROM {s}.task_rows r WHERE r.owner = u.owner COLLATE "POSIX" AND r.id = u.id COLLATE "POSIX" OFFSET 0) t`

	// The row that contains the event after a sequence may start before it. The rows of the one
	// task are in the order of the index, so they are not sorted again.
	sqlReadEvents = `SELECT t.seq, l.seq, ` + inlineContents("l.events", "true") + `, t.context_id
		FROM {s}.task_rows t
		LEFT JOIN LATERAL (SELECT * FROM {s}.task_log l
			WHERE l.owner = t.owner AND l.task_pk = t.pk AND l.seq <= $4::bigint AND l.seq >= coalesce(
				(SELECT f.seq FROM {s}.task_log f WHERE f.owner = t.owner AND f.task_pk = t.pk AND f.seq <= $3::bigint ORDER BY f.seq DESC LIMIT 1), 0)
			ORDER BY l.seq) l ON true
		WHERE t.owner = $1::text COLLATE "POSIX" AND t.id = $2::text COLLATE "POSIX"`
)

const (
	sqlLogRows = `SELECT t.seq, l.seq, l.n, l.bytes FROM {s}.task_rows t LEFT JOIN LATERAL (
			SELECT g.seq, g.n, octet_length(g.events) + coalesce(g.large, 0) AS bytes FROM {s}.task_log g WHERE g.owner = t.owner AND g.task_pk = t.pk AND g.seq >= coalesce(
				(SELECT f.seq FROM {s}.task_log f WHERE f.owner = t.owner AND f.task_pk = t.pk AND f.seq <= $3::bigint ORDER BY f.seq DESC LIMIT 1), 0)
			ORDER BY g.seq LIMIT $4::bigint) l ON t.seq >= $3::bigint
		WHERE t.owner = $1::text COLLATE "POSIX" AND t.id = $2::text COLLATE "POSIX" ORDER BY l.seq`

	// The sum prevents the planner from reading all steps in the order of id.
	sqlReadSteps = `SELECT p.name, p.result, p.artifacts FROM {s}.task_rows t CROSS JOIN LATERAL (
			SELECT p.id, p.name, p.result, p.artifacts FROM {s}.task_steps p WHERE p.owner = t.owner AND p.task_pk = t.pk AND p.turn = $3::bigint OFFSET 0) p
		WHERE t.owner = $1::text COLLATE "POSIX" AND t.id = $2::text COLLATE "POSIX" ORDER BY p.id + 0`
)

// taskStore reads, claims and removes tasks.
type taskStore struct {
	*changeWriter
	taskBatches    readBatcher
	versionBatches readBatcher // reads of versions
	pageReads      listReads

	sweptKeys, sweptRecords sweepBound
}

// inlineContents returns the expression for a column of task_log l with its large values
// inserted. It inserts values of artifacts only if artifacts is true.
func inlineContents(column, artifacts string) string {
	return "CASE WHEN l.large IS NULL THEN " + column + " ELSE {s}.inline_contents(l.owner, l.task_pk, " + column + ", " + artifacts + ") END"
}

// storable reports whether the database can store all of these names.
func storable(names ...string) bool { return sqlkit.PostgreSQL.Storable(names...) }

// Task implements [store.Tasks].
func (s *taskStore) Task(ctx context.Context, key store.Key, opts store.TaskOptions) (*store.Task, error) {
	if opts.Outline {
		return s.outline(ctx, key)
	}
	batched, err := s.readBatched(ctx, key)
	if err != nil {
		return nil, err
	}
	fold := taskFold{omitArtifacts: opts.OmitArtifacts}
	if batched != nil {
		for _, r := range batched.rows {
			if err := fold.add(r); err != nil {
				return nil, wrapError(ctx, err, "read task")
			}
		}
	} else if err := s.readSingle(ctx, key, &fold); err != nil {
		return nil, err
	}
	if fold.task == nil {
		return nil, store.ErrNotFound
	}
	fold.row.CopyTo(fold.task)
	fold.task.Cut(opts)
	return fold.task, nil
}

// outline reads the row of a task.
func (s *taskStore) outline(ctx context.Context, key store.Key) (outline *store.Task, err error) {
	switch {
	case !storable(key.Owner, key.ID):
	case len(s.indeterminate.of(key)) == 0:
		outline, err = s.outlineBatched(ctx, key)
	default:
		err = s.readTask(ctx, "read task", key, func(ctx context.Context, c *pgx.Conn) error {
			outline = nil
			return s.eachRow(ctx, c, sqlReadVersions, func(r record) error {
				var row taskRow
				scanTask(&row, r)
				outline = row.Outline()
				return nil
			}, []string{key.Owner}, []string{key.ID})
		})
	}
	if err == nil && outline == nil {
		err = store.ErrNotFound
	}
	return outline, err
}

// outlineBatched reads the row of a task together with the rows of concurrent calls. It
// returns nil if the task does not exist.
func (s *taskStore) outlineBatched(ctx context.Context, key store.Key) (*store.Task, error) {
	r, err := s.versionBatches.do(ctx, key)
	if err != nil || len(r.rows) == 0 {
		return nil, err
	}
	var row taskRow
	scanTask(&row, r.rows[0])
	return row.Outline(), nil
}

func (s *taskStore) readSingle(ctx context.Context, key store.Key, fold *taskFold) error {
	return s.readTask(ctx, "read task", key, func(ctx context.Context, c *pgx.Conn) error {
		fold.task = nil
		if !storable(key.Owner, key.ID) {
			return nil
		}
		return s.eachRow(ctx, c, sqlReadTask, fold.add, key.Owner, key.ID, !fold.omitArtifacts)
	})
}

// taskFold builds a task from the rows of sqlReadTask.
type taskFold struct {
	task          *store.Task // nil before the first row
	row           taskRow
	omitArtifacts bool
}

func (f *taskFold) add(r record) error {
	if f.task == nil {
		scanTask(&f.row, r)
		f.task = f.row.Value()
	}
	return foldLog(f.task, &f.row, r[rowWidth:], f.omitArtifacts)
}

// readLogs returns tasks at the versions of their rows, in the same order. Tasks that were
// removed since are nil.
func (s *taskStore) readLogs(ctx context.Context, on querier, rows []taskRow, omitArtifacts bool) ([]*store.Task, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	owners := make([]string, len(rows))
	pks, firsts, lasts := make([]int64, len(rows)), make([]int64, len(rows)), make([]int64, len(rows))
	for i := range rows {
		owners[i], pks[i], firsts[i], lasts[i] = rows[i].Key.Owner, rows[i].PK, rows[i].Checkpoint, rows[i].Seq
	}
	tasks := make([]*store.Task, len(rows))
	superseded := make(map[int64]bool)
	err := s.eachRow(ctx, on, sqlReadLogs, func(r record) error {
		i := r.int(0) - 1
		if tasks[i] == nil {
			tasks[i] = rows[i].Value()
		}
		err := foldLog(tasks[i], &rows[i], r[1:], omitArtifacts)
		if errors.Is(err, sqlrow.ErrSuperseded) {
			superseded[i] = true
			return nil
		}
		return err
	}, owners, pks, firsts, lasts, !omitArtifacts)
	if err != nil {
		return nil, err
	}
	for i := range superseded {
		row := rows[i]
		row.Checkpoint = 1
		whole, err := s.readLogs(ctx, on, []taskRow{row}, omitArtifacts)
		if err != nil {
			return nil, err
		}
		tasks[i] = whole[0]
	}
	for i, t := range tasks {
		rows[i].CopyTo(t)
	}
	return tasks, nil
}

// foldLog applies a log row (seq, snapshot, events) to a task.
func foldLog(t *store.Task, row *taskRow, r record, omitArtifacts bool) error {
	if r.null(0) {
		return nil
	}
	return row.Fold(t, r.int(0), r.json(1), r.json(2), omitArtifacts)
}

// Events implements [store.Tasks].
func (s *taskStore) Events(ctx context.Context, key store.Key, after int64, limit int) (events []store.Event, err error) {
	after = max(after, 0)
	last := after + int64(max(limit, 0))
	err = s.readTask(ctx, "read events", key, func(ctx context.Context, c *pgx.Conn) error {
		if !storable(key.Owner, key.ID) {
			return store.ErrNotFound
		}
		found := false
		events = nil
		err := s.eachRow(ctx, c, sqlReadEvents, func(r record) error {
			found = true
			if r.null(1) || limit <= 0 || after >= r.int(0) {
				return nil
			}
			first := r.int(1)
			decoded, err := sqlrow.DecodeEvents(r.json(2), first, key, r.text(3))
			if err != nil {
				return err
			}
			for i := range decoded {
				if e := &decoded[i]; e.Seq > after && e.Seq <= last {
					events = append(events, *e)
				}
			}
			return nil
		}, key.Owner, key.ID, after+1, last)
		if err == nil && !found {
			err = store.ErrNotFound
		}
		return err
	})
	return events, err
}

// LogRows implements [store.Tasks].
func (s *taskStore) LogRows(ctx context.Context, key store.Key, after int64, limit int) (rows []store.LogRow, err error) {
	err = s.readTask(ctx, "read sizes of events", key, func(ctx context.Context, c *pgx.Conn) error {
		if !storable(key.Owner, key.ID) {
			return store.ErrNotFound
		}
		found := false
		rows = nil
		err := s.eachRow(ctx, c, sqlLogRows, func(r record) error {
			found = true
			if !r.null(1) {
				rows = append(rows, store.LogRow{Seq: r.int(1), Events: int(r.int(2)), Bytes: r.int(3)})
			}
			return nil
		}, key.Owner, key.ID, min(max(after, 0), farFuture-1)+1, int64(max(limit, 0)))
		if err == nil && !found {
			err = store.ErrNotFound
		}
		return err
	})
	return rows, err
}

// Versions implements [store.Tasks].
func (s *taskStore) Versions(ctx context.Context, keys []store.Key) (versions map[store.Key]store.TaskVersion, err error) {
	if len(keys) == 1 && storable(keys[0].Owner, keys[0].ID) {
		outline, err := s.outlineBatched(ctx, keys[0])
		if outline == nil {
			return nil, err
		}
		return map[store.Key]store.TaskVersion{keys[0]: outline.Version()}, nil
	}
	var owners, ids []string
	for _, k := range keys {
		if storable(k.Owner, k.ID) {
			owners, ids = append(owners, k.Owner), append(ids, k.ID)
		}
	}
	err = s.read(ctx, "read versions of tasks", func(ctx context.Context, c *pgx.Conn) error {
		versions = make(map[store.Key]store.TaskVersion, len(ids))
		return s.eachRow(ctx, c, sqlReadVersions, func(r record) error {
			var row taskRow
			scanTask(&row, r)
			versions[row.Key] = row.Value().Version()
			return nil
		}, owners, ids)
	})
	return versions, err
}

// Steps implements [store.Tasks].
func (s *taskStore) Steps(ctx context.Context, key store.Key, turn int) (steps []store.Step, err error) {
	err = s.readTask(ctx, "read steps", key, func(ctx context.Context, c *pgx.Conn) error {
		steps = nil
		if !storable(key.Owner, key.ID) {
			return nil
		}
		return s.eachRow(ctx, c, sqlReadSteps, func(r record) error {
			steps = append(steps, store.Step{Turn: turn, Name: r.text(0), Result: append([]byte{}, r[1]...), Artifacts: bytes.Clone(r[2])})
			return nil
		}, key.Owner, key.ID, turn)
	})
	return steps, err
}
