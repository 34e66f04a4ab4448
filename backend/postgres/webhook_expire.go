package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/encoding"
)

// attemptRowKey identifies a row of delivery attempts.
type attemptRowKey struct {
	Owner string `col:"owner"`
	ID    int64  `col:"id"`
}

// keptAttempts is a row of delivery attempts without those that expired.
type keptAttempts struct {
	attemptRowKey
	FirstAt int64  `col:"first_at"`
	LastAt  int64  `col:"last_at"`
	Data    string `col:"data"`
}

var (
	attemptKeyRows   = paramRowsOf[attemptRowKey]("u")
	keptAttemptsRows = paramRowsOf[keptAttempts]("u")

	sqlDeleteAttempts  = newStatement("", "", `DELETE FROM {s}.delivery_attempts a USING {u} WHERE a.owner = u.owner AND a.id = u.id`, attemptKeyRows).text
	sqlReplaceAttempts = newStatement("", "", `UPDATE {s}.delivery_attempts a SET first_at = u.first_at, last_at = u.last_at, data = u.data
		FROM {u} WHERE a.owner = u.owner AND a.id = u.id`, keptAttemptsRows).text
)

const (
	sqlOldAttempts = `SELECT id, data, owner, last_at FROM {s}.delivery_attempts
		WHERE last_at < $1::bigint + 60000 AND first_at < $1::bigint AND last_at >= $3::bigint ORDER BY last_at, id LIMIT $2::bigint FOR UPDATE SKIP LOCKED`
	// sqlExpireDeadLetters deletes the oldest dead letters first. Idle lanes that lose one
	// are done, so that the next pass checks them again.
	sqlExpireDeadLetters = `WITH d AS MATERIALIZED (
			SELECT owner, task_id, config_id, seq FROM {s}.dead_letters WHERE (-at) > -$1::bigint AND (-at) <= -$3::bigint
			ORDER BY (-at) DESC LIMIT $2::bigint FOR UPDATE SKIP LOCKED
		), removed AS (
			DELETE FROM {s}.dead_letters p USING d WHERE p.owner = d.owner COLLATE "POSIX" AND p.task_id = d.task_id COLLATE "POSIX"
				AND p.config_id = d.config_id COLLATE "POSIX" AND p.seq = d.seq
			RETURNING p.owner, p.task_id, p.config_id, p.at
		), u AS MATERIALIZED (
			SELECT DISTINCT owner, task_id, config_id AS id FROM removed ORDER BY 1, 2, 3
		), again AS (
			UPDATE {s}.webhook_lanes l SET phase = {done} FROM u WHERE ` + sqlLaneKey + ` AND l.phase + 0 = {idle}
		)
		SELECT count(*), coalesce(max(at), 0) FROM removed`

	// sqlDoneLanes locks the tasks of old lanes that are done, and then these lanes. It skips locked rows.
	sqlDoneLanes = `WITH old AS MATERIALIZED (
			SELECT l.owner, l.task_id, l.id, l.updated_at FROM {s}.webhook_lanes l
			WHERE l.phase = {done} AND l.long_running = $1::boolean AND l.updated_at < $2::bigint AND l.updated_at >= $4::bigint
			ORDER BY l.updated_at LIMIT $3::bigint
		), held AS MATERIALIZED (
			SELECT u.* FROM old u JOIN {s}.task_rows t ON t.owner = u.owner COLLATE "POSIX" AND t.id = u.task_id COLLATE "POSIX"
			FOR NO KEY UPDATE OF t SKIP LOCKED
		)
		SELECT l.* FROM held u CROSS JOIN LATERAL (
			SELECT l.owner, l.task_id, l.id, l.updated_at FROM {s}.webhook_lanes l
			WHERE ` + sqlLaneKey + ` AND l.phase + 0 = {done} AND l.updated_at = u.updated_at FOR UPDATE SKIP LOCKED) l`

	// sqlExpireLanes deletes the locked lanes of terminal tasks without dead letters. The other
	// locked lanes become idle. No pass reads idle lanes: they cannot expire before another
	// statement changes their phase.
	sqlExpireLanes = `WITH c AS MATERIALIZED (SELECT * FROM unnest($1::text[], $2::text[], $3::text[]) AS c(owner, task_id, id)),
		u AS MATERIALIZED (
			SELECT c.* FROM c JOIN {s}.task_rows t ON t.owner = c.owner COLLATE "POSIX" AND t.id = c.task_id COLLATE "POSIX"
			WHERE t.state = ANY ($4::text[]) AND (
				SELECT 1 FROM {s}.dead_letters d WHERE d.owner = c.owner COLLATE "POSIX" AND d.task_id = c.task_id COLLATE "POSIX"
					AND d.config_id = c.id COLLATE "POSIX" LIMIT 1) IS NULL
		), removed AS (
			DELETE FROM {s}.webhook_lanes l USING u WHERE ` + sqlLaneKey + ` RETURNING l.owner, l.task_id
		), p AS (
			DELETE FROM {s}.webhooks l USING u WHERE ` + sqlLaneKey + `
		), a AS (
			DELETE FROM {s}.delivery_attempts a USING u WHERE a.owner = u.owner AND a.task_id = u.task_id AND a.config_id = u.id
		), n AS (
			UPDATE {s}.task_rows t SET webhooks = t.webhooks - g.n FROM (SELECT owner, task_id, count(*)::integer AS n FROM removed GROUP BY 1, 2) g
			WHERE t.owner = g.owner COLLATE "POSIX" AND t.id = g.task_id COLLATE "POSIX"
		), k AS (
			UPDATE {s}.webhook_lanes l SET phase = {idle} FROM (SELECT owner, task_id, id FROM c EXCEPT SELECT owner, task_id, id FROM u) u WHERE ` + sqlLaneKey + `
		)
		SELECT count(*) FROM removed`

	// maxLaneBatches is the maximum number of batches of done lanes that a call checks.
	maxLaneBatches = 10
)

