package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

const (
	sqlOldAttempts = `SELECT id, data, owner FROM {s}.push_attempts
		WHERE last_at < $1::bigint + 60000 AND first_at < $1::bigint ORDER BY last_at, id LIMIT $2::bigint FOR UPDATE SKIP LOCKED`
	sqlDropAttempts = `DELETE FROM {s}.push_attempts a USING unnest($1::text[], $2::bigint[]) AS u(owner, id) WHERE a.owner = u.owner AND a.id = u.id`
	sqlKeepAttempts = `UPDATE {s}.push_attempts a SET first_at = u.first_at, last_at = u.last_at, data = u.data
		FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[]) AS u(owner, id, first_at, last_at, data)
		WHERE a.owner = u.owner AND a.id = u.id`

	// sqlExpireDead reads no dead letter that is too young, from the oldest on. Lanes that lose
	// one are checked again.
	sqlExpireDead = `WITH d AS MATERIALIZED (
			SELECT owner, task_id, config_id, seq FROM {s}.push_dead WHERE (-at) > -$1::bigint ORDER BY (-at) DESC LIMIT $2::bigint FOR UPDATE SKIP LOCKED
		), gone AS (
			DELETE FROM {s}.push_dead p USING d WHERE p.owner = d.owner COLLATE "POSIX" AND p.task_id = d.task_id COLLATE "POSIX"
				AND p.config_id = d.config_id COLLATE "POSIX" AND p.seq = d.seq
			RETURNING p.owner, p.task_id, p.config_id
		), u AS MATERIALIZED (
			SELECT DISTINCT owner, task_id, config_id AS id FROM gone ORDER BY 1, 2, 3
		), again AS (
			UPDATE {s}.push_lanes l SET phase = 0 FROM u WHERE ` + sqlLaneKey + ` AND l.phase + 0 <= 0
		)
		SELECT count(*) FROM gone`

	// sqlIdleLanes locks old idle lanes after their tasks, and waits for neither.
	sqlIdleLanes = `WITH old AS MATERIALIZED (
			SELECT l.owner, l.task_id, l.id, l.updated_at FROM {s}.push_lanes l
			WHERE l.phase = 0 AND l.long_running = $1::boolean AND l.updated_at < $2::bigint ORDER BY l.updated_at LIMIT $3::bigint
		), held AS MATERIALIZED (
			SELECT u.* FROM old u JOIN {s}.task_rows t ON t.owner = u.owner COLLATE "POSIX" AND t.id = u.task_id COLLATE "POSIX"
			FOR NO KEY UPDATE OF t SKIP LOCKED
		)
		SELECT l.* FROM held u CROSS JOIN LATERAL (
			SELECT l.owner, l.task_id, l.id FROM {s}.push_lanes l
			WHERE ` + sqlLaneKey + ` AND l.phase + 0 = 0 AND l.updated_at = u.updated_at FOR UPDATE SKIP LOCKED) l`

	// sqlExpireLanes removes those of some locked lanes that have nothing left to send. The
	// others get phase -1, which no pass reads: they cannot expire before a statement that
	// gives them another phase.
	sqlExpireLanes = `WITH c AS MATERIALIZED (SELECT * FROM unnest($1::text[], $2::text[], $3::text[]) AS c(owner, task_id, id)),
		u AS MATERIALIZED (
			SELECT c.* FROM c JOIN {s}.task_rows t ON t.owner = c.owner COLLATE "POSIX" AND t.id = c.task_id COLLATE "POSIX"
			WHERE t.state = ANY ($4::text[]) AND (
				SELECT 1 FROM {s}.push_dead d WHERE d.owner = c.owner COLLATE "POSIX" AND d.task_id = c.task_id COLLATE "POSIX"
					AND d.config_id = c.id COLLATE "POSIX" LIMIT 1) IS NULL
		), gone AS (
			DELETE FROM {s}.push_lanes l USING u WHERE ` + sqlLaneKey + ` RETURNING l.owner, l.task_id
		), p AS (
			DELETE FROM {s}.push_configs l USING u WHERE ` + sqlLaneKey + `
		), a AS (
			DELETE FROM {s}.push_attempts a USING u WHERE a.owner = u.owner AND a.task_id = u.task_id AND a.config_id = u.id
		), n AS (
			UPDATE {s}.task_rows t SET webhooks = t.webhooks - g.n FROM (SELECT owner, task_id, count(*)::integer AS n FROM gone GROUP BY 1, 2) g
			WHERE t.owner = g.owner COLLATE "POSIX" AND t.id = g.task_id COLLATE "POSIX"
		), k AS (
			UPDATE {s}.push_lanes l SET phase = -1 FROM (SELECT owner, task_id, id FROM c EXCEPT SELECT owner, task_id, id FROM u) u WHERE ` + sqlLaneKey + `
		)
		SELECT count(*) FROM gone`

	// laneBatches is the number of batches of idle lanes that a call checks at most.
	laneBatches = 10
)

