package postgres

import "fmt"

// stmtClaim claims in one statement. It hops from owner to owner through the two partial
// indexes of the work queue, which hold only tasks with work to do, and from context to context of
// an owner through a third. It locks the first tasks of each that no other claim has locked, nor
// anybody their webhooks, and leases those whose turn it is. Parameters: 1 the owner to begin
// after, 2 now, 3 the end of the horizon of queued tasks, 4 the end of leases that are over, 5 the worker, 6 how many
// to claim, 7 how many of an owner, 8 the new end, 9 state and 10 time of the event, 11-13 its
// JSON: whole, and before and after its time, 14 the mark of the log, 15 owners with 16 the context
// to start after, 17 how many of a context, 18 the end of the horizon of leases, 19 the size of
// the event, 20 owners to skip. It fails when a
// webhook is not seen.
//
// Of an owner it finds a line: leases that are over, then (by) either rounds of its contexts or
// its longest due. What is known of the line is its first so many tasks (sure); more is
// left where the owner may have others (more). Only what all owners' lines are sure of is
// claimed, so that they take turns to the end.
var stmtClaim = &statement{name: "holdfast_claim", text: claimText(`SELECT * FROM (` + claimTurns + `) x`)}

// stmtClaimOldest is stmtClaim without turns of contexts.
var stmtClaimOldest = &statement{name: "holdfast_claim_oldest", text: claimText(claimLine("2, 0", "phase = 1", "due_at", "due_at <= $2::bigint") + `
				UNION ALL
				` + claimLine("2, 0", "phase = 1", "due_at", "due_at > $3::bigint AND due_at > $2::bigint"))}

func claimText(queued string) string {
	return `WITH RECURSIVE
	` + claimOwners("a", `owner COLLATE "ucs_basic" > $1::text`, `owner COLLATE "ucs_basic" > a.owner`, 1) + `,
	` + claimOwners("b", `owner COLLATE "ucs_basic" <= $1::text`, `owner COLLATE "ucs_basic" > b.owner AND owner COLLATE "ucs_basic" <= $1::text`, 1_000_000_000) + `,
	locked AS MATERIALIZED (
		SELECT o.n, p.* FROM (
			SELECT owner, n, coalesce(($16::text[])[array_position($15::text[], owner COLLATE "C")], '') AS after
			FROM (SELECT * FROM a UNION ALL SELECT * FROM b) x WHERE owner <> ALL ($20::text[]) OFFSET 0
		) o CROSS JOIN LATERAL (
			SELECT * FROM (
				` + claimLine("0, 0", "phase = 2", "lease_until", `lease_until <= $4::bigint AND lease_worker <> $5::text`) + `
				UNION ALL
				` + claimLine("0, 0", "phase = 2", "lease_until", `lease_until > $18::bigint AND lease_until > $4::bigint AND lease_worker <> $5::text`) + `
				UNION ALL
				` + queued + `
			) y LIMIT $7::bigint * $17::bigint
		) p LIMIT $6::bigint * $7::bigint * $17::bigint
	), ranked AS (
		SELECT *, row_number() OVER (PARTITION BY n, by, turn ORDER BY at, id) AS round FROM locked
	), lined AS MATERIALIZED (
		SELECT owner, id, n, by, round, row_number() OVER (PARTITION BY n ORDER BY by, CASE WHEN by = 1 THEN round END, turn, at, id) AS r,
			count(*) OVER (PARTITION BY n) AS found FROM ranked
	), lines AS (
		SELECT CASE WHEN found >= $7::bigint * $17::bigint THEN $7::bigint ELSE found END AS sure FROM lined
		WHERE found >= $7::bigint OR by = 1 AND round >= $17::bigint
	), chosen AS MATERIALIZED (
		SELECT owner, id, by, row_number() OVER (ORDER BY r, n) AS place FROM lined
		WHERE r <= coalesce((SELECT min(sure) FROM lines), r) ORDER BY r, n LIMIT $6::bigint
	), t AS (
		UPDATE {s}.task_rows t SET phase = 2, lease_worker = $5::text, fence = t.fence + 1, lease_until = $8::bigint,
			attempt = t.attempt + 1, seq = t.seq + 1, bytes = t.bytes + $19::bigint, state = $9::text,
			state_at = greatest($10::bigint, t.updated_at), updated_at = greatest($10::bigint, t.updated_at)
		FROM chosen WHERE t.owner = chosen.owner COLLATE "POSIX" AND t.id = chosen.id COLLATE "POSIX"
		RETURNING t.*, chosen.place, chosen.by
	), moved AS (
		SELECT owner, id, seq, updated_at AS at FROM t WHERE webhooks > 0
	), ` + sqlFollow + `, log AS (
		INSERT INTO {s}.task_log (task_pk, seq, mark, n, events)
		SELECT pk, seq, $14::bigint, 1, CASE WHEN updated_at = $10::bigint THEN $11::text ELSE
			$12::text || to_char(timestamp '1970-01-01' + updated_at * interval '1 millisecond', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') || $13::text END
		FROM t
	)
	SELECT ` + rowColumns + `, t.place, t.webhooks, t.by = 1, EXISTS (SELECT 1 FROM lines) FROM t
	WHERE 1 / (CASE WHEN (SELECT coalesce(sum(webhooks), 0) FROM t) = (SELECT count(*) FROM followed) THEN 1 ELSE 0 END) = 1`
}

