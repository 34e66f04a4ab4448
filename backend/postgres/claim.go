package postgres

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/store"
)

// sqlClaim claims in one statement. It hops from owner to owner through the two
// partial indexes of the work queue, which hold only tasks with work to do, locks
// the first tasks of each that no other claim has locked, and leases those whose
// turn it is. Parameters: 1 the owner to begin after, 2 now, 3 the end of the horizon, 4 the
// end of leases that are over, 5 the worker, 6 how many to claim, 7 how many of an owner,
// 8 the new end, 9 state and 10 time of the event, 11-13 its JSON: whole, and
// before and after its time, 14 the mark of the log. It fails when a webhook is not seen.
const sqlClaim = `WITH RECURSIVE
	a(owner, n) AS (
		SELECT least(
			(SELECT owner COLLATE "ucs_basic" FROM {s}.task_rows WHERE phase = 1 AND owner COLLATE "ucs_basic" > $1::text ORDER BY owner COLLATE "ucs_basic" LIMIT 1),
			(SELECT owner COLLATE "ucs_basic" FROM {s}.task_rows WHERE phase = 2 AND owner COLLATE "ucs_basic" > $1::text ORDER BY owner COLLATE "ucs_basic" LIMIT 1)), 1
		UNION ALL
		SELECT least(
			(SELECT owner COLLATE "ucs_basic" FROM {s}.task_rows WHERE phase = 1 AND owner COLLATE "ucs_basic" > a.owner ORDER BY owner COLLATE "ucs_basic" LIMIT 1),
			(SELECT owner COLLATE "ucs_basic" FROM {s}.task_rows WHERE phase = 2 AND owner COLLATE "ucs_basic" > a.owner ORDER BY owner COLLATE "ucs_basic" LIMIT 1)), a.n + 1
		FROM a WHERE a.owner IS NOT NULL
	), b(owner, n) AS (
		SELECT least(
			(SELECT owner COLLATE "ucs_basic" FROM {s}.task_rows WHERE phase = 1 AND owner COLLATE "ucs_basic" <= $1::text ORDER BY owner COLLATE "ucs_basic" LIMIT 1),
			(SELECT owner COLLATE "ucs_basic" FROM {s}.task_rows WHERE phase = 2 AND owner COLLATE "ucs_basic" <= $1::text ORDER BY owner COLLATE "ucs_basic" LIMIT 1)), 1000000000
		UNION ALL
		SELECT least(
			(SELECT owner COLLATE "ucs_basic" FROM {s}.task_rows WHERE phase = 1 AND owner COLLATE "ucs_basic" > b.owner AND owner COLLATE "ucs_basic" <= $1::text ORDER BY owner COLLATE "ucs_basic" LIMIT 1),
			(SELECT owner COLLATE "ucs_basic" FROM {s}.task_rows WHERE phase = 2 AND owner COLLATE "ucs_basic" > b.owner AND owner COLLATE "ucs_basic" <= $1::text ORDER BY owner COLLATE "ucs_basic" LIMIT 1)), b.n + 1
		FROM b WHERE b.owner IS NOT NULL
	), locked AS MATERIALIZED (
		SELECT o.n, p.* FROM (SELECT * FROM a UNION ALL SELECT * FROM b) o CROSS JOIN LATERAL (
			SELECT * FROM (
				SELECT * FROM (SELECT owner, id, due_at AS at FROM {s}.task_rows
					WHERE phase = 1 AND owner = o.owner COLLATE "ucs_basic" AND due_at <= $2::bigint
					ORDER BY due_at, id LIMIT $7::bigint FOR UPDATE SKIP LOCKED) x
				UNION ALL
				SELECT * FROM (SELECT owner, id, due_at FROM {s}.task_rows
					WHERE phase = 1 AND owner = o.owner COLLATE "ucs_basic" AND due_at > $3::bigint
					ORDER BY due_at, id LIMIT $7::bigint FOR UPDATE SKIP LOCKED) x
				UNION ALL
				SELECT * FROM (SELECT owner, id, lease_until FROM {s}.task_rows
					WHERE phase = 2 AND owner = o.owner COLLATE "ucs_basic" AND lease_until <= $4::bigint AND lease_worker <> $5::text
					ORDER BY lease_until, id LIMIT $7::bigint FOR UPDATE SKIP LOCKED) x
				UNION ALL
				SELECT * FROM (SELECT owner, id, lease_until FROM {s}.task_rows
					WHERE phase = 2 AND owner = o.owner COLLATE "ucs_basic" AND lease_until > $3::bigint AND lease_until > $4::bigint AND lease_worker <> $5::text
					ORDER BY lease_until, id LIMIT $7::bigint FOR UPDATE SKIP LOCKED) x
			) y ORDER BY y.at, y.id LIMIT $7::bigint
		) p LIMIT $6::bigint * $7::bigint
	), chosen AS MATERIALIZED (
		SELECT owner, id, row_number() OVER (ORDER BY r, n) AS place
		FROM (SELECT *, row_number() OVER (PARTITION BY owner ORDER BY at, id) AS r FROM locked) x
		ORDER BY r, n LIMIT $6::bigint
	), t AS (
		UPDATE {s}.task_rows t SET phase = 2, lease_worker = $5::text, fence = t.fence + 1, lease_until = $8::bigint,
			attempt = t.attempt + 1, seq = t.seq + 1, state = $9::text,
			state_at = greatest($10::bigint, t.updated_at), updated_at = greatest($10::bigint, t.updated_at)
		FROM chosen WHERE t.owner = chosen.owner COLLATE "POSIX" AND t.id = chosen.id COLLATE "POSIX"
		RETURNING t.*, chosen.place
	), moved AS (
		SELECT owner, id, seq, updated_at AS at FROM t WHERE webhooks > 0
	), ` + sqlFollow + `, log AS (
		INSERT INTO {s}.task_log (task_pk, seq, mark, n, events)
		SELECT pk, seq, $14::bigint, 1, CASE WHEN updated_at = $10::bigint THEN $11::text ELSE
			$12::text || to_char(timestamp '1970-01-01' + updated_at * interval '1 millisecond', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') || $13::text END
		FROM t
	)
	SELECT ` + rowColumns + `, t.place, t.webhooks FROM t
	WHERE 1 / (CASE WHEN (SELECT coalesce(sum(webhooks), 0) FROM t) = (SELECT count(*) FROM followed) THEN 1 ELSE 0 END) = 1`