// ExpirePush implements [store.PushStore]. The oldest go first.
func (s *Store) ExpirePush(ctx context.Context, p store.PushExpiry, limit int) (int, error) {
	if limit <= 0 {
		return 0, nil
	}
	removed, dead := 0, 0
	if !p.Attempts.IsZero() {
		n, err := s.expireAttempts(ctx, p.Attempts, limit)
		if err != nil {
			return 0, err
		}
		removed += n
	}
	if !p.Dead.IsZero() {
		err := s.transact(ctx, "expire dead letters", func(ctx context.Context, tx pgx.Tx) error {
			return s.each(ctx, tx, sqlExpireDead, func(r record) error {
				dead = int(r.int(0))
				return nil
			}, ceilMillis(p.Dead), limit)
		})
		if err != nil {
			return 0, err
		}
		removed += dead
	}
	var over []string
	for _, state := range a2a.States() {
		if state.Terminal() {
			over = append(over, string(state))
		}
	}
	lanes := 0
	for _, kind := range []struct {
		long   bool
		before time.Time
	}{{false, p.Finished}, {true, p.LongRunning}} {
		if kind.before.IsZero() || lanes == limit {
			continue
		}
		n, err := s.expireLanes(ctx, kind.long, kind.before, over, limit-lanes)
		if err != nil {
			return 0, err
		}
		lanes += n
	}
	return removed + lanes, nil
}

// expireLanes removes up to limit webhooks that have nothing left to send. Each
// batch takes two statements: the second sees what was committed before the first got the
// locks.
func (s *Store) expireLanes(ctx context.Context, long bool, before time.Time, over []string, limit int) (removed int, err error) {
	for range laneBatches {
		var owners, tasks, ids []string
		n, asked := 0, limit-removed
		err := s.transact(ctx, "expire webhooks", func(ctx context.Context, tx pgx.Tx) error {
			owners, tasks, ids, n = nil, nil, nil, 0
			err := s.each(ctx, tx, sqlIdleLanes, func(r record) error {
				owners, tasks, ids = append(owners, r.text(0)), append(tasks, r.text(1)), append(ids, r.text(2))
				return nil
			}, long, ceilMillis(before), asked)
			if err != nil || len(ids) == 0 {
				return err
			}
			return s.each(ctx, tx, sqlExpireLanes, func(r record) error {
				n = int(r.int(0))
				return nil
			}, owners, tasks, ids, over)
		})
		if err != nil {
			return 0, err
		}
		if removed += n; removed == limit || len(ids) < asked {
			break
		}
	}
	return removed, nil
}

// expireAttempts removes the attempts before a time. Rows that hold others too are
// written anew.
func (s *Store) expireAttempts(ctx context.Context, before time.Time, limit int) (removed int, err error) {
	cut := ceilMillis(before)
	err = s.transact(ctx, "expire attempts", func(ctx context.Context, tx pgx.Tx) error {
		removed = 0
		var drop, keep, firsts, lasts []int64
		var dropped, kept, texts []string // owners, and what is kept
		err := s.each(ctx, tx, sqlOldAttempts, func(r record) error {
			var b attemptBatch
			if err := json.Unmarshal(r[1], &b); err != nil {
				return fmt.Errorf("attempts %d: %w", r.int(0), err)
			}
			n := 0
			for removed < limit && n < len(b) && b[n].At < cut {
				n++
				removed++
			}
			switch b = slices.Clone(b[n:]); {
			case len(b) == 0:
				dropped, drop = append(dropped, r.text(2)), append(drop, r.int(0))
			case n > 0:
				data, err := b.encode()
				if err != nil {
					return err
				}
				kept = append(kept, r.text(2))
				keep, firsts, lasts = append(keep, r.int(0)), append(firsts, b[0].At), append(lasts, b[len(b)-1].At)
				texts = append(texts, string(data))
			}
			return nil
		}, cut, limit)
		if err == nil && len(drop) > 0 {
			_, err = s.exec(ctx, tx, sqlDropAttempts, dropped, drop)
		}
		if err == nil && len(keep) > 0 {
			_, err = s.exec(ctx, tx, sqlKeepAttempts, kept, keep, firsts, lasts, texts)
		}
		return err
	})
	return removed, err
}
