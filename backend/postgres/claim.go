package postgres

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/runtime"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/encoding"
)

// Claim implements [store.Tasks]. It is not retried after a lost connection, because tasks
// may have been leased.
func (s *taskStore) Claim(ctx context.Context, p store.ClaimParams) (tasks []*store.Task, err error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	if p.Limit <= 0 {
		return nil, nil
	}
	args, err := newClaimArguments(&p)
	if err != nil {
		return nil, err
	}
	st := stmtClaim
	if p.OldestFirst {
		st = stmtClaimOldest
	}
	if err := s.confirm(ctx); err != nil {
		return nil, wrapError(ctx, err, "claim")
	}
	from, early := s.waitingTasks.start()
	promote := &call{statement: stmtPromoteTasks, args: []any{millis(p.Now), horizon(&p), promoteLimit, from}}
	c := &claim{s: s, statement: st, args: args, promote: promote, limit: p.Limit, after: maps.Clone(p.AfterContexts)}
	rows, err := c.run(ctx)
	if err == nil && promote.changed < promoteLimit {
		s.waitingTasks.promoted(from, early, millis(p.Now))
	}
	if len(rows) == 0 {
		return nil, wrapError(ctx, err, "claim")
	}
	s.eras.claimed(len(rows))
	for i := range rows {
		s.outbox.add(false, rows[i].Key)
	}
	// The tasks are leased now, so they are read even if the caller has canceled.
	tasks, unread := s.readClaimed(context.WithoutCancel(ctx), rows, p.OutlineAbove)
	return tasks, (&store.ClaimError{Unreadable: unread, Indeterminate: wrapError(ctx, err, "claim")}).ErrorOrNil()
}

// claim is one call of Claim.
type claim struct {
	s *taskStore
	*statement
	args     claimArguments
	promote  *call // before the first round
	limit    int
	after    map[string]string // the last claimed context of each owner
	rows     []taskRow
	lanesDue bool // lanes became due
	more     bool // more tasks may be due
}

// run claims in rounds until the limit is reached or no task is due. The first round claims
// at most one task per owner, the second at most two per context. Each round after the first
// divides the rest among the owners that the round before found, and each after the second
// also among their contexts.
func (c *claim) run(ctx context.Context) ([]taskRow, error) {
	owners, perContext := c.limit, 1
	for {
		before, left := len(c.rows), c.limit-len(c.rows)
		if err := c.round(ctx, left, (left+owners-1)/owners, perContext); err != nil {
			return c.rows, err
		}
		found := c.rows[before:]
		if len(found) == 0 || !c.more || len(c.rows) == c.limit {
			return c.rows, nil
		}
		foundOwners, contexts := make(map[string]bool), make(map[store.ContextKey]bool)
		for i := range found {
			foundOwners[found[i].Key.Owner] = true
			contexts[store.ContextKey{Owner: found[i].Key.Owner, ID: found[i].ContextID}] = true
		}
		owners = len(foundOwners)
		if perContext = 2; before > 0 {
			perContext = max(2, (c.limit-len(c.rows))/len(contexts)+1)
		}
	}
}

// round claims up to limit tasks, at most depth per owner and perContext per context.
func (c *claim) round(ctx context.Context, limit, depth, perContext int) error {
	a := &c.args
	a.Owners, a.AfterContexts = []string{}, []string{}
	for owner, context := range c.after {
		if storable(owner, context) {
			a.Owners, a.AfterContexts = append(a.Owners, owner), append(a.AfterContexts, context)
		}
	}
	a.Limit, a.PerOwner, a.PerContext, a.Mark = limit, depth, perContext, c.s.newMark()
	var all []claimedRow
	calls := []*call{{statement: c.statement, args: claimColumns.Args(a), row: func(r record) {
		var t claimedRow
		claimedColumns.Scan(&t, r.int, r.text)
		c.lanesDue, c.more = c.lanesDue || t.Webhooks > 0, t.More
		all = append(all, t)
	}}}
	if len(c.rows) == 0 {
		calls = append([]*call{c.promote}, calls...)
	}
	if c.s.cfg.Pooler {
		calls = append([]*call{{statement: stmtPlanClaim}}, calls...)
	}
	for try := 0; ; try++ {
		all, c.lanesDue, c.more = nil, false, false
		err := c.s.pipelined(ctx, calls)
		if err == nil {
			break
		}
		if try >= c.s.cfg.MaxRetries || !isConflict(err) && !guardFailed(err) && !isStrayCancel(err) || !c.s.backoff(ctx, try, err) {
			return err
		}
	}
	c.s.lanesDue(c.lanesDue)
	slices.SortFunc(all, func(a, b claimedRow) int { return cmp.Compare(a.Place, b.Place) })
	for i := range all {
		if t := &all[i]; t.ByContext {
			if c.after == nil {
				c.after = make(map[string]string)
			}
			c.after[t.Key.Owner] = t.ContextID
		}
		c.rows = append(c.rows, all[i].taskRow)
	}
	return nil
}

