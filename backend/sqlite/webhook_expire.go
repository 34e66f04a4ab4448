package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/encoding"
)

var (
	sqlOldAttempts     = `SELECT pk, at, n, attempts FROM webhook_attempts INDEXED BY webhook_attempts_at WHERE at < ? ORDER BY at`
	sqlDropAttempts    = `DELETE FROM webhook_attempts WHERE pk = ?`
	sqlRewriteAttempts = `UPDATE webhook_attempts SET n = ?, attempts = ? WHERE pk = ?`
	sqlDropOldDead     = `DELETE FROM webhook_dead WHERE pk IN
		(SELECT pk FROM webhook_dead INDEXED BY webhook_dead_at WHERE at < ? ORDER BY at LIMIT ?) RETURNING lane_pk`
	sqlDoneLanes = `SELECT ` + laneList + ` FROM webhook_lanes INDEXED BY webhook_lanes_done
		WHERE phase = {done} AND dead = 0 AND long_running = ? AND updated_at < ? ORDER BY updated_at LIMIT ?`
)

// ExpireWebhooks implements store.Webhooks.
func (s *webhookStore) ExpireWebhooks(ctx context.Context, p store.WebhookExpiry, limit int) (removed int, err error) {
	err = s.write(ctx, &request{weight: max(limit, 1), apply: func(w *writer) error {
		removed = 0
		if limit <= 0 {
			return nil
		}
		attempts, err := w.expireAttempts(p.Attempts, limit)
		if err != nil {
			return err
		}
		dead, err := w.expireDead(p.Dead, limit)
		if err != nil {
			return err
		}
		lanes, err := w.expireLanes(p.Finished, false, limit)
		if err != nil {
			return err
		}
		long, err := w.expireLanes(p.LongRunning, true, limit-lanes)
		removed = attempts + dead + lanes + long
		return err
	}})
	return removed, err
}

// expireAttempts removes up to limit attempts made before a time. It rewrites rows that
// also contain newer attempts.
func (w *laneWriter) expireAttempts(before time.Time, limit int) (removed int, err error) {
	if before.IsZero() {
		return 0, nil
	}
	var whole []int64
	rewritten := make(map[int64]attemptRow)
	err = w.query(sqlOldAttempts, func(r record) error {
		if removed == limit {
			return errStop
		}
		pk, n := r.int(0), int(r.int(2))
		if r.int(1) < millis(before) && n <= limit-removed {
			whole, removed = append(whole, pk), removed+n
			return nil
		}
		attempts, err := encoding.DecodeAttempts(r.json(3))
		if err != nil {
			return fmt.Errorf("attempts %d: %w", pk, err)
		}
		old, _ := slices.BinarySearchFunc(attempts, millis(before), func(a encoding.Attempt, at int64) int { return int(a.At - at) })
		if old = min(old, limit-removed); old == 0 {
			return nil
		}
		removed += old
		row, err := encodeAttemptRow(attempts[old:])
		rewritten[pk] = row
		return err
	}, millis(before)+attemptSpan)
	if err != nil && !errors.Is(err, errStop) {
		return 0, err
	}
	for _, pk := range whole {
		if _, err := w.exec(sqlDropAttempts, pk); err != nil {
			return 0, err
		}
	}
	for pk, row := range rewritten {
		if _, err := w.exec(sqlRewriteAttempts, int64(row.n), row.text, pk); err != nil {
			return 0, err
		}
	}
	return removed, nil
}

// expireDead removes up to limit dead letters made before a time.
func (w *laneWriter) expireDead(before time.Time, limit int) (removed int, err error) {
	if before.IsZero() {
		return 0, nil
	}
	dead := make(map[int64]int64)
	err = w.query(sqlDropOldDead, func(r record) error {
		dead[r.int(0)]++
		removed++
		return nil
	}, ceilMillis(before), int64(limit))
	if err != nil {
		return 0, err
	}
	return removed, w.subtractDeadLetters(dead)
}

// expireLanes removes up to limit webhooks that have nothing to send, no dead letters,
// and were last active before a time. Their tasks are in a terminal state.
func (w *laneWriter) expireLanes(before time.Time, longRunning bool, limit int) (removed int, err error) {
	if before.IsZero() || limit <= 0 {
		return 0, nil
	}
	var done []laneRow
	err = w.query(sqlDoneLanes, func(r record) error {
		done = append(done, laneRow{})
		done[len(done)-1].scan(r)
		return nil
	}, number(longRunning), millis(before), int64(limit))
	for i := range done {
		if err == nil {
			err = w.removeLaneData(&done[i])
		}
		if err == nil {
			err = w.removeLane(&done[i])
		}
	}
	return len(done), err
}
