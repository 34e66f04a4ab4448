package postgres

// The statements of a commit. Each applies all changes of its kind, which are passed as arrays.
// A guard that fails raises a division by zero, which rolls back the transaction. Statements
// lock contexts before tasks, and both in the order of their keys, so that concurrent commits
// cannot deadlock.
//
// Rows that are found by key and then sorted are found in a LATERAL subquery. Otherwise the
// planner may read a whole index for its order.

// statement is a prepared statement. Its parameters are arrays with the given element types,
// followed by a number of bigint scalars.
type statement struct {
	name    string
	text    string
	arrays  []uint32
	scalars int
}

var stmtMark = &statement{name: "holdfast_mark", text: sqlMark, scalars: 1}

// stmtLockTimeout sets the lock timeout of its transaction in milliseconds.
var stmtLockTimeout = &statement{
	name:    "holdfast_lock_timeout",
	text:    `SELECT set_config('lock_timeout', ($1::bigint)::text, true)`,
	scalars: 1,
}

var stmtKeys = &statement{
	name: "holdfast_keys",
	text: `INSERT INTO {s}.idempotency_keys (owner, key, hash, task_id, of_context, seq, created_at, at_creation)
		SELECT u.owner, u.key, u.hash, u.task_id, false, u.seq, u.created_at, u.at_creation
		FROM unnest($1::text[], $2::text[], $3::bytea[], $4::text[], $5::bigint[], $6::bigint[], $7::boolean[])
			AS u(owner, key, hash, task_id, seq, created_at, at_creation)`,
	arrays: []uint32{oidText, oidText, oidBytea, oidText, oidInt8, oidInt8, oidBool},
}

// stmtContexts creates contexts for their first tasks and counts new tasks in existing
// contexts, which must be active.
var stmtContexts = &statement{
	name:   "holdfast_contexts",
	text:   contextsText(sqlNewTasks),
	arrays: []uint32{oidText, oidText, oidInt8, oidInt8, oidInt8, oidText},
}

// stmtContextsReceived is stmtContexts for commits that also add client messages to tasks. It
// sets the contexts of these tasks to the times of the messages. It is a single statement, so
// that it locks all contexts of a commit in the order of their keys.
var stmtContextsReceived = &statement{
	name: "holdfast_contexts_received",
	text: contextsText(`SELECT owner, id, max(created_at) AS created_at, max(received_at) AS received_at, sum(n)::bigint AS n, max(first_id) AS first_id FROM (
				` + sqlNewTasks + `
				UNION ALL
				SELECT t.owner, t.context_id, 0, u.at, 0, '' FROM unnest($7::text[], $8::text[], $9::bigint[]) AS u(owner, id, at) CROSS JOIN LATERAL (
					SELECT owner, context_id FROM {s}.task_rows t WHERE t.owner = u.owner COLLATE "POSIX" AND t.id = u.id COLLATE "POSIX" OFFSET 0) t
			) x GROUP BY 1, 2 ORDER BY 1, 2`),
	arrays: []uint32{oidText, oidText, oidInt8, oidInt8, oidInt8, oidText, oidText, oidText, oidInt8},
}

const sqlNewTasks = `SELECT owner COLLATE "C" AS owner, id COLLATE "C" AS id, created_at, received_at, n, first_id COLLATE "C" AS first_id
				FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[]) AS u(owner, id, created_at, received_at, n, first_id)`

// contextsText returns a statement that changes distinct contexts in the order of their keys.
// A context without new tasks (n) must exist. Version 0 marks a context that the statement
// created.
func contextsText(contexts string) string {
	return `WITH u AS MATERIALIZED (
			` + contexts + `
		), up AS (
			INSERT INTO {s}.context_rows AS c (owner, id, status, name, parent_id, created_at, updated_at, version, task_count, first_id, unmodified)
			SELECT u.owner, u.id, 'active', '\x'::bytea, '', u.created_at, greatest(u.created_at, u.received_at), 0, u.n, u.first_id, u.received_at <= u.created_at FROM u
			ON CONFLICT (owner COLLATE "POSIX", id COLLATE "POSIX") DO UPDATE SET task_count = c.task_count + excluded.task_count, version = greatest(c.version, 1), unmodified = false,
				updated_at = greatest(c.updated_at, (SELECT u.received_at FROM u WHERE u.owner = c.owner AND u.id = c.id))
				WHERE c.status = 'active' OR c.status <> '' AND excluded.task_count = 0
			RETURNING c.owner, c.task_count, c.version = 0 AS made
		), counter AS (
			INSERT INTO {s}.counters (owner, kind, n) SELECT owner, 'active', count(*) FROM up WHERE made GROUP BY owner
		)
		SELECT 1 / (CASE WHEN count(*) FILTER (WHERE task_count > 0 OR NOT made) = (SELECT count(*) FROM u) THEN 1 ELSE 0 END) FROM up`
}

