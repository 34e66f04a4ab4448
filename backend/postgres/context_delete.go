package postgres

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/rules"
)

const (
	sqlDeletions = `WITH u AS MATERIALIZED (SELECT * FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS u(owner, id, ord))`
	// sqlLockDeletions locks contexts in the order of their keys.
	sqlLockDeletions = `SELECT u.ord, c.status, c.task_count, c.labels FROM (
			SELECT * FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS u(owner, id, ord)
			ORDER BY owner COLLATE "POSIX", id COLLATE "POSIX"
		) u CROSS JOIN LATERAL (
			SELECT * FROM {s}.context_rows c WHERE c.owner = u.owner COLLATE "POSIX" AND c.id = u.id COLLATE "POSIX" FOR UPDATE) c`
	sqlMarkDeletions = sqlDeletions + `, removed AS MATERIALIZED (
			SELECT c.* FROM u CROSS JOIN LATERAL (SELECT c.owner, c.id, c.status, c.labels FROM {s}.context_rows c
				WHERE c.owner = u.owner COLLATE "POSIX" AND c.id = u.id COLLATE "POSIX" OFFSET 0) c
		), ` + sqlSubtractContexts + `
		UPDATE {s}.context_rows c SET status = '', unmodified = false FROM u
		WHERE c.owner = u.owner COLLATE "POSIX" AND c.id = u.id COLLATE "POSIX"`
	sqlDeleteContexts = sqlDeletions + `, k AS (
			DELETE FROM {s}.idempotency_keys k USING u WHERE k.owner = u.owner AND k.task_id = u.id AND k.of_context AND NOT k.at_creation
		)
		DELETE FROM {s}.context_rows c USING u WHERE c.owner = u.owner COLLATE "POSIX" AND c.id = u.id COLLATE "POSIX"`
	sqlDeletionPending  = `SELECT 1 FROM {s}.context_rows WHERE owner = $1::text COLLATE "POSIX" AND id = $2::text COLLATE "POSIX" AND status = ''`
	sqlPendingDeletions = `SELECT owner, id FROM {s}.context_rows WHERE status = '' ORDER BY owner, id LIMIT $1::bigint`
)

var (
	// sqlBusyContexts returns the contexts that have queued or leased tasks.
	sqlBusyContexts = sqlDeletions + ` SELECT u.ord FROM u WHERE coalesce(
			(SELECT true FROM {s}.task_rows t WHERE t.owner = u.owner AND t.context_id = u.id AND NOT t.first AND t.phase <> {idle} LIMIT 1),
			(` + firstTask("true", "u.owner", "u.id") + ` AND t.phase <> {idle}), false)`
	// sqlOldestTasks locks the oldest tasks of contexts, up to a number for each. It requires that the
	// transaction has locked the contexts.
	sqlOldestTasks = `WITH k AS MATERIALIZED (
			SELECT u.ord, u.owner, k.id FROM unnest($1::text[], $2::text[], $3::bigint[]) WITH ORDINALITY AS u(owner, id, most, ord) CROSS JOIN LATERAL (
				SELECT id, created_at FROM (
					(SELECT t.id, t.created_at FROM {s}.task_rows t WHERE t.owner = u.owner AND t.context_id = u.id AND NOT t.first
						ORDER BY t.created_at, t.id LIMIT u.most)
					UNION ALL ` + firstTask("t.id, t.created_at", "u.owner", "u.id") + `) t
				ORDER BY created_at, id LIMIT u.most) k
		)
		SELECT t.owner, t.id, t.pk, t.webhooks, t.ord, t.created_at FROM (SELECT * FROM k ORDER BY owner COLLATE "POSIX", id COLLATE "POSIX") k
		CROSS JOIN LATERAL (SELECT k.ord, owner, id, pk, webhooks, created_at FROM {s}.task_rows
			WHERE owner = k.owner COLLATE "POSIX" AND id = k.id COLLATE "POSIX" FOR UPDATE) t`
)

// groupedTasks is the number of tasks that a transaction for several contexts removes.
const groupedTasks = 256

