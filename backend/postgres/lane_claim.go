package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/encoding"
)

// promoteLimit is the number of waiting lanes or tasks that one claim makes ready, at most.
const promoteLimit = 512

// stmtPromoteLanes makes waiting lanes ready if they are due, or if their due time is beyond
// the horizon, so that claims visit only owners with ready or leased lanes. It also forgets
// deleted webhooks after their lease has ended. Parameters: 1 now, 2 end of the horizon,
// 3 maximum number of each, 4 see waitingBound.
var stmtPromoteLanes = &statement{
	name: "holdfast_lanes_promote",
	text: `WITH u AS MATERIALIZED (
			SELECT * FROM (SELECT owner, task_id, id FROM {s}.webhook_lanes
				WHERE phase = {waiting} AND due_at >= $4::bigint AND due_at <= $1::bigint ORDER BY due_at LIMIT $3::bigint FOR NO KEY UPDATE SKIP LOCKED) x
			UNION ALL
			SELECT * FROM (SELECT owner, task_id, id FROM {s}.webhook_lanes
				WHERE phase = {waiting} AND due_at > $2::bigint AND due_at > $1::bigint ORDER BY due_at LIMIT $3::bigint FOR NO KEY UPDATE SKIP LOCKED) x
		), g AS (
			DELETE FROM {s}.deleted_webhooks WHERE lease_until <= $1::bigint
		)
		UPDATE {s}.webhook_lanes l SET phase = {ready}, era = {era} FROM u WHERE ` + sqlLaneKey,
}

// sqlLaneLog reads the log rows of a lane after a sequence. The row with the next event may
// start before it. before is the size of the previous rows. events is null if the row is larger
// than the limit. Arguments: %[1]s the alias of the webhook, %[2]s the sequence, %[3]s the
// maximum number of events, %[4]s the maximum size in bytes.
const sqlLaneLog = `SELECT x.seq, CASE WHEN x.bytes > %[4]s THEN NULL WHEN x.large IS NULL THEN x.events ELSE {s}.inline_contents(%[1]s.owner, %[1]s.task_pk, x.events, true) END AS events, x.before FROM (
		SELECT g.seq, g.events, g.large, g.bytes, sum(g.bytes) OVER (ORDER BY g.seq) - g.bytes AS before
		FROM (SELECT *, octet_length(events) + coalesce(large, 0) AS bytes FROM {s}.task_log) g
		WHERE g.owner = %[1]s.owner AND g.task_pk = %[1]s.task_pk AND g.seq <= %[2]s + %[3]s AND g.seq >= coalesce(
			(SELECT f.seq FROM {s}.task_log f WHERE f.owner = %[1]s.owner AND f.task_pk = %[1]s.task_pk AND f.seq <= %[2]s + 1 ORDER BY f.seq DESC LIMIT 1), 0)
	) x WHERE x.before <= %[4]s`

// dueLanes selects due lanes of the owner o, the longest due first.
func dueLanes(phase, time, where string) string {
	return fmt.Sprintf(`SELECT * FROM (SELECT owner, task_id, id, %[2]s AS at FROM {s}.webhook_lanes
		WHERE phase = %[1]s AND era = {era} AND owner = o.owner COLLATE "ucs_basic" AND %[3]s
		ORDER BY %[2]s, task_id, id LIMIT $7::bigint FOR NO KEY UPDATE SKIP LOCKED) x`, phase, time, where)
}