// stmtPlanClaim sets the planner settings of sessions for one transaction, behind a pooler.
// Otherwise the overestimated cost of a claim would cause JIT compilation.
var stmtPlanClaim = &statement{
	name: "holdfast_plan_claim",
	text: `SELECT set_config('jit', 'off', true), set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
		set_config('enable_mergejoin', 'off', true), set_config('enable_sort', 'off', true)`,
}

// stmtPromoteTasks makes waiting tasks ready if they are due, or if their due time is beyond the
// horizon. Parameters: 1 now, 2 end of the horizon, 3 maximum number of each, 4 see waitingBound.
var stmtPromoteTasks = &statement{
	name: "holdfast_promote_tasks",
	text: `WITH u AS MATERIALIZED (
			SELECT * FROM (SELECT owner, id FROM {s}.task_rows
				WHERE phase = {waiting} AND due_at >= $4::bigint AND due_at <= $1::bigint ORDER BY due_at LIMIT $3::bigint FOR NO KEY UPDATE SKIP LOCKED) x
			UNION ALL
			SELECT * FROM (SELECT owner, id FROM {s}.task_rows
				WHERE phase = {waiting} AND due_at > $2::bigint AND due_at > $1::bigint ORDER BY due_at LIMIT $3::bigint FOR NO KEY UPDATE SKIP LOCKED) x
		)
		UPDATE {s}.task_rows t SET phase = {ready}, era = {era} FROM u WHERE t.owner = u.owner COLLATE "POSIX" AND t.id = u.id COLLATE "POSIX"`,
}

// farFuture is later than any stored time.
const farFuture = int64(1) << 62

// newClaimArguments returns the arguments of a claim that are the same in each round.
func newClaimArguments(p *store.ClaimParams) (a claimArguments, err error) {
	event := p.Event
	encoded, err := encoding.NewTemplate(event)
	a = claimArguments{
		AfterOwner: p.AfterOwner, LeaseHorizon: horizon(p), ExpiredUntil: millis(p.Now), Worker: p.Worker, Until: millis(p.Until),
		State: string(event.State), At: millis(event.Time), Before: encoded.Before, After: encoded.After, Bytes: int64(event.Size()),
		Skip: append([]string{}, p.Skip...),
	}
	if p.Takeover {
		a.ExpiredUntil = farFuture
	}
	if p.QueuedOnly {
		a.ExpiredUntil, a.LeaseHorizon = -farFuture, farFuture
	}
	return a, err
}

// horizon returns the time after which tasks are due because the clock was set back.
func horizon(p *store.ClaimParams) int64 {
	if p.Horizon <= 0 {
		return farFuture
	}
	return millis(p.Now.Add(p.Horizon))
}

// errNoLog reports that a task has no log rows.
var errNoLog = errors.New("log is missing")

// readClaimed reads leased tasks. Tasks that cannot be read are returned in unread. Tasks
// larger than outlineAbove bytes are returned as outlines, unless it is 0.
func (s *taskStore) readClaimed(ctx context.Context, rows []taskRow, outlineAbove int64) (tasks []*store.Task, unread []store.UnreadableTask) {
	isLarge := func(row taskRow) bool { return outlineAbove > 0 && row.Bytes > outlineAbove }
	if !slices.ContainsFunc(rows, isLarge) {
		return s.readClaimedLogs(ctx, rows)
	}
	found, unread := s.readClaimedLogs(ctx, slices.DeleteFunc(slices.Clone(rows), isLarge))
	for i := range rows { // keeps the order of the claim
		switch {
		case isLarge(rows[i]):
			tasks = append(tasks, rows[i].Outline())
		case len(found) > 0 && found[0].Key == rows[i].Key:
			tasks, found = append(tasks, found[0]), found[1:]
		}
	}
	return tasks, unread
}

func (s *taskStore) readClaimedLogs(ctx context.Context, rows []taskRow) (tasks []*store.Task, unread []store.UnreadableTask) {
	for size := len(rows); len(rows) > 0; {
		some := rows[:min(size, len(rows))]
		var found []*store.Task
		err := s.retry(ctx, "read claimed tasks", func(ctx context.Context, c *pgx.Conn) (err error) {
			found, err = s.readLogs(ctx, c, some, false)
			return err
		})
		switch {
		case err == nil:
		case unanswered(err):
			return tasks, append(unread, unreadTasks(rows, err)...)
		case size > 1:
			size = 1
			continue
		default:
			unread = append(unread, unreadTasks(some, err)...)
		}
		for i, t := range found {
			if t != nil {
				tasks = append(tasks, t)
			} else {
				unread = append(unread, unreadTasks(some[i:i+1], errNoLog)...)
			}
		}
		rows = rows[len(some):]
	}
	return tasks, unread
}