// contextDeletion is a call of DeleteContext or FinishDelete, with the results of its last transaction.
type contextDeletion struct {
	key    store.ContextKey
	limit  int
	finish bool // FinishDelete

	more bool
	// If refusal or alone is set, the transaction did not change the context. alone means that the context
	// has too many tasks for a transaction with other contexts.
	refusal error
	alone   bool

	tasks  int64   // of the context
	status string  // before the deletion
	labels []int64 // before the deletion
}

// DeleteContext implements [store.Contexts].
func (s *contextStore) DeleteContext(ctx context.Context, owner, id string, limit int) (more bool, err error) {
	return s.deleteContext(ctx, &contextDeletion{key: store.ContextKey{Owner: owner, ID: id}, limit: max(limit, 0)})
}

// FinishDelete implements [store.Contexts].
func (s *contextStore) FinishDelete(ctx context.Context, owner, id string, limit int) (more bool, err error) {
	if limit > 0 {
		return s.deleteContext(ctx, &contextDeletion{key: store.ContextKey{Owner: owner, ID: id}, limit: limit, finish: true})
	}
	err = s.readCall(ctx, "read a pending deletion", func(ctx context.Context, c *pgx.Conn) (err error) {
		more = false
		if storable(owner, id) {
			more, err = s.exists(ctx, c, sqlDeletionPending, owner, id)
		}
		return err
	})
	if err == nil && !more {
		err = store.ErrNotFound
	}
	return more, err
}

func (s *contextStore) deleteContext(ctx context.Context, d *contextDeletion) (more bool, err error) {
	if !storable(d.key.Owner, d.key.ID) {
		return false, store.ErrNotFound
	}
	err = s.deletions.commit(ctx, d)
	if answered(err) == nil && d.alone {
		err = s.deletions.commitAlone(ctx, d)
	}
	if err = cmp.Or(answered(err), d.refusal); err != nil {
		return false, err
	}
	s.noteDeleted(d)
	return d.more, nil
}

// answered returns nil for errAnswerLost: the results of a deletion are known before its commit.
func answered(err error) error {
	if errors.Is(err, errAnswerLost) {
		return nil
	}
	return err
}

func (s *contextStore) deleteContextAlone(ctx context.Context, d *contextDeletion) error {
	return s.withCallSlot(ctx, func() error {
		return s.commitEntered(ctx, "delete context", func(ctx context.Context, c *pgx.Conn, mark int64) error {
			return s.deleteLocked(ctx, c, mark, s.cfg.lockTimeoutCalls(), d)
		})
	})
}

func (s *contextStore) deleteContextsTogether(ctx context.Context, group []*contextDeletion) error {
	return s.deletions.commitGroup(ctx, "delete contexts", len(group), func(ctx context.Context, c *pgx.Conn, mark int64) error {
		return s.deleteLocked(ctx, c, mark, []*call{s.cfg.groupLockTimeoutCall()}, group...)
	})
}

// deleteLocked applies deletions in one transaction. It starts with the calls first.
func (s *contextStore) deleteLocked(ctx context.Context, c *pgx.Conn, mark int64, first []*call, all ...*contextDeletion) error {
	conn := c.PgConn()
	defer func() { rollbackOpen(ctx, conn) }()
	accepted, err := s.lockDeletions(ctx, conn, first, all)
	if err != nil || len(accepted) == 0 {
		return err
	}
	var calls []*call
	marked := slices.DeleteFunc(slices.Clone(accepted), func(d *contextDeletion) bool { return d.status == "" })
	if len(marked) > 0 {
		owners, ids := deletedKeys(marked)
		calls = append(calls, s.statements.call(sqlMarkDeletions, owners, ids))
	}
	limited := slices.DeleteFunc(slices.Clone(accepted), func(d *contextDeletion) bool { return d.limit == 0 })
	if len(limited) > 0 {
		more, err := s.deleteTasks(ctx, c, calls, limited)
		if err != nil {
			return err
		}
		calls = more
	}
	return s.exchange(ctx, conn, true, append(calls, markCall(mark), newCall(stmtCommit))...)
}

