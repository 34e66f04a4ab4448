package postgres

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/store"
)

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
	st := stmtClaim
	if p.OldestFirst {
		st = stmtClaimOldest
	}
	if err := s.confirm(ctx); err != nil {
		return nil, failed(ctx, err, "claim")
	}
	c := &claim{s: s, statement: st, args: args, limit: p.Limit, after: maps.Clone(p.AfterContexts)}
	rows, err := c.rounds(ctx)
	if len(rows) == 0 {
		return nil, failed(ctx, err, "claim")
	}
	for i := range rows {
		s.news.add(false, rows[i].key)
	}
	// The leases have been taken, so they are read even if the caller is gone.
	tasks, unread := s.readClaimed(context.WithoutCancel(ctx), rows, p.Whole)
	return tasks, (&store.ClaimError{Unread: unread, Lost: failed(ctx, err, "claim")}).ErrorOrNil()
}

// claim is one call of Claim.
type claim struct {
	s *Store
	*statement
	args  []any
	limit int
	after map[string]string // where the contexts of owners go on
	rows  []taskRow
	due   bool // lanes have become due
	more  bool // there may be more
}

// rounds claims until the limit is reached or nothing is left. The first round has
// each owner visited once, the second most of their contexts; then it is known how many
// those are, and how much of each makes up what is left.
func (c *claim) rounds(ctx context.Context) ([]taskRow, error) {
	owners, each := c.limit, 1
	for {
		before, left := len(c.rows), c.limit-len(c.rows)
		if err := c.round(ctx, left, (left+owners-1)/owners, each); err != nil {
			return c.rows, err
		}
		found := c.rows[before:]
		if len(found) == 0 || !c.more || len(c.rows) == c.limit {
			return c.rows, nil
		}
		some, contexts := make(map[string]bool), make(map[store.ContextKey]bool)
		for i := range found {
			some[found[i].key.Owner] = true
			contexts[store.ContextKey{Owner: found[i].key.Owner, ID: found[i].contextID}] = true
		}
		owners = len(some)
		if each = 2; before > 0 {
			each = max(2, (c.limit-len(c.rows))/len(contexts)+1)
		}
	}
}

// round claims up to limit tasks with no more than depth of an owner and each of a
// context.
func (c *claim) round(ctx context.Context, limit, depth, each int) error {
	owners, contexts := []string{}, []string{}
	for owner, context := range c.after {
		if storable(owner, context) {
			owners, contexts = append(owners, owner), append(contexts, context)
		}
	}
	args := c.args
	args[5], args[6], args[13], args[14], args[15], args[16] = limit, depth, c.s.newMark(), owners, contexts, each
	type placed struct {
		taskRow
		place int64
		turn  bool // its context has had its turn
	}
	var all []placed
	calls := []*call{{statement: c.statement, args: args, row: func(r record) {
		var t placed
		t.scan(r)
		t.place, t.turn = r.int(rowWidth), r.bool(rowWidth+2)
		c.due, c.more = c.due || r.int(rowWidth+1) > 0, r.bool(rowWidth+3)
		all = append(all, t)
	}}}
	if len(c.rows) == 0 {
		promote := &call{statement: stmtPromoteTasks, args: []any{args[1], args[2], promoteLimit}}
		calls = append([]*call{promote}, calls...)
	}
	if c.s.cfg.Pooler {
		calls = append([]*call{{statement: stmtPlanClaim}}, calls...)
	}
	for try := 0; ; try++ {
		all, c.due, c.more = nil, false, false
		err := c.s.pipelined(ctx, calls)
		if err == nil {
			break
		}
		if try >= c.s.cfg.MaxRetries || !conflicting(err) && !raised(err) || !c.s.pause(ctx, try, err) {
			return err
		}
	}
	c.s.lanesDue(c.due)
	slices.SortFunc(all, func(a, b placed) int { return cmp.Compare(a.place, b.place) })
	for i := range all {
		if t := &all[i]; t.turn {
			if c.after == nil {
				c.after = make(map[string]string)
			}
			c.after[t.key.Owner] = t.contextID
		}
		c.rows = append(c.rows, all[i].taskRow)
	}
	return nil
}

