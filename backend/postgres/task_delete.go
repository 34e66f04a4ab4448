package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/rules"
)

// Deletions lock contexts, then tasks, then lanes, as commits do.

var sqlLockTaskRow = `SELECT owner, id, pk, webhooks, ` + rowColumns + ` FROM {s}.task_rows t
		WHERE owner = $1::text COLLATE "POSIX" AND id = $2::text COLLATE "POSIX" FOR UPDATE`

const (
	sqlContextOf = `SELECT context_id FROM {s}.task_rows WHERE owner = $1::text COLLATE "POSIX" AND id = $2::text COLLATE "POSIX"`
	// sqlLockLanes also returns whether a lane has pending events.
	sqlLockLanes = `SELECT u.ord, l.pending FROM (
			SELECT * FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS u(owner, task_id, ord)
			ORDER BY owner COLLATE "POSIX", task_id COLLATE "POSIX"
		) u CROSS JOIN LATERAL (
			SELECT l.cursor_seq < l.tail_seq AS pending FROM {s}.webhook_lanes l
			WHERE l.owner = u.owner COLLATE "POSIX" AND l.task_id = u.task_id COLLATE "POSIX"
			ORDER BY l.owner COLLATE "POSIX", l.task_id COLLATE "POSIX", l.id COLLATE "POSIX" FOR UPDATE) l`

	// sqlCountDeliveryRows counts attempts and dead letters of tasks, each up to a limit.
	sqlCountDeliveryRows = `SELECT u.ord, (SELECT count(*) FROM (
				SELECT 1 FROM {s}.delivery_attempts a WHERE a.owner = u.owner AND a.task_id = u.task_id LIMIT $3::bigint) a
			) + (SELECT count(*) FROM (
				SELECT 1 FROM {s}.dead_letters d WHERE d.owner = u.owner COLLATE "POSIX" AND d.task_id = u.task_id COLLATE "POSIX" LIMIT $3::bigint) d)
		FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS u(owner, task_id, ord)`
	sqlDeleteDeliveryRows = `WITH a AS MATERIALIZED (
			SELECT id FROM {s}.delivery_attempts WHERE owner = $1::text AND task_id = $2::text LIMIT $3::bigint
		), d AS MATERIALIZED (
			SELECT config_id, seq FROM {s}.dead_letters WHERE owner = $1::text COLLATE "POSIX" AND task_id = $2::text COLLATE "POSIX" LIMIT $3::bigint
		), removed AS (
			DELETE FROM {s}.delivery_attempts p USING a WHERE p.owner = $1::text AND p.id = a.id
		)
		DELETE FROM {s}.dead_letters p USING d WHERE p.owner = $1::text COLLATE "POSIX" AND p.task_id = $2::text COLLATE "POSIX"
			AND p.config_id = d.config_id COLLATE "POSIX" AND p.seq = d.seq`

	sqlRemovedTasks = `WITH u AS MATERIALIZED (SELECT * FROM unnest($1::text[], $2::text[]) AS u(owner, task_id))`
	sqlDeleteTasks  = sqlRemovedTasks + `, removed AS (
			DELETE FROM {s}.task_rows t USING u WHERE t.owner = u.owner COLLATE "POSIX" AND t.id = u.task_id COLLATE "POSIX"
			RETURNING t.owner, t.id, t.created_at, t.context_id, t.first
		), noted AS (
			INSERT INTO {s}.task_removals (owner, id, created_at, context_id)
			SELECT owner, id, created_at, context_id FROM removed ON CONFLICT DO NOTHING
		)
		UPDATE {s}.context_rows c SET task_count = c.task_count - g.n, first_id = CASE WHEN g.first THEN '' ELSE c.first_id END
		FROM (SELECT owner, context_id, count(*) AS n, bool_or(first) AS first FROM removed GROUP BY 1, 2) g
		WHERE c.owner = g.owner COLLATE "POSIX" AND c.id = g.context_id COLLATE "POSIX"`
	sqlDeleteTaskWebhooks = sqlRemovedTasks + `, c AS (
			DELETE FROM {s}.webhooks l USING u WHERE ` + sqlLaneTask + `
		), a AS (
			DELETE FROM {s}.delivery_attempts l USING u WHERE l.owner = u.owner AND l.task_id = u.task_id
		), d AS (
			DELETE FROM {s}.dead_letters l USING u WHERE ` + sqlLaneTask + `
		)
		DELETE FROM {s}.webhook_lanes l USING u WHERE ` + sqlLaneTask
	sqlForgetTaskWebhooks = sqlRemovedTasks + ` DELETE FROM {s}.deleted_webhooks l USING u WHERE ` + sqlLaneTask
	sqlLaneTask           = `l.owner = u.owner COLLATE "POSIX" AND l.task_id = u.task_id COLLATE "POSIX"`
	// sqlDeleteKeys must run before the rows of the tasks are deleted.
	sqlDeleteKeys = sqlRemovedTasks + `, t AS MATERIALIZED (
			SELECT t.* FROM u CROSS JOIN LATERAL (SELECT t.owner, t.id, t.created_at FROM {s}.task_rows t
				WHERE t.owner = u.owner COLLATE "POSIX" AND t.id = u.task_id COLLATE "POSIX" OFFSET 0) t
		), k AS MATERIALIZED (
			SELECT k.* FROM t CROSS JOIN LATERAL (SELECT k.owner, k.key FROM {s}.idempotency_keys k
				WHERE k.created_at = t.created_at AND k.owner = t.owner AND k.task_id = t.id AND k.at_creation OFFSET 0) k
		), created AS (
			DELETE FROM {s}.idempotency_keys i USING k WHERE i.owner = k.owner COLLATE "POSIX" AND i.key = k.key COLLATE "POSIX"
		)
		DELETE FROM {s}.idempotency_keys k USING u WHERE k.owner = u.owner AND k.task_id = u.task_id AND NOT k.of_context AND NOT k.at_creation`
	sqlDeleteFeedback = sqlRemovedTasks + `, removed AS (
			DELETE FROM {s}.feedback_rows f USING u WHERE f.owner = u.owner AND f.task_id = u.task_id RETURNING f.owner, f.rating
		), n AS (SELECT owner, 'rating ' || rating AS kind, -count(*) AS n FROM removed GROUP BY 1, 2)
		INSERT INTO {s}.counters (owner, kind, n) SELECT owner, kind, n FROM n UNION ALL SELECT '', kind, sum(n) FROM n GROUP BY kind`

	// These delete up to $3 rows of the content of tasks, and stop after the row with which
	// their size reaches $4 bytes. They do not read the content.
	sqlDeleteLogs = `WITH l AS MATERIALIZED (
			SELECT l.* FROM unnest($1::text[], $2::bigint[]) u(owner, pk) CROSS JOIN LATERAL (
				SELECT owner, task_pk, seq, octet_length(events) + coalesce(octet_length(snapshot), 0) AS size
				FROM {s}.task_log WHERE owner = u.owner AND task_pk = u.pk ORDER BY seq LIMIT $3::bigint) l
			LIMIT $3::bigint
		), cut AS MATERIALIZED (
			SELECT owner, task_pk, max(seq) AS seq FROM (SELECT *, sum(size) OVER (ORDER BY owner, task_pk, seq) - size AS before FROM l) l
			WHERE before < $4::bigint GROUP BY 1, 2
		)
		DELETE FROM {s}.task_log l USING cut WHERE l.owner = cut.owner AND l.task_pk = cut.task_pk AND l.seq <= cut.seq`
	sqlDeleteSteps = `WITH l AS MATERIALIZED (
			SELECT l.* FROM unnest($1::text[], $2::bigint[]) u(owner, pk) CROSS JOIN LATERAL (
				SELECT owner, task_pk, turn, name, coalesce(octet_length(result), 0) + coalesce(octet_length(artifacts), 0) AS size
				FROM {s}.task_steps WHERE owner = u.owner AND task_pk = u.pk ORDER BY turn, name LIMIT $3::bigint) l
			LIMIT $3::bigint
		), cut AS MATERIALIZED (
			SELECT * FROM (SELECT *, sum(size) OVER (ORDER BY owner, task_pk, turn, name) - size AS before FROM l) l WHERE before < $4::bigint
		)
		DELETE FROM {s}.task_steps l USING cut WHERE l.owner = cut.owner AND l.task_pk = cut.task_pk AND l.turn = cut.turn AND l.name = cut.name`
	sqlDeleteContents = `WITH l AS MATERIALIZED (
			SELECT l.* FROM unnest($1::text[], $2::bigint[]) u(owner, pk) CROSS JOIN LATERAL (
				SELECT owner, task_pk, hash, octet_length(data) AS size FROM {s}.task_contents WHERE owner = u.owner AND task_pk = u.pk ORDER BY hash LIMIT $3::bigint) l
			LIMIT $3::bigint
		), cut AS MATERIALIZED (
			SELECT * FROM (SELECT *, sum(size) OVER (ORDER BY owner, task_pk, hash) - size AS before FROM l) l WHERE before < $4::bigint
		)
		DELETE FROM {s}.task_contents l USING cut WHERE l.owner = cut.owner AND l.task_pk = cut.task_pk AND l.hash = cut.hash`
	sqlContentLeft = `coalesce((SELECT true FROM {s}.task_log l WHERE l.owner = u.owner AND l.task_pk = u.pk LIMIT 1),
		(SELECT true FROM {s}.task_steps l WHERE l.owner = u.owner AND l.task_pk = u.pk LIMIT 1),
		(SELECT true FROM {s}.task_contents l WHERE l.owner = u.owner AND l.task_pk = u.pk LIMIT 1), false)`
	// sqlInsertDeleted records tasks with remaining content.
	sqlInsertDeleted = `INSERT INTO {s}.tasks_deleted (owner, task_pk)
		SELECT u.owner, u.pk FROM unnest($1::text[], $2::bigint[]) AS u(owner, pk) WHERE ` + sqlContentLeft

	sqlDeletedLeft   = `SELECT 1 FROM {s}.tasks_deleted ORDER BY owner, task_pk LIMIT 1`
	sqlDeletedTasks  = `SELECT owner, task_pk FROM {s}.tasks_deleted ORDER BY owner, task_pk LIMIT $1::bigint FOR UPDATE SKIP LOCKED`
	sqlForgetDeleted = `DELETE FROM {s}.tasks_deleted d USING unnest($1::text[], $2::bigint[]) AS u(owner, pk)
		WHERE d.owner = u.owner AND d.task_pk = u.pk AND NOT ` + sqlContentLeft
)

