package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/store"
)

// promoteLimit is how many waiting lanes or tasks become ready with one claim.
const promoteLimit = 512

// stmtPromote makes waiting lanes ready whose time has come: so that a claim walks
// from owner to owner only through those that have something to do. Deleted webhooks
// whose worker has let its lease end are forgotten.
var stmtPromote = &statement{
	name: "holdfast_lanes_promote",
	text: `WITH u AS MATERIALIZED (
			SELECT * FROM (SELECT owner, task_id, id FROM {s}.push_lanes
				WHERE phase = 2 AND due_at <= $1::bigint ORDER BY due_at LIMIT $3::bigint FOR NO KEY UPDATE SKIP LOCKED) x
			UNION ALL
			SELECT * FROM (SELECT owner, task_id, id FROM {s}.push_lanes
				WHERE phase = 2 AND due_at > $2::bigint AND due_at > $1::bigint ORDER BY due_at LIMIT $3::bigint FOR NO KEY UPDATE SKIP LOCKED) x
		), g AS (
			DELETE FROM {s}.push_gone WHERE lease_until <= $1::bigint
		)
		UPDATE {s}.push_lanes l SET phase = 1 FROM u WHERE ` + sqlLaneKey,
}

// sqlLaneLog reads the log rows of a lane behind a place. The row that holds the
// next event may begin before it. before is how much text the rows before hold; events is
// null where one row holds more than is to be read.
// %[1]s is the number of the task, %[2]s the place, %[3]s how many events and %[4]s how
// much text at most.
const sqlLaneLog = `SELECT x.seq, CASE WHEN x.bytes > %[4]s THEN NULL WHEN x.large IS NULL THEN x.events ELSE {s}.whole(%[1]s, x.events, true) END AS events, x.before FROM (
		SELECT g.seq, g.events, g.large, g.bytes, sum(g.bytes) OVER (ORDER BY g.seq) - g.bytes AS before
		FROM (SELECT *, octet_length(events) + coalesce(large, 0) AS bytes FROM {s}.task_log) g
		WHERE g.task_pk = %[1]s AND g.seq <= %[2]s + %[3]s AND g.seq >= coalesce(
			(SELECT f.seq FROM {s}.task_log f WHERE f.task_pk = %[1]s AND f.seq <= %[2]s + 1 ORDER BY f.seq DESC LIMIT 1), 0)
	) x WHERE x.before <= %[4]s`

// laneOwners walks through the owners behind $1, or up to it, that have lanes which
// are ready or leased.
func laneOwners(name, from, after string, first int) string {
	const hop = `(SELECT owner COLLATE "ucs_basic" FROM {s}.push_lanes WHERE phase = %d AND %s ORDER BY owner COLLATE "ucs_basic" LIMIT 1)`
	step := func(where string) string {
		return "least(" + fmt.Sprintf(hop, 1, where) + ", " + fmt.Sprintf(hop, 3, where) + ")"
	}
	return fmt.Sprintf(`%[1]s(owner, n) AS (SELECT %[2]s, %[4]d UNION ALL SELECT %[3]s, %[1]s.n + 1 FROM %[1]s WHERE %[1]s.owner IS NOT NULL)`,
		name, step(from), step(after), first)
}

// laneLine finds lanes of the owner o that are due by one reason, the longest first.
func laneLine(phase int, time, where string) string {
	return fmt.Sprintf(`SELECT * FROM (SELECT owner, task_id, id, %[2]s AS at FROM {s}.push_lanes
		WHERE phase = %[1]d AND owner = o.owner COLLATE "ucs_basic" AND %[3]s
		ORDER BY %[2]s, task_id, id LIMIT $7::bigint FOR NO KEY UPDATE SKIP LOCKED) x`, phase, time, where)
}

