package postgres

import (
	"strings"

	"github.com/holdfast-dev/holdfast/backend/internal/sqlrow"
	"github.com/holdfast-dev/holdfast/store"
)

// The statements of a commit. Each applies all changes of its kind, which are passed as arrays.
// A guard that fails raises a division by zero, which rolls back the transaction. Statements
// lock contexts before tasks, and both in the order of their keys, so that concurrent commits
// cannot deadlock.
//
// Rows that are found by key and then sorted are found in a LATERAL subquery. Otherwise the
// planner may read a whole index for its order.

// stmtLockTimeout sets the lock timeout of its transaction in milliseconds.
var stmtLockTimeout = newStatement("holdfast_lock_timeout", "ms", `SELECT set_config('lock_timeout', (@ms)::text, true)`)

type keyParams struct {
	Owner      string `col:"owner"`
	Key        string `col:"key"`
	Hash       []byte `col:"hash"`
	TaskID     string `col:"task_id"`
	Seq        int64  `col:"seq"`
	CreatedAt  int64  `col:"created_at"`
	AtCreation bool   `col:"at_creation"`
}

var keyRows = paramRowsOf[keyParams]("u")

var stmtKeys = newStatement("holdfast_keys", "", `INSERT INTO {s}.idempotency_keys (owner, key, hash, task_id, of_context, seq, created_at, at_creation)
		SELECT u.owner, u.key, u.hash, u.task_id, false, u.seq, u.created_at, u.at_creation FROM {u}`, keyRows)

// newContextParams is a context with new tasks.
type newContextParams struct {
	Key        store.Key `col:"owner,id"`
	CreatedAt  int64     `col:"created_at"`
	ReceivedAt int64     `col:"received_at"`
	N          int64     `col:"n"`
	FirstID    string    `col:"first_id"`
}

// receivedParams is the time of a message to an existing task.
type receivedParams struct {
	Key store.Key `col:"owner,id"`
	At  int64     `col:"at"`
}

var (
	newContextRows = paramRowsOf[newContextParams]("u")
	receivedRows   = paramRowsOf[receivedParams]("m", newContextRows)
)

// stmtContexts creates contexts for their first tasks and counts new tasks in existing
// contexts, which must be active.
var stmtContexts = newStatement("holdfast_contexts", "", contextsText(sqlNewTasks), newContextRows)

// stmtContextsReceived is stmtContexts for commits that also add client messages to tasks. It
// sets the contexts of these tasks to the times of the messages. It is a single statement, so
// that it locks all contexts of a commit in the order of their keys.
var stmtContextsReceived = newStatement("holdfast_contexts_received", "",
	contextsText(`SELECT owner, id, max(created_at) AS created_at, max(received_at) AS received_at, sum(n)::bigint AS n, max(first_id) AS first_id FROM (
				`+sqlNewTasks+`
				UNION ALL
				SELECT t.owner, t.context_id, 0, m.at, 0, '' FROM {m} CROSS JOIN LATERAL (
					SELECT owner, context_id FROM {s}.task_rows t WHERE t.owner = m.owner COLLATE "POSIX" AND t.id = m.id COLLATE "POSIX" OFFSET 0) t
			) x GROUP BY 1, 2 ORDER BY 1, 2`), newContextRows, receivedRows)

const sqlNewTasks = `SELECT owner COLLATE "C" AS owner, id COLLATE "C" AS id, created_at, received_at, n, first_id COLLATE "C" AS first_id FROM {u}`

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

// createParams is a task to be created.
type createParams struct {
	taskRow
	Snapshot *string `col:"snapshot"`
	Events   string  `col:"events"`
	Large    *int64  `col:"large"`
}

var createRows = paramRowsOf[createParams]("u")