// stmtCreate creates tasks, after stmtContexts or stmtContextsReceived created their contexts.
var stmtCreate = &statement{
	name: "holdfast_create",
	text: `WITH u AS MATERIALIZED (
			SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[],
				$9::bigint[], $10::bigint[], $11::text[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], $16::bigint[],
				$17::bigint[], $18::bigint[], $19::bigint[], $20::text[], $21::text[], $22::bigint[], $23::bigint[])
			AS u(owner, id, pk, context_id, state, state_at, seq, received_seq, phase, due_at, lease_worker, fence, lease_until, turn,
				attempt, seen_seq, turn_start_seq, created_at, updated_at, snapshot, events, bytes, large)
		), t AS (
			INSERT INTO {s}.task_rows (owner, id, pk, context_id, state, state_at, seq, received_seq, checkpoint, phase, due_at,
				lease_worker, fence, lease_until, turn, attempt, seen_seq, turn_start_seq, created_at, updated_at, bytes, first)
			SELECT owner, id, pk, context_id, state, state_at, seq, received_seq, 1, phase, due_at,
				lease_worker, fence, lease_until, turn, attempt, seen_seq, turn_start_seq, created_at, updated_at, bytes,
				coalesce((SELECT c.first_id = u.id FROM {s}.context_rows c WHERE c.owner = u.owner COLLATE "POSIX" AND c.id = u.context_id COLLATE "POSIX"), false)
			FROM u
		)
		INSERT INTO {s}.task_log (task_pk, seq, mark, n, snapshot, events, large) SELECT pk, 1, $24::bigint, seq, snapshot, events, large FROM u`,
	arrays: []uint32{
		oidText, oidText, oidInt8, oidText, oidText, oidInt8, oidInt8, oidInt8, oidInt8, oidInt8, oidText, oidInt8, oidInt8, oidInt8,
		oidInt8, oidInt8, oidInt8, oidInt8, oidInt8, oidText, oidText, oidInt8, oidInt8,
	},
	scalars: 1,
}

// stmtUpdate applies the changes whose guards succeed, at most one per task. It returns their
// ordinals, the new versions, and the number of webhooks of the tasks. It fails if the guard of
// a strict change fails, or if it does not see all webhooks of a task.
var stmtUpdate = &statement{
	name: "holdfast_update",
	text: `WITH up AS (
			UPDATE {s}.task_rows t SET
				seq = t.seq + u.n,
				state = coalesce(u.state, t.state),
				state_at = coalesce(u.state_at, t.state_at),
				received_seq = CASE WHEN u.received > 0 THEN t.seq + u.received ELSE t.received_seq END,
				checkpoint = CASE WHEN u.snapshot_seq = t.seq + u.n THEN t.seq + 1 ELSE t.checkpoint END,
				updated_at = coalesce(u.updated_at, t.updated_at),
				phase = coalesce(u.phase, t.phase),
				due_at = coalesce(u.due_at, t.due_at),
				lease_worker = coalesce(u.lease_worker, t.lease_worker),
				fence = coalesce(u.fence, t.fence),
				lease_until = coalesce(u.lease_until, t.lease_until),
				turn = coalesce(u.turn, t.turn),
				attempt = coalesce(u.attempt, t.attempt),
				seen_seq = coalesce(u.seen_seq, t.seen_seq),
				turn_start_seq = coalesce(u.turn_start_seq, t.turn_start_seq),
				bytes = t.bytes + u.bytes
			FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::text[],
				$9::bigint[], $10::bigint[], $11::bigint[], $12::text[], $13::bigint[], $14::text[], $15::bigint[], $16::bigint[],
				$17::text[], $18::bigint[], $19::bigint[], $20::bigint[], $21::bigint[], $22::bigint[], $23::bigint[], $24::boolean[], $25::bigint[], $26::bigint[])
			WITH ORDINALITY AS u(owner, id, version, held_worker, held_fence, seen, n, state, state_at, received, updated_at, snapshot,
				snapshot_seq, events, phase, due_at, lease_worker, fence, lease_until, turn, attempt, seen_seq, turn_start_seq, strict, bytes, large, ord)
			WHERE t.owner = u.owner COLLATE "POSIX" AND t.id = u.id COLLATE "POSIX"
				AND (u.version = 0 OR t.seq = u.version)
				AND (u.held_fence IS NULL OR t.phase = 2 AND t.lease_worker = u.held_worker AND t.fence = u.held_fence)
				AND (u.seen = 0 OR t.received_seq <= u.seen)
			RETURNING u.ord, t.pk, t.seq, t.checkpoint, u.n, u.snapshot, u.events, u.large, u.strict,
				t.owner, t.id, t.updated_at, CASE WHEN u.n > 0 THEN t.webhooks ELSE 0 END AS webhooks
		), moved AS (
			SELECT owner, id, seq, updated_at AS at FROM up WHERE webhooks > 0
		), ` + sqlAdvanceLanes + `, log AS (
			INSERT INTO {s}.task_log (task_pk, seq, mark, n, snapshot, events, large)
			SELECT pk, seq - n + 1, $27::bigint, n, CASE WHEN checkpoint = seq - n + 1 THEN snapshot END, events, large FROM up WHERE n > 0
		)
		SELECT ord, seq, webhooks FROM up
		UNION ALL
		SELECT 0, 1 / (CASE WHEN (SELECT count(*) FROM up WHERE strict) = $28::bigint
			AND (SELECT coalesce(sum(webhooks), 0) FROM up) = (SELECT count(*) FROM followed) THEN 1 ELSE 0 END), 0`,
	arrays: []uint32{
		oidText, oidText, oidInt8, oidText, oidInt8, oidInt8, oidInt8, oidText, oidInt8, oidInt8, oidInt8, oidText, oidInt8, oidText,
		oidInt8, oidInt8, oidText, oidInt8, oidInt8, oidInt8, oidInt8, oidInt8, oidInt8, oidBool, oidInt8, oidInt8,
	},
	scalars: 2,
}