// stmtClaimLanes claims lanes in one statement, like stmtClaim, and reads their webhooks and
// the next rows of their logs. Parameters: 1 the owner to start after, 2 now, 3 end of the
// horizon, 4 latest end of an expired lease of another worker, 5 worker, 6 maximum number of
// lanes, 7 maximum number per owner, 8 end of the new leases, 9 owners to skip, 10 maximum
// number and 11 maximum size of the events of a lane.
//
// The statement locks the current version of a lane, but does not see webhooks and events that
// were saved after it started. Such lanes are returned without them.
var stmtClaimLanes = &statement{
	name: "holdfast_lanes_claim",
	text: `WITH RECURSIVE
		` + walkOwners("webhook_lanes", "a", `owner COLLATE "ucs_basic" > $1::text`, `owner COLLATE "ucs_basic" > a.owner`, 1) + `,
		` + walkOwners("webhook_lanes", "b", `owner COLLATE "ucs_basic" <= $1::text`, `owner COLLATE "ucs_basic" > b.owner AND owner COLLATE "ucs_basic" <= $1::text`, 1_000_000_000) + `,
		locked AS MATERIALIZED (
			SELECT o.n, p.* FROM (SELECT * FROM a UNION ALL SELECT * FROM b) o CROSS JOIN LATERAL (
				SELECT * FROM (
					` + dueLanes("{ready}", "due_at", `due_at <= $2::bigint`) + `
					UNION ALL
					` + dueLanes("{ready}", "due_at", `due_at > $3::bigint AND due_at > $2::bigint`) + `
					UNION ALL
					` + dueLanes("{leased}", "lease_until", `lease_until <= $2::bigint`) + `
					UNION ALL
					` + dueLanes("{leased}", "lease_until", `lease_until > $2::bigint AND lease_until <= $4::bigint AND worker <> $5::text`) + `
					UNION ALL
					` + dueLanes("{leased}", "lease_until", `lease_until > $3::bigint AND lease_until > $2::bigint AND (lease_until > $4::bigint OR worker = $5::text)`) + `
				) y ORDER BY y.at, y.task_id, y.id LIMIT $7::bigint
			) p WHERE o.owner <> ALL ($9::text[]) LIMIT $6::bigint * $7::bigint
		), u AS MATERIALIZED (
			SELECT owner, task_id, id, row_number() OVER (ORDER BY r, n) AS place
			FROM (SELECT *, row_number() OVER (PARTITION BY owner ORDER BY at, task_id, id) AS r FROM locked) x
			ORDER BY r, n LIMIT $6::bigint
		), l AS (
			UPDATE {s}.webhook_lanes l SET phase = {leased}, era = {era}, worker = $5::text, fence = l.fence + 1, lease_until = $8::bigint
			FROM u WHERE ` + sqlLaneKey + ` RETURNING l.*, u.place
		)
		SELECT l.place, ` + laneList + `, CASE WHEN coalesce(g.before, 0) = 0 THEN c.data END, c.created_at, c.task_created_at,
			c.context_id, g.seq, g.events, l.rev
		FROM l
		LEFT JOIN {s}.webhooks c ON c.owner = l.owner COLLATE "POSIX" AND c.task_id = l.task_id COLLATE "POSIX"
			AND c.id = l.id COLLATE "POSIX" AND c.rev = l.rev
		LEFT JOIN LATERAL (` + fmt.Sprintf(sqlLaneLog, "c", "l.cursor_seq", "$10::bigint", "$11::bigint") + `) g ON true`,
}

// laneReadParams selects up to N events of a claimed lane after a sequence.
type laneReadParams struct {
	Task  store.Key `col:"owner,task_id"`
	ID    string    `col:"id"`
	Rev   int64     `col:"rev"`
	After int64     `col:"after"`
	N     int64     `col:"n"`
}

var laneReadRows = paramRowsOf[laneReadParams]("u")

// sqlReadLanes reads the webhooks and the next log rows of claimed lanes. It does not find a
// webhook that was saved after the claim, because saving it revoked the lease.
var sqlReadLanes = newStatement("", "largest", `SELECT u.ord, c.data, c.created_at, c.task_created_at, c.context_id, g.seq, g.events
	FROM {u ord}
	JOIN {s}.webhooks c ON c.owner = u.owner COLLATE "POSIX" AND c.task_id = u.task_id COLLATE "POSIX" AND c.id = u.id COLLATE "POSIX" AND c.rev = u.rev
	CROSS JOIN LATERAL (`+fmt.Sprintf(sqlLaneLog, "c", "u.after", "u.n", "@largest")+`) g ORDER BY u.ord, g.seq`, laneReadRows).text

// laneClaim is a lane that is being claimed.
type laneClaim struct {
	store.ClaimedLane
	place    int64
	rev      int64 // revision of the webhook
	size     int   // size of the events
	complete bool  // all events that the claim asks for are read
	tooLarge bool  // the next row is larger than the claim permits
	err      error // why the lane cannot be read
}

// add adds a row: data and creation time of the webhook, creation time of the task, context,
// sequence and events.
func (l *laneClaim) add(r record, p *store.LaneClaim) {
	if r.null(4) || l.err != nil {
		return
	}
	if !r.null(0) {
		scanWebhook(&l.Webhook, r)
		l.Created, l.ContextID = fromMillis(r.int(2)), r.text(3)
	}
	if r.null(5) {
		l.complete, l.tooLarge = true, true
		return
	}
	events, err := encoding.DecodeEvents(r.json(5), r.int(4), l.Webhook.Task, r.text(3))
	if err != nil {
		l.err = fmt.Errorf("event %d: %w", r.int(4), err)
	}
	for i := range events {
		if e := &events[i]; !l.complete && e.Seq == l.lastSeq()+1 {
			l.Events = append(l.Events, *e)
			l.size += e.Size()
			l.complete = e.Seq == l.Tail || len(l.Events) >= p.Events || p.Bytes > 0 && l.size > p.Bytes
		}
	}
}

