package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/store"
)

const (
	// sqlOldTasks walks the owners from $1 on. For each owner it returns the tasks in the state
	// $2 that are older than $5, but for the first owner only the tasks after the position
	// ($3, $4). Other owners without such tasks have a row without a task.
	sqlOldTasks = `WITH RECURSIVE o(owner, first) AS (
			SELECT $1::text COLLATE "C", true
			UNION ALL
			SELECT (SELECT t.owner FROM {s}.task_rows t WHERE t.owner > o.owner ORDER BY t.owner LIMIT 1), false FROM o WHERE o.owner IS NOT NULL
		)
		SELECT o.owner, t.id, t.state_at, t.context_id FROM o LEFT JOIN LATERAL (
			SELECT t.id, t.state_at, t.context_id FROM {s}.task_rows t
			WHERE t.owner = o.owner AND t.state = $2::text AND t.state_at < $5::bigint
				AND (t.state_at, t.id) > (CASE WHEN o.first THEN $3::bigint ELSE -9223372036854775808 END, CASE WHEN o.first THEN $4::text ELSE '' END)
			ORDER BY t.state_at, t.id LIMIT $6::bigint) t ON true
		WHERE o.owner IS NOT NULL AND (NOT o.first OR t.id IS NOT NULL) LIMIT $6::bigint`
	sqlLockContexts = `SELECT c.owner, c.id FROM (
			SELECT DISTINCT owner COLLATE "C" AS owner, id COLLATE "C" AS id FROM unnest($1::text[], $2::text[]) AS u(owner, id) ORDER BY 1, 2
		) u CROSS JOIN LATERAL (
			SELECT c.owner, c.id FROM {s}.context_rows c WHERE c.owner = u.owner COLLATE "POSIX" AND c.id = u.id COLLATE "POSIX"
			FOR NO KEY UPDATE SKIP LOCKED) c`
	sqlLockOldTasks = `SELECT t.owner, t.id, t.pk, t.webhooks, u.ord FROM unnest($1::text[], $2::text[], $3::text[])
			WITH ORDINALITY AS u(owner, id, context_id, ord)
		CROSS JOIN LATERAL (
			SELECT t.owner, t.id, t.pk, t.webhooks FROM {s}.task_rows t WHERE t.owner = u.owner COLLATE "POSIX" AND t.id = u.id COLLATE "POSIX"
				AND t.context_id = u.context_id AND t.state = $4::text AND t.state_at < $5::bigint AND t.phase + 0 = {idle}
			FOR UPDATE SKIP LOCKED) t
		ORDER BY u.ord`
)

// candidate is a task that may have expired.
type candidate struct {
	store.ExpiryCursor
	contextID string // "" for a row without a task
}

// ExpireTasks implements [store.Maintenance].
func (s *taskStore) ExpireTasks(ctx context.Context, p store.TaskExpiry) (removed int, next *store.ExpiryCursor, err error) {
	err = s.transact(ctx, "expire tasks", func(ctx context.Context, tx pgx.Tx) error {
		removed, next = 0, nil
		old, err := s.oldTasks(ctx, tx, &p)
		if err != nil {
			return err
		}
		if len(old) == p.Limit {
			next = &old[len(old)-1].ExpiryCursor
		}
		tasks, err := s.lockCandidates(ctx, tx, &p, old)
		if err != nil || len(tasks) == 0 {
			return err
		}
		if tasks, err = s.lockLanes(ctx, tx, tasks, false); err != nil || len(tasks) == 0 {
			return err
		}
		if removed, _, err = s.removeTasks(ctx, tx, tasks); err == nil && removed < len(tasks) {
			next = new(store.ExpiryCursor)
			if at := tasks[removed].candidate; at > 0 {
				*next = old[at-1].ExpiryCursor
			} else if p.After != nil {
				*next = *p.After
			}
		}
		return err
	})
	if err != nil {
		return 0, nil, err
	}
	return removed, next, nil
}

// oldTasks returns the next candidates.
func (s *taskStore) oldTasks(ctx context.Context, tx pgx.Tx, p *store.TaskExpiry) (old []candidate, err error) {
	after := store.ExpiryCursor{}
	if p.After != nil {
		after = *p.After
	}
	before := ceilMillis(p.Before)
	err = s.eachRow(ctx, tx, sqlOldTasks, func(r record) error {
		c := candidate{ExpiryCursor: store.ExpiryCursor{Owner: r.text(0), At: fromMillis(before)}}
		if r[1] != nil {
			c.ID, c.At, c.contextID = r.text(1), fromMillis(r.int(2)), r.text(3)
		}
		old = append(old, c)
		return nil
	}, after.Owner, string(p.State), millis(after.At), after.ID, before, p.Limit)
	return old, err
}

// lockCandidates locks the expired candidates and their contexts. It skips locked ones.
func (s *taskStore) lockCandidates(ctx context.Context, tx pgx.Tx, p *store.TaskExpiry, old []candidate) (tasks []removal, err error) {
	var owners, ids, contexts []string
	var places []int
	collect := func(held func(store.ContextKey) bool) {
		owners, ids, contexts, places = nil, nil, nil, nil
		for i := range old {
			c := &old[i]
			if c.contextID != "" && held(store.ContextKey{Owner: c.Owner, ID: c.contextID}) {
				owners, ids = append(owners, c.Owner), append(ids, c.ID)
				contexts, places = append(contexts, c.contextID), append(places, i)
			}
		}
	}
	if collect(func(store.ContextKey) bool { return true }); len(ids) == 0 {
		return nil, nil
	}
	locked := make(map[store.ContextKey]bool)
	err = s.eachRow(ctx, tx, sqlLockContexts, func(r record) error {
		locked[store.ContextKey{Owner: r.text(0), ID: r.text(1)}] = true
		return nil
	}, owners, contexts)
	if err != nil {
		return nil, err
	}
	if collect(func(k store.ContextKey) bool { return locked[k] }); len(ids) == 0 {
		return nil, nil
	}
	err = s.eachRow(ctx, tx, sqlLockOldTasks, func(r record) error {
		t := scanRemoval(r)
		t.candidate = places[r.int(4)-1]
		tasks = append(tasks, t)
		return nil
	}, owners, ids, contexts, string(p.State), ceilMillis(p.Before))
	return tasks, err
}