// stmtContents adds large values of tasks that earlier statements created or changed.
var stmtContents = &statement{
	name: "holdfast_contents",
	text: `INSERT INTO {s}.task_contents (task_pk, hash, data)
		SELECT t.pk, u.hash, u.data FROM unnest($1::text[], $2::text[], $3::bytea[], $4::text[]) AS u(owner, id, hash, data)
		CROSS JOIN LATERAL (SELECT t.pk FROM {s}.task_rows t
			WHERE t.owner = u.owner COLLATE "POSIX" AND t.id = u.id COLLATE "POSIX" OFFSET 0) t
		ON CONFLICT (task_pk, hash) DO NOTHING`,
	arrays: []uint32{oidText, oidText, oidBytea, oidText},
}

// stmtSnapshots removes snapshots of tasks that newer ones have replaced.
var stmtSnapshots = &statement{
	name: "holdfast_snapshots",
	text: `UPDATE {s}.task_log l SET snapshot = NULL
		FROM unnest($1::text[], $2::text[]) AS u(owner, id)
		CROSS JOIN LATERAL (SELECT t.pk, t.checkpoint FROM {s}.task_rows t
			WHERE t.owner = u.owner COLLATE "POSIX" AND t.id = u.id COLLATE "POSIX" OFFSET 0) t
		CROSS JOIN LATERAL (SELECT l.task_pk, l.seq FROM {s}.task_log l
			WHERE l.task_pk = t.pk AND l.seq < t.checkpoint AND l.snapshot IS NOT NULL OFFSET 0) old
		WHERE l.task_pk = old.task_pk AND l.seq = old.seq`,
	arrays: []uint32{oidText, oidText},
}

// stmtSteps saves steps of tasks that earlier statements created or changed.
var stmtSteps = &statement{
	name: "holdfast_steps",
	text: `INSERT INTO {s}.task_steps (task_pk, turn, name, result, artifacts)
		SELECT t.pk, u.turn, u.name, u.result, u.artifacts
		FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::bytea[], $6::bytea[])
			WITH ORDINALITY AS u(owner, id, turn, name, result, artifacts, ord)
		JOIN {s}.task_rows t ON t.owner = u.owner COLLATE "POSIX" AND t.id = u.id COLLATE "POSIX"
		ORDER BY u.ord
		ON CONFLICT (task_pk, turn, name) DO UPDATE SET result = excluded.result, artifacts = excluded.artifacts`,
	arrays: []uint32{oidText, oidText, oidInt8, oidText, oidBytea, oidBytea},
}
