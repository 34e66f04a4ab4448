package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/internal/sqlrow"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/encoding"
	"github.com/holdfast-dev/holdfast/store/rules"
)

// contextStore reads, saves and removes contexts.
type contextStore struct {
	*taskStore
	deletions requestGroups[*contextDeletion]
}

// contextRow has the columns of a context besides its record, which has what clients describe.
type contextRow struct {
	Key       store.ContextKey `col:"owner,id"`
	Status    string           `col:"status"` // "" while the deletion is pending
	Name      string           `col:"name"`
	ParentID  string           `col:"parent_id"`
	CreatedAt int64            `col:"created_at"`
	UpdatedAt int64            `col:"updated_at"`
	Version   int64            `col:"version"`
	TaskCount int64            `col:"task_count"`
}

// contextParams are the columns of a context that the client's description determines.
type contextParams struct {
	Key       store.ContextKey `col:"owner,id"`
	Status    string           `col:"status"`
	Name      []byte           `col:"name"`
	ParentID  string           `col:"parent_id"`
	UpdatedAt int64            `col:"updated_at"`
	Labels    []int64          `col:"labels"`
	Record    string           `col:"record"`
	CreatedAt int64            `col:"created_at"`
}

var (
	contextRowColumns = sqlrow.Of[contextRow]()
	contextList       = contextRowColumns.List("t.") + ", t.record"
	insertedContext   = sqlrow.Of[contextParams]()
	updatedContext    = insertedContext.Without("created_at")
)

// contextColumns returns the columns that scanContext reads. The last one has the ids of the
// newest tasks of the context. tasks is the parameter with their maximum number.
func contextColumns(tasks string) string {
	return contextList + `,
	ARRAY(SELECT k.id FROM (
			(SELECT k.id, k.created_at FROM {s}.task_rows k WHERE k.owner = t.owner AND k.context_id = t.id AND NOT k.first
				ORDER BY k.created_at DESC, k.id DESC LIMIT ` + tasks + `)
			UNION ALL
			(SELECT k.id, k.created_at FROM {s}.task_rows k WHERE k.owner = t.owner COLLATE "POSIX" AND k.id = t.first_id COLLATE "POSIX")) k
		ORDER BY k.created_at DESC, k.id DESC LIMIT ` + tasks + `)`
}

// firstTask selects columns of the task t that created a context. This task is in no index
// by context.
func firstTask(columns, owner, context string) string {
	return `SELECT ` + columns + ` FROM {s}.context_rows c CROSS JOIN LATERAL (
			SELECT * FROM {s}.task_rows t WHERE t.owner = c.owner COLLATE "POSIX" AND t.id = c.first_id COLLATE "POSIX" OFFSET 0) t
		WHERE c.owner = ` + owner + ` COLLATE "POSIX" AND c.id = ` + context + ` COLLATE "POSIX"`
}

var (
	sqlContextStates = `WITH RECURSIVE g(v) AS (
			(SELECT state FROM {s}.task_rows WHERE owner = $1::text AND context_id = $2::text AND NOT first ORDER BY state LIMIT 1)
			UNION ALL
			SELECT (SELECT state FROM {s}.task_rows WHERE owner = $1::text AND context_id = $2::text AND NOT first AND state > g.v ORDER BY state LIMIT 1)
			FROM g WHERE g.v IS NOT NULL)
		SELECT v FROM g WHERE v IS NOT NULL
		UNION ALL ` + firstTask("t.state", "$1::text", "$2::text")
	sqlReadContext = `SELECT ` + contextColumns("$3::bigint") + ` FROM {s}.context_rows t
		WHERE t.owner = $1::text COLLATE "POSIX" AND t.id = $2::text COLLATE "POSIX" AND t.status <> ''`
	sqlLockContext = `SELECT ` + contextList + `, NULL
		FROM {s}.context_rows t WHERE t.owner = $1::text COLLATE "POSIX" AND t.id = $2::text COLLATE "POSIX" FOR UPDATE`

	sqlInsertContext = namedText(insertedContext, `WITH saved AS (
			INSERT INTO {s}.context_rows (`+insertedContext.List("")+`, version, task_count)
			VALUES (`+insertedContext.List("@")+`, 1, 0)
			ON CONFLICT DO NOTHING RETURNING owner, status, labels
		), counter AS (
			INSERT INTO {s}.label_counters (owner, label, status, n)
			SELECT DISTINCT saved.owner, u.label, saved.status, 1 FROM saved CROSS JOIN unnest(saved.labels) u(label)
		)
		SELECT 1 FROM saved`)
	sqlUpdateContext = namedText(updatedContext, sqlOldContext+`, saved AS (
			UPDATE {s}.context_rows SET status = @status, name = @name, parent_id = @parent_id, unmodified = false,
				updated_at = greatest(updated_at, @updated_at), version = greatest(version, 1) + 1, labels = @labels, record = @record
			WHERE owner = @owner COLLATE "POSIX" AND id = @id COLLATE "POSIX" RETURNING owner, status, labels
		), counter AS (`+sqlCountLabels+`)
		SELECT 1 FROM saved`)
)

