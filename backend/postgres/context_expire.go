package postgres

import (
	"context"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/store"
)

// emptyContexts selects contexts without tasks after a place, the oldest first.
func emptyContexts(record string) string {
	return `SELECT owner, id, updated_at FROM {s}.context_rows
		WHERE task_count = 0 AND record ` + record + ` AND status <> '' AND (updated_at, owner, id) > ($1::bigint, $2::text, $3::text) AND updated_at < $4::bigint
		ORDER BY updated_at, owner, id LIMIT $5::bigint`
}

var (
	sqlOldDescribed   = emptyContexts("IS NOT NULL")
	sqlOldUndescribed = emptyContexts("IS NULL")
)

// sqlSubtractContexts subtracts the rows of the CTE removed from the counts of contexts.
const sqlSubtractContexts = `t AS (
		INSERT INTO {s}.counters (owner, kind, n) SELECT owner, status, -count(*) FROM removed GROUP BY 1, 2
	), l AS (
		INSERT INTO {s}.label_counters (owner, label, status, n)
		SELECT owner, label, status, -count(*) FROM (SELECT DISTINCT owner, id, label, status FROM removed CROSS JOIN unnest(labels) label) d GROUP BY 1, 2, 3
	)`

// sqlExpireContexts removes the given contexts that are not locked and still expired. It
// returns the labels with changed counts, and in a last row the number of removed contexts.
const sqlExpireContexts = `WITH u AS MATERIALIZED (
		SELECT c.* FROM (SELECT * FROM unnest($1::text[], $2::text[]) AS u(owner, id) ORDER BY owner COLLATE "POSIX", id COLLATE "POSIX") u CROSS JOIN LATERAL (
			SELECT c.owner, c.id FROM {s}.context_rows c WHERE c.owner = u.owner COLLATE "POSIX" AND c.id = u.id COLLATE "POSIX"
				AND c.task_count + 0 = 0 AND c.status <> '' AND (c.record IS NOT NULL) = $3::boolean AND c.updated_at < $4::bigint
				AND (SELECT 1 FROM {s}.context_rows k WHERE k.owner = c.owner AND k.parent_id = c.id AND k.parent_id <> '' AND k.status <> '' LIMIT 1) IS NULL
			FOR UPDATE SKIP LOCKED) c
	), removed AS (
		DELETE FROM {s}.context_rows c USING u WHERE c.owner = u.owner COLLATE "POSIX" AND c.id = u.id COLLATE "POSIX"
		RETURNING c.owner, c.id, c.status, c.labels
	), k AS (
		DELETE FROM {s}.idempotency_keys k USING u WHERE k.owner = u.owner AND k.task_id = u.id AND k.of_context AND NOT k.at_creation
	), ` + sqlSubtractContexts + `
	SELECT owner, label FROM removed LEFT JOIN LATERAL unnest(labels) label ON true
	UNION ALL SELECT NULL, count(*) FROM removed`

// ExpireContexts implements [store.Maintenance].
func (s *contextStore) ExpireContexts(ctx context.Context, p store.ContextExpiry) (removed int, next *store.ExpiryCursor, err error) {
	var removedKeys []labelKey // counters that count the removed contexts; label 0 is the counter of the owner
	err = s.transact(ctx, "expire contexts", func(ctx context.Context, tx pgx.Tx) error {
		removed, next, removedKeys = 0, nil, nil
		owners, ids, last, err := s.oldContexts(ctx, tx, &p)
		if err != nil || len(ids) == 0 {
			return err
		}
		if len(ids) == p.Limit {
			next = &last
		}
		return s.eachRow(ctx, tx, sqlExpireContexts, func(r record) error {
			switch {
			case r.null(0):
				removed = int(r.int(1))
			case r.null(1):
				removedKeys = append(removedKeys, labelKey{owner: r.text(0)})
			default:
				removedKeys = append(removedKeys, labelKey{owner: r.text(0), label: r.int(1)})
			}
			return nil
		}, owners, ids, p.Saved, ceilMillis(p.Before))
	})
	if err != nil {
		return 0, nil, err
	}
	for _, k := range removedKeys {
		s.counterRows.add(k.owner, mergeThreshold)
		if k.label != 0 {
			s.labelRows.add(k, mergeThreshold)
		}
	}
	return removed, next, nil
}

// oldContexts returns the next contexts to check, and the place of the last one.
func (s *contextStore) oldContexts(ctx context.Context, tx pgx.Tx, p *store.ContextExpiry) (owners, ids []string, last store.ExpiryCursor, err error) {
	text, after := sqlOldUndescribed, [3]any{int64(math.MinInt64), "", ""}
	if p.Saved {
		text = sqlOldDescribed
	}
	if p.After != nil {
		after = [3]any{millis(p.After.At), p.After.Owner, p.After.ID}
	}
	err = s.eachRow(ctx, tx, text, func(r record) error {
		last = store.ExpiryCursor{Owner: r.text(0), ID: r.text(1), At: fromMillis(r.int(2))}
		owners, ids = append(owners, last.Owner), append(ids, last.ID)
		return nil
	}, after[0], after[1], after[2], ceilMillis(p.Before), p.Limit)
	return owners, ids, last, err
}