// removal is a locked task to be removed.
type removal struct {
	owner, id string
	pk        int64
	webhooks  int64
	candidate int // index of the candidate
}

// keysOf returns the keys and numbers of tasks as parameters.
func keysOf(tasks []removal) (owners, ids []string, pks []int64) {
	for i := range tasks {
		owners, ids, pks = append(owners, tasks[i].owner), append(ids, tasks[i].id), append(pks, tasks[i].pk)
	}
	return owners, ids, pks
}

// DeleteTask implements [store.Maintenance].
func (s *taskStore) DeleteTask(ctx context.Context, key store.Key, force bool) (more bool, err error) {
	for removed := 0; removed == 0; {
		err = s.transact(ctx, "delete task", func(ctx context.Context, tx pgx.Tx) error {
			tasks, seen, err := s.lockTask(ctx, tx, key)
			if err != nil {
				return err
			}
			if err := rules.DeleteTask(seen, false); err != nil {
				return err
			}
			if tasks, err = s.lockLanes(ctx, tx, tasks, force); err != nil {
				return err
			}
			if err := rules.DeleteTask(seen, len(tasks) == 0); err != nil {
				return err
			}
			removed, more, err = s.removeTasks(ctx, tx, tasks)
			return err
		})
		if err != nil {
			return false, err
		}
	}
	return more, nil
}