const (
	// sqlOldContext reads a locked context as it was before the statement.
	sqlOldContext = `WITH prior AS (
			SELECT owner, status, labels FROM {s}.context_rows WHERE owner = @owner COLLATE "POSIX" AND id = @id COLLATE "POSIX"
		)`
	// sqlCountLabels subtracts the labels of the old context from the counts and adds the
	// labels of the new one. A label that a context has twice counts once.
	sqlCountLabels = `INSERT INTO {s}.label_counters (owner, label, status, n)
			SELECT d.owner, d.label, d.status, sum(d.n) FROM (
				SELECT DISTINCT prior.owner, u.label, prior.status, -1 FROM prior CROSS JOIN unnest(prior.labels) u(label) WHERE prior.status <> ''
				UNION ALL
				SELECT DISTINCT saved.owner, u.label, saved.status, 1 FROM saved CROSS JOIN unnest(saved.labels) u(label) WHERE saved.status <> ''
			) AS d(owner, label, status, n) GROUP BY 1, 2, 3 HAVING sum(d.n) <> 0`

	sqlAncestors = `WITH RECURSIVE up(id, parent, n) AS (
			SELECT id, parent_id, 1 FROM {s}.context_rows WHERE owner = $1::text COLLATE "POSIX" AND id = $2::text COLLATE "POSIX" AND status <> ''
			UNION ALL
			SELECT c.id, c.parent_id, up.n + 1 FROM up JOIN {s}.context_rows c
				ON c.owner = $1::text COLLATE "POSIX" AND c.id = up.parent COLLATE "POSIX" AND c.status <> '' WHERE up.id <> $3::text AND up.n <= $4::bigint)
		SELECT id, parent FROM up ORDER BY n`
	sqlLockParents = `SELECT pg_advisory_xact_lock($1::bigint)`
	sqlInsertKey   = `INSERT INTO {s}.idempotency_keys (owner, key, hash, task_id, of_context, seq, created_at)
		VALUES ($1::text, $2::text, $3::bytea, $4::text, true, $5::bigint, $6::bigint) ON CONFLICT DO NOTHING`
)

func scanContext(r record) (c store.Context, err error) {
	var row contextRow
	contextRowColumns.Scan(&row, r.int, r.text)
	c = store.Context{
		Key: row.Key, Status: a2a.ContextStatus(row.Status), Name: row.Name, ParentID: row.ParentID, Role: store.DefaultContextRole,
		CreatedAt: fromMillis(row.CreatedAt), UpdatedAt: fromMillis(row.UpdatedAt), Version: max(row.Version, 1), TaskCount: int(row.TaskCount),
	}
	record := contextRowColumns.Len()
	if !r.null(record) {
		if err := encoding.DecodeContext(&c, r[record]); err != nil {
			return c, err
		}
	}
	c.TaskIDs = texts(r[record+1])
	for i, j := 0, len(c.TaskIDs)-1; i < j; i, j = i+1, j-1 {
		c.TaskIDs[i], c.TaskIDs[j] = c.TaskIDs[j], c.TaskIDs[i]
	}
	return c, nil
}

// Context implements [store.Contexts].
func (s *contextStore) Context(ctx context.Context, owner, id string, tasks int) (c store.Context, err error) {
	err = s.readCall(ctx, "read context", func(ctx context.Context, conn *pgx.Conn) error {
		found := false
		var err error
		if storable(owner, id) {
			err = s.eachRow(ctx, conn, sqlReadContext, func(r record) (err error) {
				found = true
				c, err = scanContext(r)
				return err
			}, owner, id, max(tasks, 0))
		}
		if err == nil && !found {
			err = store.ErrNotFound
		}
		return err
	})
	return c, err
}

// label returns the hash by which a tag or a role of an owner's contexts is stored.
func label(owner, kind, text string) int64 {
	sum := sha256.Sum256([]byte(owner + "\x00" + kind + "\x00" + text))
	return int64(binary.BigEndian.Uint64(sum[:])) // any 64 bits
}

func contextLabels(c *store.Context) []int64 {
	labels := []int64{label(c.Key.Owner, "role", c.Role)}
	for _, tag := range c.Tags {
		labels = append(labels, label(c.Key.Owner, "tag", tag))
	}
	return labels
}