// stmtPlanClaim has a claim planned as in the sessions of a store, for a pooler whose
// sessions are nobody's: its costs are far overestimated, and it would be compiled.
var stmtPlanClaim = &statement{
	name: "holdfast_plan_claim",
	text: `SELECT set_config('jit', 'off', true), set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
		set_config('enable_mergejoin', 'off', true), set_config('enable_sort', 'off', true)`,
}

// stmtPromoteTasks makes waiting tasks ready whose time has come, or is beyond the
// horizon. Parameters: 1 now, 2 the end of the horizon, 3 the most of each.
var stmtPromoteTasks = &statement{
	name: "holdfast_promote",
	text: `WITH u AS MATERIALIZED (
			SELECT * FROM (SELECT owner, id FROM {s}.task_rows
				WHERE phase = 3 AND due_at <= $1::bigint ORDER BY due_at LIMIT $3::bigint FOR NO KEY UPDATE SKIP LOCKED) x
			UNION ALL
			SELECT * FROM (SELECT owner, id FROM {s}.task_rows
				WHERE phase = 3 AND due_at > $2::bigint AND due_at > $1::bigint ORDER BY due_at LIMIT $3::bigint FOR NO KEY UPDATE SKIP LOCKED) x
		)
		UPDATE {s}.task_rows t SET phase = 1 FROM u WHERE t.owner = u.owner COLLATE "POSIX" AND t.id = u.id COLLATE "POSIX"`,
}

// never is later than any time.
const never = int64(1) << 62

func claimArgs(p *store.ClaimParams) ([]any, error) {
	event := p.Event
	event.Time = store.Time(event.Time)
	encoded, err := store.EncodeEvents([]store.Event{event}, store.Key{}, "")
	if err != nil {
		return nil, err
	}
	whole := string(encoded)
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
	farLease := far
	if p.Takeover {
		over = never
	}
	if p.QueuedOnly {
		over, farLease = -never, never
	}
	return []any{
		p.AfterOwner, now, far, over, p.Worker, 0, 0, millis(p.Until), string(event.State), millis(event.Time),
		whole, before, `"` + after, int64(0), nil, nil, 0, farLease, event.Size(), append([]string{}, p.Skip...),
	}, nil
}

// errNoLog reports a task without log rows.
var errNoLog = errors.New("its log is missing")

// readClaimed reads tasks whose leases have been taken. One that cannot be read does
// not keep the others from being run. After a lost connection the rest is not tried one
// by one. Those with more than whole bytes are outlines, unless it is 0.
func (s *Store) readClaimed(ctx context.Context, rows []taskRow, whole int64) (tasks []*store.Task, unread []store.UnreadTask) {
	large := func(row taskRow) bool { return whole > 0 && row.bytes > whole }
	if !slices.ContainsFunc(rows, large) {
		return s.readWhole(ctx, rows)
	}
	found, unread := s.readWhole(ctx, slices.DeleteFunc(slices.Clone(rows), large))
	for i := range rows { // in the order of the claim
		switch {
		case large(rows[i]):
			tasks = append(tasks, rows[i].outline())
		case len(found) > 0 && found[0].Key == rows[i].key:
			tasks, found = append(tasks, found[0]), found[1:]
		}
	}
	return tasks, unread
}

func (s *Store) readWhole(ctx context.Context, rows []taskRow) (tasks []*store.Task, unread []store.UnreadTask) {
	for size := len(rows); len(rows) > 0; {
		some := rows[:min(size, len(rows))]
		var found []*store.Task
		err := s.repeat(ctx, "read claimed tasks", func(ctx context.Context, c *pgx.Conn) (err error) {
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

func unreadTasks(rows []taskRow, err error) []store.UnreadTask {
	unread := make([]store.UnreadTask, len(rows))
	for i := range rows {
		unread[i] = store.UnreadTask{Key: rows[i].key, Run: rows[i].task().Run, Err: err}
	}
	return unread
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