// lockTask locks a task and its context. seen is nil if the task does not exist.
func (s *taskStore) lockTask(ctx context.Context, tx pgx.Tx, key store.Key) (tasks []removal, seen *rules.Task, err error) {
	if !storable(key.Owner, key.ID) {
		return nil, nil, nil
	}
	contextID, found := "", false
	err = s.eachRow(ctx, tx, sqlContextOf, func(r record) error {
		contextID, found = r.text(0), true
		return nil
	}, key.Owner, key.ID)
	if err != nil || !found {
		return nil, nil, err
	}
	if _, err := s.lockContext(ctx, tx, store.ContextKey{Owner: key.Owner, ID: contextID}); err != nil {
		return nil, nil, err
	}
	err = s.eachRow(ctx, tx, sqlLockTaskRow, func(r record) error {
		var t taskRow
		scanTask(&t, r[4:])
		if t.ContextID == contextID { // else it was deleted and created again in another context
			task := t.Seen()
			tasks, seen = append(tasks, scanRemoval(r)), &task
		}
		return nil
	}, key.Owner, key.ID)
	return tasks, seen, err
}

// lockContext locks a context and returns it, with an empty status if its deletion is pending.
// It returns ErrNotFound if the context does not exist.
func (s *taskStore) lockContext(ctx context.Context, tx pgx.Tx, key store.ContextKey) (c store.Context, err error) {
	found := false
	err = s.eachRow(ctx, tx, sqlLockContext, func(r record) (err error) {
		found = true
		c, err = scanContext(r)
		return err
	}, key.Owner, key.ID)
	if err == nil && !found {
		err = store.ErrNotFound
	}
	return c, err
}