// stmtClaimLanes claims in one statement, like stmtClaim, and reads the webhooks and
// the next rows of the logs. Parameters: 1 the owner to begin after, 2 now, 3 the end
// of the horizon, 4 the end of others' leases that are over, 5 the worker, 6 how many
// to claim, 7 how many of an owner, 8 the new end, 9 owners to skip, 10 how many events
// and 11 how much text of each lane.
//
// A webhook that was saved, or a log that went on, after the statement began is not
// seen, although the lane is as it is now: such lanes come without what they lack.
var stmtClaimLanes = &statement{
	name: "holdfast_lanes_claim",
	text: `WITH RECURSIVE
		` + laneOwners("a", `owner COLLATE "ucs_basic" > $1::text`, `owner COLLATE "ucs_basic" > a.owner`, 1) + `,
		` + laneOwners("b", `owner COLLATE "ucs_basic" <= $1::text`, `owner COLLATE "ucs_basic" > b.owner AND owner COLLATE "ucs_basic" <= $1::text`, 1_000_000_000) + `,
		locked AS MATERIALIZED (
			SELECT o.n, p.* FROM (SELECT * FROM a UNION ALL SELECT * FROM b) o CROSS JOIN LATERAL (
				SELECT * FROM (
					` + laneLine(1, "due_at", `due_at <= $2::bigint`) + `
					UNION ALL
					` + laneLine(1, "due_at", `due_at > $3::bigint AND due_at > $2::bigint`) + `
					UNION ALL
					` + laneLine(3, "lease_until", `lease_until <= $2::bigint`) + `
					UNION ALL
					` + laneLine(3, "lease_until", `lease_until > $2::bigint AND lease_until <= $4::bigint AND worker <> $5::text`) + `
					UNION ALL
					` + laneLine(3, "lease_until", `lease_until > $3::bigint AND lease_until > $2::bigint AND (lease_until > $4::bigint OR worker = $5::text)`) + `
				) y ORDER BY y.at, y.task_id, y.id LIMIT $7::bigint
			) p WHERE o.owner <> ALL ($9::text[]) LIMIT $6::bigint * $7::bigint
		), u AS MATERIALIZED (
			SELECT owner, task_id, id, row_number() OVER (ORDER BY r, n) AS place
			FROM (SELECT *, row_number() OVER (PARTITION BY owner ORDER BY at, task_id, id) AS r FROM locked) x
			ORDER BY r, n LIMIT $6::bigint
		), l AS (
			UPDATE {s}.push_lanes l SET phase = 3, worker = $5::text, fence = l.fence + 1, lease_until = $8::bigint
			FROM u WHERE ` + sqlLaneKey + ` RETURNING l.*, u.place
		)
		SELECT l.place, ` + laneColumns + `, CASE WHEN coalesce(g.before, 0) = 0 THEN c.data END, c.created_at, c.task_created_at,
			c.context_id, g.seq, g.events, l.rev
		FROM l
		LEFT JOIN {s}.push_configs c ON c.owner = l.owner COLLATE "POSIX" AND c.task_id = l.task_id COLLATE "POSIX"
			AND c.id = l.id COLLATE "POSIX" AND c.rev = l.rev
		LEFT JOIN LATERAL (` + fmt.Sprintf(sqlLaneLog, "c.task_pk", "l.cursor_seq", "$10::bigint", "$11::bigint") + `) g ON true`,
}

// sqlReadLanes reads the webhooks and the next rows of the logs of lanes whose
// leases have been taken. A webhook that was saved since is not found: the lease is
// lost.
var sqlReadLanes = `SELECT u.ord, c.data, c.created_at, c.task_created_at, c.context_id, g.seq, g.events
	FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[]) WITH ORDINALITY AS u(owner, task_id, id, rev, after, n, ord)
	JOIN {s}.push_configs c ON c.owner = u.owner COLLATE "POSIX" AND c.task_id = u.task_id COLLATE "POSIX" AND c.id = u.id COLLATE "POSIX" AND c.rev = u.rev
	CROSS JOIN LATERAL (` + fmt.Sprintf(sqlLaneLog, "c.task_pk", "u.after", "u.n", "$7::bigint") + `) g ORDER BY u.ord, g.seq`

// laneTaking is a lane that is being claimed.
type laneTaking struct {
	store.ClaimedLane
	place int64
	rev   int64 // of the webhook
	size  int   // of the events
	full  bool  // there is nothing more to be read
	large bool  // the next row is too large to be read
	bad   error // why its task cannot be read
}

// add takes a row: data, its time, the task's time, context, sequence and events.
func (l *laneTaking) add(r record, p *store.LaneClaim) {
	if r.null(4) || l.bad != nil {
		return
	}
	if !r.null(0) {
		scanConfig(&l.Config, r)
		l.Created, l.ContextID = fromMillis(r.int(2)), r.text(3)
	}
	if r.null(5) {
		l.full, l.large = true, true
		return
	}
	events, err := store.DecodeEvents(r.json(5), r.int(4), l.Config.Task, r.text(3))
	if err != nil {
		l.bad = fmt.Errorf("event %d: %w", r.int(4), err)
	}
	for i := range events {
		if e := &events[i]; !l.full && e.Seq == l.last()+1 {
			l.Events = append(l.Events, *e)
			l.size += e.Size()
			l.full = e.Seq == l.Tail || len(l.Events) >= p.Events || p.Bytes > 0 && l.size > p.Bytes
		}
	}
}

