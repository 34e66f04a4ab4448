package postgres

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/backend/internal/sqlrow"
)

// stmtClaim claims tasks in one statement. It steps from owner to owner through two partial
// indexes, which contain only queued and only leased tasks, and from context to context of an
// owner through a third. It locks the first tasks of each that are not locked and have no
// locked webhooks, and leases them in round-robin order of the owners. It fails if it does
// not see all webhooks of a task.
//
// The candidates of an owner are ordered: expired leases first, then queued tasks, either in
// round-robin order of its contexts (by = 1) or by due time (by = 2). The statement reads only
// some candidates of each owner. Where an owner may have more, its order is known only up to a
// bound. Tasks are claimed up to the smallest bound of all owners, so that the round robin is
// exact; the column more reports whether there was a bound.
var stmtClaim = &statement{name: "holdfast_claim", text: claimText(`SELECT * FROM (` + sqlFairQueued + `) x`)}

// stmtClaimOldest is stmtClaim with queued tasks ordered by due time.
var stmtClaimOldest = &statement{name: "holdfast_claim_oldest", text: claimText(dueOwnerTasks("2, 0", readySince, "phase = {ready}"))}

// claimArguments are the parameters of a claim.
type claimArguments struct {
	AfterOwner    string   `col:"after_owner"`    // to start after
	LeaseHorizon  int64    `col:"lease_horizon"`  // of leases
	ExpiredUntil  int64    `col:"expired_until"`  // latest end of an expired lease
	Worker        string   `col:"worker"`         // receives the leases
	Until         int64    `col:"until"`          // end of the new leases
	Limit         int      `col:"max"`            // maximum number of tasks
	PerOwner      int      `col:"per_owner"`      // maximum number of tasks per owner
	PerContext    int      `col:"per_context"`    // maximum number of tasks per context
	State         string   `col:"state"`          // of the event
	At            int64    `col:"at"`             // time of the event
	Before        string   `col:"before"`         // its encoding before the time
	After         string   `col:"after"`          // its encoding after the time
	Bytes         int64    `col:"bytes"`          // its size
	Mark          int64    `col:"mark"`           // of the commit
	Owners        []string `col:"owners"`         // owners with a context to start after
	AfterContexts []string `col:"after_contexts"` // the context of each
	Skip          []string `col:"skip"`           // owners to skip
}

// claimedRow is a row of the result of a claim.
type claimedRow struct {
	taskRow
	Place     int64 `col:"place"`      // in the order of the claim
	Webhooks  int64 `col:"webhooks"`   // number of webhooks of the task
	ByContext bool  `col:"by_context"` // claimed in the round robin of contexts
	More      bool  `col:"more"`       // more tasks may be due
}

var (
	claimColumns   = sqlrow.Of[claimArguments]()
	claimedColumns = sqlrow.Of[claimedRow]()
)

func claimText(queued string) string { return namedText(claimColumns, claimTemplate(queued)) }

func claimTemplate(queued string) string {
	return `WITH RECURSIVE
	` + walkOwners("task_rows", "a", `owner COLLATE "ucs_basic" > @after_owner`, `owner COLLATE "ucs_basic" > a.owner`, 1) + `,
	` + walkOwners("task_rows", "b", `owner COLLATE "ucs_basic" <= @after_owner`, `owner COLLATE "ucs_basic" > b.owner AND owner COLLATE "ucs_basic" <= @after_owner`, 1_000_000_000) + `,
	locked AS MATERIALIZED (
		SELECT o.n, p.* FROM (
			SELECT owner, n, coalesce((@after_contexts)[array_position(@owners, owner COLLATE "C")], '') AS after
			FROM (SELECT * FROM a UNION ALL SELECT * FROM b) x WHERE owner <> ALL (@skip) OFFSET 0
		) o CROSS JOIN LATERAL (
			SELECT * FROM (
				` + dueOwnerTasks("0, 0", "lease_until", `phase = {leased} AND lease_until <= @expired_until AND lease_worker <> @worker`) + `
				UNION ALL
				` + dueOwnerTasks("0, 0", "lease_until", `phase = {leased} AND lease_until > @lease_horizon AND lease_until > @expired_until AND lease_worker <> @worker`) + `
				UNION ALL
				` + queued + `
			) y LIMIT @per_owner * @per_context
		) p LIMIT @max * @per_owner * @per_context
	), ranked AS (
		SELECT *, row_number() OVER (PARTITION BY n, by, turn ORDER BY at, id) AS round FROM locked
	), ordered AS MATERIALIZED (
		SELECT owner, id, n, by, round, row_number() OVER (PARTITION BY n ORDER BY by, CASE WHEN by = 1 THEN round END, turn, at, id) AS r,
			count(*) OVER (PARTITION BY n) AS found FROM ranked
	), bounds AS (
		SELECT CASE WHEN found >= @per_owner * @per_context THEN @per_owner ELSE found END AS known FROM ordered
		WHERE found >= @per_owner OR by = 1 AND round >= @per_context
	), chosen AS MATERIALIZED (
		SELECT owner, id, by, row_number() OVER (ORDER BY r, n) AS place FROM ordered
		WHERE r <= coalesce((SELECT min(known) FROM bounds), r) ORDER BY r, n LIMIT @max
	), t AS (
		UPDATE {s}.task_rows t SET phase = {leased}, era = {era}, lease_worker = @worker, fence = t.fence + 1, lease_until = @until,
			attempt = t.attempt + 1, seq = t.seq + 1, bytes = t.bytes + @bytes, state = @state,
			state_at = greatest(@at, t.updated_at), updated_at = greatest(@at, t.updated_at)
		FROM chosen WHERE t.owner = chosen.owner COLLATE "POSIX" AND t.id = chosen.id COLLATE "POSIX"
		RETURNING t.*, chosen.place, chosen.by
	), moved AS (
		SELECT owner, id, seq, updated_at AS at FROM t WHERE webhooks > 0
	), ` + sqlAdvanceLanes + `, log AS (
		INSERT INTO {s}.task_log (owner, task_pk, seq, mark, n, events)
		SELECT owner, pk, seq, @mark, 1, @before || to_char(timestamp '1970-01-01' + updated_at * interval '1 millisecond', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') || @after
		FROM t
	)
	SELECT ` + claimedColumns.List("r.") + ` FROM (SELECT *, by = 1 AS by_context, EXISTS (SELECT 1 FROM bounds) AS more FROM t) r
	WHERE 1 / (CASE WHEN (SELECT coalesce(sum(webhooks), 0) FROM t) = (SELECT count(*) FROM followed) THEN 1 ELSE 0 END) = 1`
}