// Claim implements store.Store. It is not tried again after the connection was lost:
// leases may have been taken then.
func (s *Store) Claim(ctx context.Context, p store.ClaimParams) (tasks []*store.Task, err error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	if p.Limit <= 0 {
		return nil, nil
	}
	args, err := claimArgs(&p)
	if err != nil {
		return nil, err
	}
	rows, err := s.claim(ctx, args, p.Limit, 1)
	// When all owners have been visited and there is room left, the visits go on.
	for depth := 0; err == nil && len(rows) > 0 && len(rows) < p.Limit; {
		left := p.Limit - len(rows)
		if depth == left {
			break
		}
		depth = left
		var more []taskRow
		if more, err = s.claim(ctx, args, left, left); err != nil || len(more) == 0 {
			break
		}
		rows = append(rows, more...)
	}
	if len(rows) == 0 {
		return nil, failed(ctx, err, "claim")
	}
	if err != nil && ctx.Err() == nil {
		s.log.Warn("claim ended early", "error", err, "claimed", len(rows))
	}
	for i := range rows {
		s.news.add(false, rows[i].key)
	}
	// The leases have been taken, so they are read even if the caller is gone.
	return s.readClaimed(context.WithoutCancel(ctx), rows)
}

// claim makes one round of a claim; depth is the most to take of an owner.
func (s *Store) claim(ctx context.Context, args []any, limit, depth int) ([]taskRow, error) {
	args[5], args[6], args[13] = limit, depth, s.newMark()
	type placed struct {
		taskRow
		place int64
	}
	var all []placed
	due := false
	for try := 0; ; try++ {
		err := s.once(ctx, func(ctx context.Context, c *pgx.Conn) error {
			all, due = nil, false
			return s.each(ctx, c, sqlClaim, func(r record) error {
				var t placed
				t.scan(r)
				t.place = r.int(rowWidth)
				due = due || r.int(rowWidth+1) > 0
				all = append(all, t)
				return nil
			}, args...)
		})
		if err == nil {
			break
		}
		if try >= s.cfg.MaxRetries || !conflicting(err) && !raised(err) || !s.pause(ctx, try, err) {
			return nil, err
		}
	}
	s.lanesDue(due)
	slices.SortFunc(all, func(a, b placed) int { return cmp.Compare(a.place, b.place) })
	rows := make([]taskRow, len(all))
	for i := range all {
		rows[i] = all[i].taskRow
	}
	return rows, nil
}

// never is later than any time.
const never = int64(1) << 62

func claimArgs(p *store.ClaimParams) ([]any, error) {
	event := p.Event
	event.Time = store.Time(event.Time)
	whole, err := encodeEvents([]store.Event{event})
	if err != nil {
		return nil, err
	}
	// The event's time comes first in its JSON.
	const before = `[{"time":"`
	rest, ok := strings.CutPrefix(whole, before)
	_, after, found := strings.Cut(rest, `"`)
	if !ok || !found {
		panic("the JSON of an event does not begin with its time: " + whole)
	}
	now, far, over := millis(p.Now), never, millis(p.Now)
	if p.Horizon > 0 {
		far = millis(p.Now.Add(p.Horizon))
	}
	if p.Takeover {
		over = never
	}
	return []any{
		p.AfterOwner, now, far, over, p.Worker, 0, 0, millis(p.Until), string(event.State), millis(event.Time),
		whole, before, `"` + after, int64(0),
	}, nil
}