// last is the sequence of the last event that was read.
func (l *laneTaking) last() int64 { return l.Cursor.Seq + int64(len(l.Events)) }

// ClaimLanes implements [store.PushStore]. It is not tried again when leases may have
// been taken.
func (s *Store) ClaimLanes(ctx context.Context, p store.LaneClaim) (claimed []store.ClaimedLane, err error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	if p.Limit <= 0 {
		return nil, nil
	}
	if err := s.confirm(ctx); err != nil {
		return nil, failed(ctx, err, "claim lanes")
	}
	p.Events = max(p.Events, 1)
	// How many lanes of one owner are looked at is what one had the last time: the most
	// that there may be would lock far too many where owners are many.
	depth := min(max(int(s.laneDepth.Load()), 1), p.Limit)
	// A lane that is due again as soon as it is leased must not be found by a second round.
	once := !p.Until.After(p.Now) || p.Horizon > 0 && p.Until.After(p.Now.Add(p.Horizon))
	if once {
		depth = p.Limit
	}
	var lanes []*laneTaking
	for {
		left := p.Limit - len(lanes)
		some, e := s.claimLanes(ctx, &p, left, depth, len(lanes) == 0)
		lanes = append(withoutLost(lanes, some), some...)
		if err = e; err != nil || once || mostOfAnOwner(some) < depth || len(some) == left {
			break
		}
		depth = p.Limit - len(lanes)
	}
	s.laneDepth.Store(int64(mostOfAnOwner(lanes)))
	if len(lanes) == 0 {
		return nil, failed(ctx, err, "claim lanes")
	}
	if err != nil && ctx.Err() == nil {
		s.log.Warn("claim of lanes ended early", "error", err, "claimed", len(lanes))
	}
	// The leases have been taken, so they are read even if the caller is gone.
	err = s.readLanes(context.WithoutCancel(ctx), &p, lanes)
	var out []store.LaneLease
	for _, l := range lanes {
		if l.bad != nil {
			s.log.Warn("claimed lane is left out", "task", l.Config.Task.ID, "error", l.bad)
			out = append(out, store.LaneLease{Task: l.Config.Task, ID: l.Config.ID, Worker: l.Worker, Fence: l.Fence})
		} else if (l.large || len(l.Events) > 0) && (l.full || err == nil) {
			claimed = append(claimed, l.ClaimedLane)
		}
	}
	if e := s.letGo(context.WithoutCancel(ctx), out); e != nil {
		s.log.Warn("claimed lanes stay leased that are left out", "lanes", len(out), "error", e)
	}
	if len(claimed) == 0 {
		return nil, err
	}
	return claimed, nil
}

// withoutLost returns lanes without those that were claimed again, since their leases
// had been taken away meanwhile.
func withoutLost(lanes, again []*laneTaking) []*laneTaking {
	return slices.DeleteFunc(lanes, func(l *laneTaking) bool {
		return slices.ContainsFunc(again, func(m *laneTaking) bool {
			return l.Config.Task == m.Config.Task && l.Config.ID == m.Config.ID
		})
	})
}

// mostOfAnOwner returns how many of the lanes are one owner's at most.
func mostOfAnOwner(lanes []*laneTaking) (most int) {
	of := make(map[string]int)
	for _, l := range lanes {
		owner := l.Config.Task.Owner
		of[owner]++
		most = max(most, of[owner])
	}
	return most
}

// claimLanes makes one round of a claim; depth is the most to take of an owner. The
// first round makes lanes ready.
func (s *Store) claimLanes(ctx context.Context, p *store.LaneClaim, limit, depth int, first bool) (all []*laneTaking, err error) {
	now, far, over := millis(p.Now), never, millis(p.Now)
	if p.Horizon > 0 {
		far = millis(p.Now.Add(p.Horizon))
	}
	if p.Takeover {
		over = never
	}
	var places map[int64]*laneTaking
	claim := &call{statement: stmtClaimLanes, args: []any{
		p.AfterOwner, now, far, over, p.Worker, limit, depth, millis(p.Until), append([]string{}, p.Skip...), p.Events, p.LargestRow(),
	}, row: func(r record) {
		l := places[r.int(0)]
		if l == nil {
			l = &laneTaking{place: r.int(0), rev: r.int(len(r) - 1), ClaimedLane: store.ClaimedLane{Lane: scanLane(r[1:])}}
			places[l.place] = l
			all = append(all, l)
		}
		l.add(r[1+laneWidth:], p)
	}}
	calls := []*call{claim}
	if first {
		calls = []*call{{statement: stmtPromote, args: []any{now, far, promoteLimit}}, claim}
	}
	for try := 0; ; try++ {
		all, places = nil, make(map[int64]*laneTaking, limit)
		err = s.pipelined(ctx, calls)
		if err == nil {
			break
		}
		if try >= s.cfg.MaxRetries || !undone(err) || !s.pause(ctx, try, err) {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b *laneTaking) int { return cmp.Compare(a.place, b.place) })
	return all, nil
}