// walkOwners returns a recursive CTE of the owners with ready or leased rows in a table of tasks
// or lanes, in order. It numbers them from first.
func walkOwners(table, name, from, after string, first int) string {
	const hop = `(SELECT owner COLLATE "ucs_basic" FROM {s}.%s WHERE phase = %s AND era = {era} AND %s ORDER BY owner COLLATE "ucs_basic" LIMIT 1)`
	step := func(where string) string {
		return "least(" + fmt.Sprintf(hop, table, "{ready}", where) + ", " + fmt.Sprintf(hop, table, "{leased}", where) + ")"
	}
	return fmt.Sprintf(`%[1]s(owner, n) AS (SELECT %[2]s, %[4]d UNION ALL SELECT %[3]s, %[1]s.n + 1 FROM %[1]s WHERE %[1]s.owner IS NOT NULL)`,
		name, step(from), step(after), first)
}

// readySince is when a ready task became due. A task that was never delayed is due since its creation.
const readySince = "greatest(due_at, created_at)"

// dueOwnerTasks selects up to @per_owner due tasks of the owner o, the longest due first.
func dueOwnerTasks(by, time, where string) string {
	return dueTasks(by, time, where+` AND owner = o.owner COLLATE "ucs_basic"`, "@per_owner")
}

// dueTasks selects up to limit due tasks, the longest due first. It skips up to 64 tasks that
// have a locked webhook. A higher number would make the planner read all tasks.
func dueTasks(by, time, where, limit string) string {
	return fmt.Sprintf(`SELECT * FROM (SELECT x.owner, x.id, x.at, %[1]s FROM (
			SELECT owner, id, %[2]s AS at, webhooks FROM {s}.task_rows WHERE era = {era} AND %[3]s ORDER BY %[2]s, id LIMIT %[4]s + 64 FOR UPDATE SKIP LOCKED
		) x WHERE x.webhooks = 0 OR x.webhooks = (SELECT count(*) FROM (
			SELECT 1 FROM {s}.webhook_lanes l WHERE l.owner = x.owner COLLATE "POSIX" AND l.task_id = x.id COLLATE "POSIX"
			ORDER BY l.id COLLATE "POSIX" FOR NO KEY UPDATE SKIP LOCKED) l)
		LIMIT %[4]s) x(owner, id, at, by, turn)`, by, time, where, limit)
}

// sqlFairQueued selects up to @per_context due tasks of each context of the owner o, in round-robin
// order of the contexts.
var sqlFairQueued = fmt.Sprintf(`WITH RECURSIVE
	%[1]s,
	%[2]s
	SELECT x.owner, x.id, x.at, x.by, x.turn FROM (SELECT * FROM ca UNION ALL SELECT * FROM cb) c CROSS JOIN LATERAL (
		%[3]s
	) x`,
	walkContexts("ca", `context_id COLLATE "POSIX" > o.after`, `context_id COLLATE "POSIX" > ca.context_id`, 1),
	walkContexts("cb", `context_id COLLATE "POSIX" <= o.after`, `context_id COLLATE "POSIX" > cb.context_id AND context_id COLLATE "POSIX" <= o.after`, 1_000_000_000),
	dueTasks("1, c.n", readySince, `phase = {ready} AND owner = o.owner COLLATE "POSIX" AND context_id = c.context_id COLLATE "POSIX"`, "@per_context"))

func walkContexts(name, from, after string, first int) string {
	const hop = `(SELECT context_id COLLATE "POSIX" FROM {s}.task_rows WHERE phase = {ready} AND era = {era} AND owner = o.owner COLLATE "POSIX" AND %s
		ORDER BY context_id COLLATE "POSIX" LIMIT 1)`
	return fmt.Sprintf(`%[1]s(context_id, n) AS (SELECT %[2]s, %[4]d UNION ALL
		SELECT %[3]s, %[1]s.n + 1 FROM %[1]s WHERE %[1]s.context_id IS NOT NULL)`,
		name, fmt.Sprintf(hop, from), fmt.Sprintf(hop, after), first)
}