// claimOwners walks through the owners that have something queued or leased.
func claimOwners(name, from, after string, first int) string {
	const hop = `(SELECT owner COLLATE "ucs_basic" FROM {s}.task_rows WHERE phase = %d AND %s ORDER BY owner COLLATE "ucs_basic" LIMIT 1)`
	step := func(where string) string {
		return "least(" + fmt.Sprintf(hop, 1, where) + ", " + fmt.Sprintf(hop, 2, where) + ")"
	}
	return fmt.Sprintf(`%[1]s(owner, n) AS (SELECT %[2]s, %[4]d UNION ALL SELECT %[3]s, %[1]s.n + 1 FROM %[1]s WHERE %[1]s.owner IS NOT NULL)`,
		name, step(from), step(after), first)
}

// claimLine finds up to $7 tasks of the owner o that are due by one reason, the longest
// first.
func claimLine(by, where, time, due string) string {
	return claimTasks(by, where+` AND owner = o.owner COLLATE "ucs_basic"`, time, due, "$7")
}

// claimTasks finds up to limit tasks that are due by one reason, the longest first. A task
// of which somebody has locked a webhook is left to a later claim; some are passed over
// for others, but not so many that it were planned to look at all.
func claimTasks(by, where, time, due, limit string) string {
	return fmt.Sprintf(`SELECT * FROM (SELECT x.owner, x.id, x.at, %[1]s FROM (
			SELECT owner, id, %[3]s AS at, webhooks FROM {s}.task_rows WHERE %[2]s AND %[4]s ORDER BY %[3]s, id LIMIT %[5]s::bigint + 64 FOR UPDATE SKIP LOCKED
		) x WHERE x.webhooks = 0 OR x.webhooks = (SELECT count(*) FROM (
			SELECT 1 FROM {s}.push_lanes l WHERE l.owner = x.owner COLLATE "POSIX" AND l.task_id = x.id COLLATE "POSIX"
			ORDER BY l.id COLLATE "POSIX" FOR NO KEY UPDATE SKIP LOCKED) l)
		LIMIT %[5]s::bigint) x(owner, id, at, by, turn)`, by, where, time, due, limit)
}

// claimTurns finds up to $17 tasks of each context of the owner o, in the order of their turns.
var claimTurns = fmt.Sprintf(`WITH RECURSIVE
	%[1]s,
	%[2]s
	SELECT x.owner, x.id, x.at, x.by, x.turn FROM (SELECT * FROM ca UNION ALL SELECT * FROM cb) c CROSS JOIN LATERAL (
		SELECT * FROM (%[3]s UNION ALL %[4]s) x LIMIT $17::bigint
	) x`,
	claimContexts("ca", `context_id COLLATE "POSIX" > o.after`, `context_id COLLATE "POSIX" > ca.context_id`, 1),
	claimContexts("cb", `context_id COLLATE "POSIX" <= o.after`, `context_id COLLATE "POSIX" > cb.context_id AND context_id COLLATE "POSIX" <= o.after`, 1_000_000_000),
	claimTasks("1, c.n", ofContext, "due_at", "due_at <= $2::bigint", "$17"),
	claimTasks("1, c.n", ofContext, "due_at", "due_at > $3::bigint AND due_at > $2::bigint", "$17"))

const ofContext = `phase = 1 AND owner = o.owner COLLATE "POSIX" AND context_id = c.context_id COLLATE "POSIX"`

func claimContexts(name, from, after string, first int) string {
	const hop = `(SELECT context_id COLLATE "POSIX" FROM {s}.task_rows WHERE phase = 1 AND owner = o.owner COLLATE "POSIX" AND %s
		ORDER BY context_id COLLATE "POSIX" LIMIT 1)`
	return fmt.Sprintf(`%[1]s(context_id, n) AS (SELECT %[2]s, %[4]d UNION ALL
		SELECT %[3]s, %[1]s.n + 1 FROM %[1]s WHERE %[1]s.context_id IS NOT NULL)`,
		name, fmt.Sprintf(hop, from), fmt.Sprintf(hop, after), first)
}