// readLanes reads what claimed lanes lack, for all of them together.
func (s *Store) readLanes(ctx context.Context, p *store.LaneClaim, lanes []*laneTaking) error {
	for {
		var lacking []*laneTaking
		var owners, tasks, ids []string
		var revs, after, counts []int64
		for _, l := range lanes {
			if !l.full && l.bad == nil {
				lacking = append(lacking, l)
				owners, tasks, ids = append(owners, l.Config.Task.Owner), append(tasks, l.Config.Task.ID), append(ids, l.Config.ID)
				revs, after, counts = append(revs, l.rev), append(after, l.last()), append(counts, int64(p.Events-len(l.Events)))
			}
		}
		if len(lacking) == 0 {
			return nil
		}
		before := slices.Clone(after)
		err := s.repeat(ctx, "read claimed lanes", func(ctx context.Context, c *pgx.Conn) error {
			return s.each(ctx, c, sqlReadLanes, func(r record) error {
				lacking[r.int(0)-1].add(r[1:], p)
				return nil
			}, owners, tasks, ids, revs, after, counts, p.LargestRow())
		})
		if err != nil {
			return err
		}
		for i, l := range lacking {
			if l.last() == before[i] && l.bad == nil {
				l.bad = fmt.Errorf("webhook was saved or removed meanwhile, or event %d is not there", before[i]+1)
			}
		}
	}
}

const sqlRenewLanes = `WITH h AS MATERIALIZED (
		SELECT u.ord, l.owner, l.task_id, l.id
		FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[]) WITH ORDINALITY AS u(owner, task_id, id, worker, fence, ord)
		JOIN {s}.push_lanes l ON ` + sqlLaneKey + ` AND l.worker = u.worker AND l.fence = u.fence
		WHERE l.worker <> '' ORDER BY u.ord FOR NO KEY UPDATE OF l
	)
	UPDATE {s}.push_lanes l SET lease_until = $6::bigint FROM h u WHERE ` + sqlLaneKey + ` RETURNING u.ord`

// RenewLanes implements [store.PushStore].
func (s *Store) RenewLanes(ctx context.Context, until time.Time, leases []store.LaneLease) (lost []store.LaneLease, err error) {
	sorted := sortLeases(leases)
	a := leaseArrays(sorted)
	err = s.read(ctx, "renew leases of lanes", func(ctx context.Context, c *pgx.Conn) error {
		lost = nil
		held := make(map[store.LaneLease]bool, len(leases))
		err := s.each(ctx, c, sqlRenewLanes, func(r record) error {
			held[sorted[r.int(0)-1]] = true
			return nil
		}, a.owners, a.tasks, a.ids, a.workers, a.fences, millis(until))
		for _, l := range leases {
			if !held[l] {
				lost = append(lost, l)
			}
		}
		return err
	})
	return lost, err
}

// leases are leases of lanes as parameters.
type leases struct {
	owners, tasks, ids, workers []string
	fences                      []int64
}

// sortLeases returns leases in the order in which their rows are locked, each once and
// without those that nobody can hold.
func sortLeases(leases []store.LaneLease) []store.LaneLease {
	sorted := slices.Clone(leases)
	slices.SortFunc(sorted, compareLeases)
	return slices.DeleteFunc(slices.Compact(sorted), func(l store.LaneLease) bool { return !storableLease(&l) })
}

func leaseArrays(all []store.LaneLease) (a leases) {
	a.owners, a.tasks, a.ids, a.workers, a.fences = []string{}, []string{}, []string{}, []string{}, []int64{}
	for i := range all {
		l := &all[i]
		a.owners, a.tasks, a.ids = append(a.owners, l.Task.Owner), append(a.tasks, l.Task.ID), append(a.ids, l.ID)
		a.workers, a.fences = append(a.workers, l.Worker), append(a.fences, l.Fence)
	}
	return a
}

func storableLease(l *store.LaneLease) bool { return storable(l.Task.Owner, l.Task.ID, l.ID, l.Worker) }

func compareLeases(a, b store.LaneLease) int {
	return cmp.Or(compareKeys(a.Task, b.Task), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Worker, b.Worker), cmp.Compare(a.Fence, b.Fence))
}