// readClaimed reads tasks whose leases have been taken. One that cannot be read does
// not keep the others from being run.
func (s *Store) readClaimed(ctx context.Context, rows []taskRow) (tasks []*store.Task, err error) {
	read := func(rows []taskRow) error {
		return s.repeat(ctx, "read claimed tasks", func(ctx context.Context, c *pgx.Conn) error {
			some, err := s.readLogs(ctx, c, rows, false)
			for _, t := range some {
				if t != nil {
					tasks = append(tasks, t)
				}
			}
			return err
		})
	}
	if err = read(rows); err == nil || unanswered(err) {
		return tasks, err
	}
	for i := range rows {
		if e := read(rows[i : i+1]); e != nil {
			s.log.Error("claimed task cannot be read", "task", rows[i].key.ID, "error", e)
			err = e
		}
	}
	if len(tasks) > 0 {
		return tasks, nil
	}
	return nil, err
}

const sqlRenew = `WITH l AS MATERIALIZED (
		SELECT t.* FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) AS u(owner, id, worker, fence) CROSS JOIN LATERAL (
			SELECT t.owner, t.id FROM {s}.task_rows t
			WHERE t.owner = u.owner COLLATE "POSIX" AND t.id = u.id COLLATE "POSIX" AND t.phase + 0 = 2 AND t.lease_worker = u.worker AND t.fence = u.fence
			FOR UPDATE SKIP LOCKED) t
	)
	UPDATE {s}.task_rows t SET lease_until = $5::bigint FROM l WHERE t.owner = l.owner COLLATE "POSIX" AND t.id = l.id COLLATE "POSIX"
	RETURNING t.owner, t.id, t.lease_worker, t.fence`

// sqlHeld finds which leases are held, also those of tasks that are locked.
const sqlHeld = `SELECT t.* FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) AS u(owner, id, worker, fence) CROSS JOIN LATERAL (
		SELECT t.owner, t.id, t.lease_worker, t.fence FROM {s}.task_rows t
		WHERE t.owner = u.owner COLLATE "POSIX" AND t.id = u.id COLLATE "POSIX" AND t.phase + 0 = 2 AND t.lease_worker = u.worker AND t.fence = u.fence
		OFFSET 0) t`

const (
	// renewTries is how often leases are renewed whose tasks are locked, renewPause
	// the first wait between two tries; each is twice as long as the one before.
	renewTries = 8
	renewPause = 10 * time.Millisecond
)

// Renew implements store.Store. It waits for no lock, so that a task that is locked
// does not keep the leases of others from being extended.
func (s *Store) Renew(ctx context.Context, until time.Time, leases []store.HeldLease) (lost []store.Key, err error) {
	if len(leases) == 0 {
		return nil, s.read(ctx, "renew leases", func(context.Context, *pgx.Conn) error { return nil })
	}
	rest := slices.Clone(leases)
	slices.SortFunc(rest, func(a, b store.HeldLease) int { return compareKeys(a.Key, b.Key) })
	extended, locked := make(map[store.HeldLease]bool, len(leases)), map[store.HeldLease]bool{}
	for try := 0; ; try++ {
		if err := s.heldAmong(ctx, extended, sqlRenew, rest, millis(until)); err != nil {
			return nil, err
		}
		clear(locked)
		rest = slices.DeleteFunc(rest, func(l store.HeldLease) bool { return extended[l] })
		if len(rest) > 0 {
			if err := s.heldAmong(ctx, locked, sqlHeld, rest); err != nil {
				return nil, err
			}
		}
		rest = slices.DeleteFunc(rest, func(l store.HeldLease) bool { return !locked[l] })
		if len(rest) == 0 || try == renewTries-1 {
			break
		}
		if !wait(ctx, renewPause<<try) {
			return nil, ctx.Err()
		}
	}
	for _, l := range leases {
		if !extended[l] && !locked[l] {
			lost = append(lost, l.Key)
		}
	}
	if len(rest) == 0 {
		return lost, nil
	}
	keys := make([]store.Key, len(rest))
	for i := range rest {
		keys[i] = rest[i].Key
	}
	return lost, &store.RenewError{Keys: keys}
}

// heldAmong notes which leases a statement returns.
func (s *Store) heldAmong(ctx context.Context, held map[store.HeldLease]bool, text string, leases []store.HeldLease, args ...any) error {
	owners, ids, workers, fences := []string{}, []string{}, []string{}, []int64{}
	for i := range leases {
		l := &leases[i]
		owners, ids = append(owners, l.Key.Owner), append(ids, l.Key.ID)
		workers, fences = append(workers, l.Worker), append(fences, l.Fence)
	}
	args = append([]any{owners, ids, workers, fences}, args...)
	return s.read(ctx, "renew leases", func(ctx context.Context, c *pgx.Conn) error {
		return s.each(ctx, c, text, func(r record) error {
			held[store.HeldLease{Key: store.Key{Owner: r.text(0), ID: r.text(1)}, Worker: r.text(2), Fence: r.int(3)}] = true
			return nil
		}, args...)
	})
}