func scanRemoval(r record) removal {
	return removal{owner: r.text(0), id: r.text(1), pk: r.int(2), webhooks: r.int(3)}
}

// lockLanes locks the lanes of tasks. Without force it leaves out tasks with undelivered events.
func (s *taskStore) lockLanes(ctx context.Context, on querier, tasks []removal, force bool) (kept []removal, err error) {
	withHooks, at := withWebhooks(tasks)
	if len(withHooks) == 0 {
		return tasks, nil
	}
	owners, ids, _ := keysOf(withHooks)
	pending := make(map[int]bool)
	err = s.eachRow(ctx, on, sqlLockLanes, func(r record) error {
		if r.bool(1) {
			pending[at[r.int(0)-1]] = true
		}
		return nil
	}, owners, ids)
	if err != nil || force {
		return tasks, err
	}
	for i := range tasks {
		if !pending[i] {
			kept = append(kept, tasks[i])
		}
	}
	return kept, nil
}

// withWebhooks returns the tasks that have webhooks, and their indexes.
func withWebhooks(tasks []removal) (withHooks []removal, at []int) {
	for i := range tasks {
		if tasks[i].webhooks > 0 {
			withHooks, at = append(withHooks, tasks[i]), append(at, i)
		}
	}
	return withHooks, at
}

// removeTasks removes locked tasks in order, up to the limits of a transaction, and returns
// their number. more reports whether content of them remains.
func (s *taskStore) removeTasks(ctx context.Context, tx pgx.Tx, tasks []removal) (removed int, more bool, err error) {
	if tasks, err = s.limitDeliveryRows(ctx, tx, tasks); err != nil || len(tasks) == 0 {
		return 0, false, err
	}
	calls := s.removalCalls(tasks)
	err = s.exchange(ctx, tx.Conn().PgConn(), false, calls...)
	return len(tasks), calls[len(calls)-1].changed > 0, err
}