// SaveContext implements [store.Contexts].
func (s *contextStore) SaveContext(ctx context.Context, c store.ContextChange) (saved store.Context, err error) {
	if err := c.Check(); err != nil {
		return store.Context{}, err
	}
	to := &c.Context
	data, err := encoding.Context(to)
	if err != nil {
		return store.Context{}, err
	}
	var old store.Context
	err = s.transact(ctx, "save context", func(ctx context.Context, tx pgx.Tx) (err error) {
		if old, err = s.checkSave(ctx, tx, &c); err != nil {
			return err
		}
		if err := s.writeContext(ctx, tx, &c, old, string(data)); err != nil {
			return err
		}
		saved, err = s.lockContext(ctx, tx, to.Key)
		if err != nil || c.Idempotency == nil {
			return err
		}
		k := c.Idempotency
		n, err := s.exec(ctx, tx, sqlInsertKey, k.Owner, k.Key, k.HashBytes(), k.TaskID, saved.Version, millis(k.CreatedAt))
		if err == nil && n == 0 {
			err = store.ErrDuplicate
		}
		return err
	})
	if err != nil {
		return store.Context{}, err
	}
	s.noteLabels(&old, &saved)
	return saved, nil
}

// writeContext creates a context or updates it.
func (s *contextStore) writeContext(ctx context.Context, tx pgx.Tx, c *store.ContextChange, old store.Context, data string) error {
	to := &c.Context
	row := contextParams{
		Key: to.Key, Status: string(to.Status), Name: []byte(to.Name), ParentID: to.ParentID, UpdatedAt: millis(to.UpdatedAt),
		Labels: contextLabels(to), Record: data, CreatedAt: millis(to.CreatedAt),
	}
	if c.Create {
		n, err := s.exec(ctx, tx, sqlInsertContext, insertedContext.Args(&row)...)
		if err == nil && n == 0 {
			err = store.ErrExists
		}
		if err != nil {
			return err
		}
		return s.addCounter(ctx, tx, to.Key.Owner, string(to.Status), 1)
	}
	_, err := s.exec(ctx, tx, sqlUpdateContext, updatedContext.Args(&row)...)
	if err != nil || old.Status == to.Status {
		return err
	}
	if err := s.addCounter(ctx, tx, to.Key.Owner, string(old.Status), -1); err != nil {
		return err
	}
	return s.addCounter(ctx, tx, to.Key.Owner, string(to.Status), 1)
}

// checkSave locks the context of a change and returns it. It fails if the change is not valid.
func (s *contextStore) checkSave(ctx context.Context, tx pgx.Tx, c *store.ContextChange) (old store.Context, err error) {
	var seen rules.Context
	if k := c.Idempotency; k != nil {
		if _, err := s.readKey(ctx, tx, k.Owner, k.Key); !errors.Is(err, store.ErrNotFound) {
			return old, errorOr(err, store.ErrDuplicate)
		}
	}
	key := c.Context.Key
	old, err = s.lockContext(ctx, tx, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return old, err
	}
	seen.Exists, seen.Version, seen.ParentID = err == nil, old.Version, old.ParentID
	seen.Deleting = seen.Exists && old.Status == ""
	if c.RequireFinished {
		err := s.eachRow(ctx, tx, sqlContextStates, func(r record) error {
			seen.Unfinished = seen.Unfinished || !a2a.TaskState(r.text(0)).Terminal()
			return nil
		}, key.Owner, key.ID)
		if err != nil {
			return old, err
		}
	}
	if seen.NewParent(c) {
		if err := s.readAncestors(ctx, tx, &seen.Ancestors, &c.Context); err != nil {
			return old, err
		}
	}
	err = rules.SaveContext(c, &seen)
	if errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrConflict) {
		err = s.keyConflict(ctx, tx, c, err)
	}
	return old, err
}

func errorOr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// keyConflict returns ErrDuplicate if a concurrent change, for which this one waited, has stored
// the same idempotency key. Else it returns the error otherwise.
func (s *contextStore) keyConflict(ctx context.Context, tx pgx.Tx, c *store.ContextChange, otherwise error) error {
	if k := c.Idempotency; k != nil {
		if _, err := s.readKey(ctx, tx, k.Owner, k.Key); !errors.Is(err, store.ErrNotFound) {
			return errorOr(err, store.ErrDuplicate)
		}
	}
	return otherwise
}

// readAncestors reads the new parent of a context and its ancestors. An advisory lock serializes
// changes of parents, so that two of them cannot create a cycle.
func (s *contextStore) readAncestors(ctx context.Context, tx pgx.Tx, into *rules.Ancestors, c *store.Context) error {
	if _, err := s.exec(ctx, tx, sqlLockParents, label(c.Key.Owner, "family", s.cfg.Schema)); err != nil {
		return err
	}
	return s.eachRow(ctx, tx, sqlAncestors, func(r record) error {
		into.Add(c.Key.ID, r.text(0), r.text(1))
		return nil
	}, c.Key.Owner, c.ParentID, c.Key.ID, store.MaxContextDepth)
}