func unreadTasks(rows []taskRow, err error) []store.UnreadableTask {
	unread := make([]store.UnreadableTask, len(rows))
	for i := range rows {
		unread[i] = store.UnreadableTask{Key: rows[i].Key, Queue: rows[i].Value().Queue, Err: err}
	}
	return unread
}

const sqlRenew = `WITH l AS MATERIALIZED (
		SELECT t.* FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) AS u(owner, id, worker, fence) CROSS JOIN LATERAL (
			SELECT t.owner, t.id FROM {s}.task_rows t
			WHERE t.owner = u.owner COLLATE "POSIX" AND t.id = u.id COLLATE "POSIX" AND t.phase + 0 = {leased} AND t.lease_worker = u.worker AND t.fence = u.fence
			FOR UPDATE SKIP LOCKED) t
	)
	UPDATE {s}.task_rows t SET lease_until = $5::bigint, era = {era} FROM l WHERE t.owner = l.owner COLLATE "POSIX" AND t.id = l.id COLLATE "POSIX"
	RETURNING t.owner, t.id, t.lease_worker, t.fence`

// sqlHeldLeases returns which leases are held, including the leases of locked tasks.
const sqlHeldLeases = `SELECT t.* FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) AS u(owner, id, worker, fence) CROSS JOIN LATERAL (
		SELECT t.owner, t.id, t.lease_worker, t.fence FROM {s}.task_rows t
		WHERE t.owner = u.owner COLLATE "POSIX" AND t.id = u.id COLLATE "POSIX" AND t.phase + 0 = {leased} AND t.lease_worker = u.worker AND t.fence = u.fence
		OFFSET 0) t`

const (
	// maxRenewAttempts is the number of attempts to renew leases of locked tasks, renewPause
	// the first pause between two attempts. It doubles each time.
	maxRenewAttempts = 8
	renewPause       = 10 * time.Millisecond
)

// Renew implements [store.Tasks]. It skips locked tasks and retries them, so that they do not
// delay the renewal of other leases.
func (s *taskStore) Renew(ctx context.Context, until time.Time, leases []store.HeldLease) (lost []store.Key, err error) {
	if len(leases) == 0 {
		return nil, s.read(ctx, "renew leases", func(context.Context, *pgx.Conn) error { return nil })
	}
	rest := slices.Clone(leases)
	slices.SortFunc(rest, func(a, b store.HeldLease) int { return compareKeys(a.Key, b.Key) })
	extended, locked := make(map[store.HeldLease]bool, len(leases)), map[store.HeldLease]bool{}
	for try := 0; ; try++ {
		if err := s.collectLeases(ctx, extended, sqlRenew, rest, millis(until)); err != nil {
			return nil, err
		}
		clear(locked)
		rest = slices.DeleteFunc(rest, func(l store.HeldLease) bool { return extended[l] })
		if len(rest) > 0 {
			if err := s.collectLeases(ctx, locked, sqlHeldLeases, rest); err != nil {
				return nil, err
			}
		}
		rest = slices.DeleteFunc(rest, func(l store.HeldLease) bool { return !locked[l] })
		if len(rest) == 0 || try == maxRenewAttempts-1 {
			break
		}
		if err := runtime.Sleep(ctx, renewPause<<try); err != nil {
			return nil, err
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

// collectLeases adds the leases that a statement returns to held.
func (s *taskStore) collectLeases(ctx context.Context, held map[store.HeldLease]bool, text string, leases []store.HeldLease, args ...any) error {
	owners, ids, workers, fences := []string{}, []string{}, []string{}, []int64{}
	for i := range leases {
		l := &leases[i]
		owners, ids = append(owners, l.Key.Owner), append(ids, l.Key.ID)
		workers, fences = append(workers, l.Worker), append(fences, l.Fence)
	}
	args = append([]any{owners, ids, workers, fences}, args...)
	var found []store.HeldLease
	err := s.read(ctx, "renew leases", func(ctx context.Context, c *pgx.Conn) error {
		found = nil // an earlier attempt was rolled back
		return s.eachRow(ctx, c, text, func(r record) error {
			found = append(found, store.HeldLease{Key: store.Key{Owner: r.text(0), ID: r.text(1)}, Worker: r.text(2), Fence: r.int(3)})
			return nil
		}, args...)
	})
	for _, l := range found {
		held[l] = true
	}
	return err
}