// stmtCreate creates tasks, after stmtContexts or stmtContextsReceived created their contexts.
var stmtCreate = newStatement("holdfast_create", "mark", `WITH u AS MATERIALIZED (SELECT * FROM {u}), t AS (
			INSERT INTO {s}.task_rows (`+taskColumns.List("")+`, era, first)
			SELECT `+taskColumns.List("")+`, {era},
				coalesce((SELECT c.first_id = u.id FROM {s}.context_rows c WHERE c.owner = u.owner COLLATE "POSIX" AND c.id = u.context_id COLLATE "POSIX"), false)
			FROM u
		)
		INSERT INTO {s}.task_log (owner, task_pk, seq, mark, n, snapshot, events, large) SELECT owner, pk, 1, @mark, seq, snapshot, events, large FROM u`, createRows)

// updateParams is a change of a task. A nil field changes no column. A Version or Seen of 0 and a
// nil HeldFence are no guards. It has many fields because each is a column of the parameters of
// stmtUpdate.
type updateParams struct {
	Key         store.Key     `col:"owner,id"`
	Version     int64         `col:"version"`
	HeldWorker  *string       `col:"held_worker"`
	HeldFence   *int64        `col:"held_fence"`
	Seen        int64         `col:"seen"`
	N           int64         `col:"n"` // number of events
	State       *string       `col:"state"`
	StateAt     *int64        `col:"state_at"`
	Received    int64         `col:"received"` // see change.received
	UpdatedAt   *int64        `col:"updated_at"`
	Snapshot    *string       `col:"snapshot"`
	SnapshotSeq *int64        `col:"snapshot_seq"`
	Events      *string       `col:"events"`
	Phase       *sqlrow.Phase `col:"phase"`
	DueAt       *int64        `col:"due_at"`
	Worker      *string       `col:"lease_worker"`
	Fence       *int64        `col:"fence"`
	LeaseUntil  *int64        `col:"lease_until"`
	Turn        *int64        `col:"turn"`
	Attempt     *int64        `col:"attempt"`
	SeenSeq     *int64        `col:"seen_seq"`
	StartSeq    *int64        `col:"turn_start_seq"`
	Strict      bool          `col:"strict"`
	Bytes       int64         `col:"bytes"`
	Large       *int64        `col:"large"`
}

var updateRows = paramRowsOf[updateParams]("u")

// stmtUpdate applies each change if its guard succeeds, at most one change per task. It
// returns the ordinals of the applied changes, the new versions, and the number of webhooks
// of the tasks. It fails if the guard of a strict change fails, or if it does not see all
// webhooks of a task.
var stmtUpdate = newStatement("holdfast_update", "mark strict", `WITH up AS (
			UPDATE {s}.task_rows t SET
				seq = t.seq + u.n,
				received_seq = CASE WHEN u.received > 0 THEN t.seq + u.received ELSE t.received_seq END,
				checkpoint = CASE WHEN u.snapshot_seq = t.seq + u.n THEN t.seq + 1 ELSE t.checkpoint END,
				`+coalesced+`,
				era = CASE WHEN u.phase IS NULL THEN t.era ELSE {era} END,
				bytes = t.bytes + u.bytes
			FROM {u ord}
			WHERE t.owner = u.owner COLLATE "POSIX" AND t.id = u.id COLLATE "POSIX"
				AND (u.version = 0 OR t.seq = u.version)
				AND (u.held_fence IS NULL OR t.phase = {leased} AND t.lease_worker = u.held_worker AND t.fence = u.held_fence)
				AND (u.seen = 0 OR t.received_seq <= u.seen)
			RETURNING u.ord, t.pk, t.seq, t.checkpoint, u.n, u.snapshot, u.events, u.large, u.strict,
				t.owner, t.id, t.updated_at, CASE WHEN u.n > 0 THEN t.webhooks ELSE 0 END AS webhooks
		), moved AS (
			SELECT owner, id, seq, updated_at AS at FROM up WHERE webhooks > 0
		), `+sqlAdvanceLanes+`, log AS (
			INSERT INTO {s}.task_log (owner, task_pk, seq, mark, n, snapshot, events, large)
			SELECT owner, pk, seq - n + 1, @mark, n, CASE WHEN checkpoint = seq - n + 1 THEN snapshot END, events, large FROM up WHERE n > 0
		)
		SELECT ord, seq, webhooks FROM up
		UNION ALL
		SELECT 0, 1 / (CASE WHEN (SELECT count(*) FROM up WHERE strict) = @strict
			AND (SELECT coalesce(sum(webhooks), 0) FROM up) = (SELECT count(*) FROM followed) THEN 1 ELSE 0 END), 0`, updateRows)