// lastSeq returns the sequence of the last event that was read.
func (l *laneClaim) lastSeq() int64 { return l.Cursor.Seq + int64(len(l.Events)) }

// ClaimLanes implements [store.Lanes]. It is not retried after a lost connection, because
// lanes may have been leased.
func (s *webhookStore) ClaimLanes(ctx context.Context, p store.LaneClaim) (claimed []store.ClaimedLane, err error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	if p.Limit <= 0 {
		return nil, nil
	}
	if err := s.confirm(ctx); err != nil {
		return nil, wrapError(ctx, err, "claim lanes")
	}
	p.Events = max(p.Events, 1)
	// The first round locks at most the number of lanes per owner that one owner had in the last
	// claim. With p.Limit it would lock far too many lanes if there are many owners.
	depth := min(max(int(s.laneDepth.Load()), 1), p.Limit)
	// If a lease ends at once, its lane is due again, so a second round would find it.
	singleRound := !p.Until.After(p.Now) || p.Horizon > 0 && p.Until.After(p.Now.Add(p.Horizon))
	if singleRound {
		depth = p.Limit
	}
	var lanes []*laneClaim
	for {
		left := p.Limit - len(lanes)
		some, e := s.claimLanes(ctx, &p, left, depth, len(lanes) == 0)
		lanes = append(withoutReclaimed(lanes, some), some...)
		if err = e; err != nil || singleRound || maxPerOwner(some) < depth || len(some) == left {
			break
		}
		depth = p.Limit - len(lanes)
	}
	s.laneDepth.Store(int64(maxPerOwner(lanes)))
	s.eras.claimed(len(lanes))
	if len(lanes) == 0 {
		return nil, wrapError(ctx, err, "claim lanes")
	}
	if err != nil && ctx.Err() == nil {
		s.log.Warn("claim of lanes is incomplete", "error", err, "claimed", len(lanes))
	}
	// The lanes are leased now, so they are read even if the caller has canceled.
	err = s.readLanes(context.WithoutCancel(ctx), &p, lanes)
	var skipped []store.LaneLease
	for _, l := range lanes {
		if l.err != nil {
			s.log.Warn("claimed lane cannot be read", "task", l.Webhook.Task.ID, "error", l.err)
			skipped = append(skipped, store.LaneLease{Task: l.Webhook.Task, ID: l.Webhook.ID, Worker: l.Worker, Fence: l.Fence})
		} else if (l.tooLarge || len(l.Events) > 0) && (l.complete || err == nil) {
			claimed = append(claimed, l.ClaimedLane)
		}
	}
	if e := s.releaseRevoked(context.WithoutCancel(ctx), skipped); e != nil {
		s.log.Warn("leases of unreadable lanes were not released", "lanes", len(skipped), "error", e)
	}
	if len(claimed) == 0 {
		return nil, err
	}
	return claimed, nil
}

// withoutReclaimed returns lanes without the ones in reclaimed: a later round claimed them again,
// after their leases were revoked.
func withoutReclaimed(lanes, reclaimed []*laneClaim) []*laneClaim {
	return slices.DeleteFunc(lanes, func(l *laneClaim) bool {
		return slices.ContainsFunc(reclaimed, func(m *laneClaim) bool {
			return l.Webhook.Task == m.Webhook.Task && l.Webhook.ID == m.Webhook.ID
		})
	})
}

// maxPerOwner returns the largest number of lanes of one owner.
func maxPerOwner(lanes []*laneClaim) (most int) {
	of := make(map[string]int)
	for _, l := range lanes {
		owner := l.Webhook.Task.Owner
		of[owner]++
		most = max(most, of[owner])
	}
	return most
}