// lockDeletions starts a transaction, locks the contexts of deletions, and returns the deletions that it
// can apply.
func (s *contextStore) lockDeletions(ctx context.Context, conn *pgconn.PgConn, first []*call, all []*contextDeletion) (accepted []*contextDeletion, err error) {
	seen := make([]rules.Context, len(all))
	owners, ids := deletedKeys(all)
	lock, busy := s.statements.call(sqlLockDeletions, owners, ids), s.statements.call(sqlBusyContexts, owners, ids)
	lock.row = func(r record) {
		i := r.int(0) - 1
		d := all[i]
		d.status, d.tasks, d.labels = r.text(1), r.int(2), nil
		if !r.null(3) {
			d.labels = ints(r[3])
		}
		seen[i].Exists, seen[i].Deleting = true, d.status == ""
	}
	busy.row = func(r record) { seen[r.int(0)-1].Busy = true }
	if err := s.exchange(ctx, conn, false, append(append([]*call{newCall(stmtBegin)}, first...), lock, busy)...); err != nil {
		return nil, err
	}
	tasks := int64(0)
	for i, d := range all {
		d.more, d.alone = d.limit == 0, false
		if d.refusal = rules.DeleteContext(&seen[i], d.finish); d.refusal != nil {
			continue
		}
		if d.limit > 0 {
			tasks += d.tasks
			d.alone = len(all) > 1 && tasks > groupedTasks
		}
		if !d.alone {
			accepted = append(accepted, d)
		}
	}
	return accepted, nil
}

// deleteTasks runs calls and removes the oldest tasks of contexts. It returns the calls that remain
// before the commit.
func (s *contextStore) deleteTasks(ctx context.Context, c *pgx.Conn, calls []*call, from []*contextDeletion) ([]*call, error) {
	owners, ids := deletedKeys(from)
	most := make([]int64, len(from))
	for i, d := range from {
		most[i] = int64(min(d.limit, math.MaxInt32)) + 1 // one more shows whether others remain
	}
	type oldTask struct {
		removal
		of, createdAt int64
	}
	var found []oldTask
	oldest := s.statements.call(sqlOldestTasks, owners, ids, most)
	oldest.row = func(r record) { found = append(found, oldTask{scanRemoval(r), r.int(4) - 1, r.int(5)}) }
	if err := s.exchange(ctx, c.PgConn(), false, append(calls, oldest)...); err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b oldTask) int {
		return cmp.Or(cmp.Compare(a.of, b.of), cmp.Compare(a.createdAt, b.createdAt), cmp.Compare(a.id, b.id))
	})
	left := make([]int, len(from)) // tasks
	var tasks []removal
	for _, t := range found {
		if d := from[t.of]; left[t.of] < d.limit {
			t.candidate = int(t.of)
			tasks = append(tasks, t.removal)
		}
		left[t.of]++
	}
	tasks, err := s.lockLanes(ctx, c, tasks, true)
	if err != nil {
		return nil, err
	}
	if tasks, err = s.limitDeliveryRows(ctx, c, tasks); err != nil {
		return nil, err
	}
	for _, t := range tasks {
		left[t.candidate]--
	}
	var done []*contextDeletion
	for i, d := range from {
		if d.more = left[i] > 0; !d.more {
			done = append(done, d)
		}
	}
	calls = s.removalCalls(tasks)
	if len(done) > 0 {
		owners, ids := deletedKeys(done)
		calls = append(calls, s.statements.call(sqlDeleteContexts, owners, ids))
	}
	return calls, nil
}

func deletedKeys(all []*contextDeletion) (owners, ids []string) {
	for _, d := range all {
		owners, ids = append(owners, d.key.Owner), append(ids, d.key.ID)
	}
	return owners, ids
}

// noteDeleted requests a merge of the counters of a deleted context, because their rows may
// add up to zero.
func (s *contextStore) noteDeleted(d *contextDeletion) {
	if d.status == "" {
		return
	}
	s.counterRows.add(d.key.Owner, mergeThreshold)
	for _, l := range d.labels {
		s.labelRows.add(labelKey{d.key.Owner, l}, mergeThreshold)
	}
}

// PendingDeletions implements [store.Contexts].
func (s *contextStore) PendingDeletions(ctx context.Context, limit int) (pending []store.ContextKey, err error) {
	err = s.read(ctx, "list contexts being deleted", func(ctx context.Context, c *pgx.Conn) error {
		pending = nil
		return s.eachRow(ctx, c, sqlPendingDeletions, func(r record) error {
			pending = append(pending, store.ContextKey{Owner: r.text(0), ID: r.text(1)})
			return nil
		}, max(limit, 0))
	})
	return pending, err
}