// coalesced are the assignments of columns that a change may leave as they are.
var coalesced = func() string {
	names := strings.Fields("state state_at updated_at " + sqlrow.QueueColumns)
	for i, name := range names {
		names[i] = name + " = coalesce(u." + name + ", t." + name + ")"
	}
	return strings.Join(names, ", ")
}()

// contentParams is a large value of a task.
type contentParams struct {
	Key  store.Key `col:"owner,id"`
	Hash []byte    `col:"hash"`
	Data string    `col:"data"`
}

var contentRows = paramRowsOf[contentParams]("u")

// stmtContents adds large values of tasks that earlier statements created or changed.
var stmtContents = newStatement("holdfast_contents", "", `INSERT INTO {s}.task_contents (owner, task_pk, hash, data)
		SELECT t.owner, t.pk, u.hash, u.data FROM {u}
		CROSS JOIN LATERAL (SELECT t.owner, t.pk FROM {s}.task_rows t
			WHERE t.owner = u.owner COLLATE "POSIX" AND t.id = u.id COLLATE "POSIX" OFFSET 0) t
		ON CONFLICT (owner, task_pk, hash) DO NOTHING`, contentRows)

type keyParam struct {
	Key store.Key `col:"owner,id"`
}

var snapshotRows = paramRowsOf[keyParam]("u")

// stmtSnapshots removes snapshots of tasks that newer ones have replaced.
var stmtSnapshots = newStatement("holdfast_snapshots", "", `UPDATE {s}.task_log l SET snapshot = NULL
		FROM {u}
		CROSS JOIN LATERAL (SELECT t.owner, t.pk, t.checkpoint FROM {s}.task_rows t
			WHERE t.owner = u.owner COLLATE "POSIX" AND t.id = u.id COLLATE "POSIX" OFFSET 0) t
		CROSS JOIN LATERAL (SELECT l.owner, l.task_pk, l.seq FROM {s}.task_log l
			WHERE l.owner = t.owner AND l.task_pk = t.pk AND l.seq < t.checkpoint AND l.snapshot IS NOT NULL OFFSET 0) old
		WHERE l.owner = old.owner AND l.task_pk = old.task_pk AND l.seq = old.seq`, snapshotRows)

// stepParams is a step of a task.
type stepParams struct {
	Key       store.Key `col:"owner,id"`
	Turn      int64     `col:"turn"`
	Name      string    `col:"name"`
	Result    []byte    `col:"result"`
	Artifacts []byte    `col:"artifacts"`
}

var stepRows = paramRowsOf[stepParams]("u")

// stmtSteps saves steps of tasks that earlier statements created or changed.
var stmtSteps = newStatement("holdfast_steps", "", `INSERT INTO {s}.task_steps (owner, task_pk, turn, name, result, artifacts)
		SELECT t.owner, t.pk, u.turn, u.name, u.result, u.artifacts
		FROM {u ord}
		JOIN {s}.task_rows t ON t.owner = u.owner COLLATE "POSIX" AND t.id = u.id COLLATE "POSIX"
		ORDER BY u.ord
		ON CONFLICT (owner, task_pk, turn, name) DO UPDATE SET result = excluded.result, artifacts = excluded.artifacts`, stepRows)