// ExpireWebhooks implements [store.Webhooks]. It removes the oldest first.
func (s *webhookStore) ExpireWebhooks(ctx context.Context, p store.WebhookExpiry, limit int) (int, error) {
	if limit <= 0 {
		return 0, nil
	}
	removed := 0
	if !p.Attempts.IsZero() {
		n, err := s.expireAttempts(ctx, p.Attempts, limit)
		if err != nil {
			return 0, err
		}
		removed += n
	}
	if !p.Dead.IsZero() {
		n, err := s.sweep(ctx, "expire dead letters", sqlExpireDeadLetters, &s.sweptDeadLetters, ceilMillis(p.Dead), limit)
		if err != nil {
			return 0, err
		}
		removed += n
	}
	var terminalStates []string
	for _, state := range a2a.States() {
		if state.Terminal() {
			terminalStates = append(terminalStates, string(state))
		}
	}
	lanes := 0
	for _, kind := range []struct {
		long   bool
		before time.Time
		bound  *sweepBound
	}{{false, p.Finished, &s.sweptLanes}, {true, p.LongRunning, &s.sweptLongLanes}} {
		if kind.before.IsZero() || lanes == limit {
			continue
		}
		n, err := s.expireLanes(ctx, kind.long, kind.before, kind.bound, terminalStates, limit-lanes)
		if err != nil {
			return 0, err
		}
		lanes += n
	}
	return removed + lanes, nil
}

// expireLanes removes up to limit webhooks that have nothing left to send. Each batch needs
// two statements: the second sees changes that were committed before the first got its locks.
func (s *webhookStore) expireLanes(ctx context.Context, long bool, before time.Time, bound *sweepBound, terminalStates []string, limit int) (removed int, err error) {
	for range maxLaneBatches {
		batch := limit - removed
		done, err := bound.batch(batch, func(from int64, limit int) (done int, last int64, err error) {
			n := 0
			err = s.transact(ctx, "expire webhooks", func(ctx context.Context, tx pgx.Tx) error {
				var owners, tasks, ids []string
				n, last = 0, 0
				err := s.eachRow(ctx, tx, sqlDoneLanes, func(r record) error {
					owners, tasks, ids, last = append(owners, r.text(0)), append(tasks, r.text(1)), append(ids, r.text(2)), max(last, r.int(3))
					return nil
				}, long, ceilMillis(before), limit, from)
				if done = len(ids); err != nil || done == 0 {
					return err
				}
				return s.eachRow(ctx, tx, sqlExpireLanes, func(r record) error {
					n = int(r.int(0))
					return nil
				}, owners, tasks, ids, terminalStates)
			})
			removed += n
			return done, last, err
		})
		if err != nil {
			return 0, err
		}
		if removed == limit || done < batch {
			break
		}
	}
	return removed, nil
}

// expireAttempts removes attempts before a time. It rewrites rows that also contain later ones.
func (s *webhookStore) expireAttempts(ctx context.Context, before time.Time, limit int) (int, error) {
	return s.sweptAttempts.batch(limit, func(from int64, limit int) (removed int, last int64, err error) {
		return s.expireAttemptsFrom(ctx, from, ceilMillis(before), limit)
	})
}

// expireAttemptsFrom removes attempts of rows that end at or after from. It returns their number and the end of the
// last row.
func (s *webhookStore) expireAttemptsFrom(ctx context.Context, from, cut int64, limit int) (removed int, last int64, err error) {
	err = s.transact(ctx, "expire attempts", func(ctx context.Context, tx pgx.Tx) error {
		removed = 0
		var dropped []attemptRowKey
		var kept []keptAttempts
		err := s.eachRow(ctx, tx, sqlOldAttempts, func(r record) error {
			b, err := encoding.DecodeAttempts(r[1])
			if err != nil {
				return fmt.Errorf("attempts %d: %w", r.int(0), err)
			}
			n := 0
			for removed < limit && n < len(b) && b[n].At < cut {
				n++
				removed++
			}
			last = r.int(3)
			key := attemptRowKey{Owner: r.text(2), ID: r.int(0)}
			switch b = slices.Clone(b[n:]); {
			case len(b) == 0:
				dropped = append(dropped, key)
			case n > 0:
				data, err := encoding.Attempts(b)
				if err != nil {
					return err
				}
				kept = append(kept, keptAttempts{attemptRowKey: key, FirstAt: b[0].At, LastAt: b[len(b)-1].At, Data: string(data)})
			}
			return nil
		}, cut, limit, from)
		if err == nil && len(dropped) > 0 {
			_, err = s.exec(ctx, tx, sqlDeleteAttempts, attemptKeyRows.args(dropped)...)
		}
		if err == nil && len(kept) > 0 {
			_, err = s.exec(ctx, tx, sqlReplaceAttempts, keptAttemptsRows.args(kept)...)
		}
		return err
	})
	return removed, last, err
}