// claimLanes runs one round of a claim with at most depth lanes per owner. The first round
// also promotes waiting lanes.
func (s *webhookStore) claimLanes(ctx context.Context, p *store.LaneClaim, limit, depth int, first bool) (all []*laneClaim, err error) {
	now, horizon, expiredUntil := millis(p.Now), farFuture, millis(p.Now)
	if p.Horizon > 0 {
		horizon = millis(p.Now.Add(p.Horizon))
	}
	if p.Takeover {
		expiredUntil = farFuture
	}
	var places map[int64]*laneClaim
	claim := &call{statement: stmtClaimLanes, args: []any{
		p.AfterOwner, now, horizon, expiredUntil, p.Worker, limit, depth, millis(p.Until), append([]string{}, p.Skip...), p.Events, p.LargestRow(),
	}, row: func(r record) {
		l := places[r.int(0)]
		if l == nil {
			l = &laneClaim{place: r.int(0), rev: r.int(len(r) - 1), ClaimedLane: store.ClaimedLane{Lane: scanLane(r[1:])}}
			places[l.place] = l
			all = append(all, l)
		}
		l.add(r[1+laneWidth:], p)
	}}
	calls := []*call{claim}
	from, early := s.waitingLanes.start()
	promote := &call{statement: stmtPromoteLanes, args: []any{now, horizon, promoteLimit, from}}
	if first {
		calls = []*call{promote, claim}
	}
	for try := 0; ; try++ {
		all, places = nil, make(map[int64]*laneClaim, limit)
		err = s.pipelined(ctx, calls)
		if err == nil {
			break
		}
		if try >= s.cfg.MaxRetries || !rolledBack(err) || !s.backoff(ctx, try, err) {
			return nil, err
		}
	}
	if first && promote.changed < promoteLimit {
		s.waitingLanes.promoted(from, early, now)
	}
	slices.SortFunc(all, func(a, b *laneClaim) int { return cmp.Compare(a.place, b.place) })
	return all, nil
}

// readLanes reads the missing webhooks and events of claimed lanes.
func (s *webhookStore) readLanes(ctx context.Context, p *store.LaneClaim, lanes []*laneClaim) error {
	for {
		var lacking []*laneClaim
		var rows []laneReadParams
		for _, l := range lanes {
			if !l.complete && l.err == nil {
				lacking = append(lacking, l)
				rows = append(rows, laneReadParams{
					Task: l.Webhook.Task, ID: l.Webhook.ID, Rev: l.rev, After: l.lastSeq(), N: int64(p.Events - len(l.Events)),
				})
			}
		}
		if len(lacking) == 0 {
			return nil
		}
		err := s.retry(ctx, "read claimed lanes", func(ctx context.Context, c *pgx.Conn) error {
			return s.eachRow(ctx, c, sqlReadLanes, func(r record) error {
				lacking[r.int(0)-1].add(r[1:], p)
				return nil
			}, laneReadRows.args(rows, p.LargestRow())...)
		})
		if err != nil {
			return err
		}
		for i, l := range lacking {
			if before := rows[i].After; l.lastSeq() == before && l.err == nil {
				l.err = fmt.Errorf("webhook was changed concurrently, or event %d is missing", before+1)
			}
		}
	}
}

var sqlRenewLanes = newStatement("", "until", `WITH h AS MATERIALIZED (
		SELECT u.ord, l.owner, l.task_id, l.id
		FROM {u ord}
		JOIN {s}.webhook_lanes l ON `+sqlLaneKey+` AND l.worker = u.worker AND l.fence = u.fence
		WHERE l.worker <> '' ORDER BY u.ord FOR NO KEY UPDATE OF l
	)
	UPDATE {s}.webhook_lanes l SET lease_until = @until FROM h u WHERE `+sqlLaneKey+` RETURNING u.ord`, leaseRows).text

// RenewLanes implements [store.Lanes].
func (s *webhookStore) RenewLanes(ctx context.Context, until time.Time, leases []store.LaneLease) (lost []store.LaneLease, err error) {
	sorted := sortLeases(leases)
	err = s.read(ctx, "renew leases of lanes", func(ctx context.Context, c *pgx.Conn) error {
		lost = nil
		held := make(map[store.LaneLease]bool, len(leases))
		err := s.eachRow(ctx, c, sqlRenewLanes, func(r record) error {
			held[store.LaneLease(sorted[r.int(0)-1])] = true
			return nil
		}, leaseRows.args(sorted, millis(until))...)
		for _, l := range leases {
			if !held[l] {
				lost = append(lost, l)
			}
		}
		return err
	})
	return lost, err
}

// leaseParams is a [store.LaneLease] as a parameter.
type leaseParams struct {
	Task   store.Key `col:"owner,task_id"`
	ID     string    `col:"id"`
	Worker string    `col:"worker"`
	Fence  int64     `col:"fence"`
}

var leaseRows = paramRowsOf[leaseParams]("u")

// sortLeases returns distinct leases in the order in which their rows are locked. It omits
// leases that cannot exist.
func sortLeases(leases []store.LaneLease) (sorted []leaseParams) {
	for i := range leases {
		if storableLease(&leases[i]) {
			sorted = append(sorted, leaseParams(leases[i]))
		}
	}
	slices.SortFunc(sorted, func(a, b leaseParams) int {
		return cmp.Or(compareKeys(a.Task, b.Task), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Worker, b.Worker), cmp.Compare(a.Fence, b.Fence))
	})
	return slices.Compact(sorted)
}

func storableLease(l *store.LaneLease) bool { return storable(l.Task.Owner, l.Task.ID, l.ID, l.Worker) }