// removalCalls returns the calls that remove locked tasks. The last one changes a row for each task with
// remaining content. It returns none for no tasks.
func (s *taskStore) removalCalls(tasks []removal) (calls []*call) {
	if len(tasks) == 0 {
		return nil
	}
	owners, ids, pks := keysOf(tasks)
	if withHooks, _ := withWebhooks(tasks); len(withHooks) > 0 {
		owners, ids, _ := keysOf(withHooks)
		calls = append(calls, s.statements.call(sqlDeleteTaskWebhooks, owners, ids))
	}
	for _, text := range []string{sqlDeleteKeys, sqlDeleteTasks, sqlForgetTaskWebhooks, sqlDeleteFeedback} {
		calls = append(calls, s.statements.call(text, owners, ids))
	}
	calls = append(calls, s.contentCalls(owners, pks)...)
	return append(calls, s.statements.call(sqlInsertDeleted, owners, pks))
}

// contentCalls returns the calls that delete content of removed tasks up to the limits of a transaction.
func (s *taskStore) contentCalls(owners []string, pks []int64) (calls []*call) {
	for _, text := range []string{sqlDeleteLogs, sqlDeleteSteps, sqlDeleteContents} {
		calls = append(calls, s.statements.call(text, owners, pks, store.DeleteRows, store.DeleteBytes))
	}
	return calls
}

// limitDeliveryRows returns the first tasks that together do not exceed the limit of
// attempts and dead letters in a transaction. If the first task alone exceeds it, it
// deletes some attempts and dead letters of this task and returns no task.
func (s *taskStore) limitDeliveryRows(ctx context.Context, on querier, tasks []removal) ([]removal, error) {
	withHooks, at := withWebhooks(tasks)
	if len(withHooks) == 0 {
		return tasks, nil
	}
	owners, ids, _ := keysOf(withHooks)
	notes := make([]int64, len(tasks))
	err := s.eachRow(ctx, on, sqlCountDeliveryRows, func(r record) error {
		notes[at[r.int(0)-1]] = r.int(1)
		return nil
	}, owners, ids, store.DeleteRows+1)
	if err != nil {
		return nil, err
	}
	sum := int64(0)
	for i, n := range notes {
		if sum += n; sum <= store.DeleteRows {
			continue
		}
		if i == 0 {
			_, err = s.exec(ctx, on, sqlDeleteDeliveryRows, tasks[0].owner, tasks[0].id, store.DeleteRows)
		}
		return tasks[:i], err
	}
	return tasks, nil
}

// PurgeDeleted implements [store.Maintenance]. It skips tasks that another process purges.
func (s *taskStore) PurgeDeleted(ctx context.Context) (more bool, err error) {
	const batch = 200
	err = s.read(ctx, "find deleted tasks", func(ctx context.Context, c *pgx.Conn) (err error) {
		more, err = s.exists(ctx, c, sqlDeletedLeft)
		return err
	})
	if err != nil || !more { // this is frequent, and a read costs less than a transaction
		return false, err
	}
	err = s.transact(ctx, "purge deleted tasks", func(ctx context.Context, tx pgx.Tx) error {
		var owners []string
		var pks []int64
		err := s.eachRow(ctx, tx, sqlDeletedTasks, func(r record) error {
			owners, pks = append(owners, r.text(0)), append(pks, r.int(1))
			return nil
		}, batch)
		if more = false; err != nil || len(pks) == 0 {
			return err
		}
		forget := s.statements.call(sqlForgetDeleted, owners, pks)
		err = s.exchange(ctx, tx.Conn().PgConn(), false, append(s.contentCalls(owners, pks), forget)...)
		more = int(forget.changed) < len(pks) || forget.changed == batch
		return err
	})
	return more && err == nil, err
}
