package historysql

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historydriver"
)

// purgeRows is the number of messages that one transaction of Clear and Expire removes.
const purgeRows = 1000

// Clear implements history.Provider. It makes the session invisible and then removes its rows in
// batches.
func (h *History) Clear(ctx context.Context, k history.Key) error {
	if err := historydriver.CheckKey(k); err != nil {
		return err
	}
	exists := false
	err := h.db.Read(ctx, func(q sqlkit.Querier) error {
		exists = false
		return q.Query(sqlHistorySession, func(sqlkit.Row) error {
			exists = true
			return nil
		}, args(k)...)
	})
	if err != nil || !exists { // most contexts have no transcript, and a read costs less than a transaction
		return err
	}
	marked := int64(0)
	err = h.db.Write(ctx, func(tx sqlkit.Tx) (err error) {
		marked, err = tx.Exec(sqlHistoryMark, args(k)...)
		return err
	})
	if err != nil || marked == 0 {
		return err
	}
	return h.purge(ctx, k, h.now().UnixMilli())
}

// purge removes the rows of a session that expired by now.
func (h *History) purge(ctx context.Context, k history.Key, now int64) error {
	for more := true; more; {
		err := h.db.Write(ctx, func(tx sqlkit.Tx) (err error) {
			more, err = purgeBatch(tx, k, now)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// purgeBatch removes rows of a session that expired by now. It reports whether more exist.
func purgeBatch(tx sqlkit.Tx, k history.Key, now int64) (more bool, err error) {
	if n, err := tx.Exec(sqlHistoryExpired, args(k, now)...); n == 0 || err != nil {
		return false, err
	}
	n, err := tx.Exec(sqlHistoryPurge, args(k, purgeRows)...)
	if n == purgeRows || err != nil {
		return n == purgeRows, err
	}
	if _, err := tx.Exec(sqlHistoryDropFences, args(k)...); err != nil {
		return false, err
	}
	_, err = tx.Exec(sqlHistoryDropSession, args(k)...)
	return false, err
}

// Expire implements history.Provider.
func (h *History) Expire(ctx context.Context, now time.Time, limit int) (removed int, err error) {
	if err := historydriver.CheckExpire(limit); err != nil {
		return 0, err
	}
	var due []history.Key
	err = h.db.Read(ctx, func(q sqlkit.Querier) error {
		due = nil
		return q.Query(sqlHistoryDue, func(r sqlkit.Row) error {
			due = append(due, history.Key{Owner: r.Text(0), Agent: r.Text(1), Session: r.Text(2)})
			return nil
		}, now.UnixMilli(), limit)
	})
	if err != nil {
		return 0, err
	}
	for _, k := range due {
		if err := h.purge(ctx, k, now.UnixMilli()); err != nil {
			return removed, err
		}
		removed++
	}
	return removed, nil
}

// ClearRun implements history.Provider. A fence creates the session, because it must outlive the
// call.
func (h *History) ClearRun(ctx context.Context, k history.Key, run string, fence int64) (removed int64, err error) {
	if err := historydriver.CheckRun(k, run, fence); err != nil {
		return 0, err
	}
	err = h.unexpired(ctx, k, func(now int64) error {
		return h.db.Write(ctx, func(tx sqlkit.Tx) (err error) {
			removed, err = h.clearRun(tx, k, run, fence, now)
			return err
		})
	})
	return removed, err
}

func (h *History) clearRun(tx sqlkit.Tx, k history.Key, run string, fence, now int64) (removed int64, err error) {
	if fence > 0 {
		if err := createSession(tx, k, 0, now); err != nil && !errors.Is(err, history.ErrExists) {
			return 0, err
		}
	}
	err = edit(tx, k, now, func(lockedSession) error {
		if err := h.checkFence(tx, k, run, fence); err != nil {
			return err
		}
		p, err := remove(tx, k, sqlHistoryDropRun, run)
		removed = p.Messages
		return err
	})
	return removed, err
}

// unexpired calls f with the time until it does not return errExpired. In between it purges the
// session.
func (h *History) unexpired(ctx context.Context, k history.Key, f func(now int64) error) error {
	for {
		now := h.now().UnixMilli()
		if err := f(now); !errors.Is(err, errExpired) {
			return err
		}
		if err := h.purge(ctx, k, now); err != nil {
			return err
		}
	}
}

// createSession creates a session without messages. It returns ErrExists if it exists, and
// errExpired if an expired one must be purged first.
func createSession(tx sqlkit.Tx, k history.Key, ttl time.Duration, now int64) error {
	created, err := tx.Exec(sqlHistoryCreate, args(k, now, ttl.Milliseconds())...)
	if created > 0 || err != nil {
		return err
	}
	var old history.Session
	found, err := sqlkit.QueryOne(tx, sqlHistorySession, func(r sqlkit.Row) { old = scanSession(r) }, args(k)...)
	switch {
	case err != nil:
		return err
	case !found || expired(&old, now):
		return errExpired
	}
	return history.ErrExists
}

// Rewind implements history.Editor.
func (h *History) Rewind(ctx context.Context, k history.Key, seq int64) (removed int64, err error) {
	if err := historydriver.CheckRewind(k, seq); err != nil {
		return 0, err
	}
	err = h.db.Write(ctx, func(tx sqlkit.Tx) error {
		removed = 0
		return edit(tx, k, h.now().UnixMilli(), func(lockedSession) error {
			p, err := remove(tx, k, sqlHistoryDropAfter, seq)
			removed = p.Messages
			return err
		})
	})
	return removed, err
}

// edit locks a session and calls f, if the session exists.
func edit(tx sqlkit.Tx, k history.Key, now int64, f func(s lockedSession) error) error {
	s, found, err := lockSession(tx, k, now)
	if !found || err != nil {
		return err
	}
	return f(s)
}

// remove removes messages and updates the totals of their session.
func remove(tx sqlkit.Tx, k history.Key, text string, value any) (p history.Pruned, err error) {
	err = tx.Query(text, func(r sqlkit.Row) error {
		p.Messages++
		p.Bytes += r.Int(0)
		return nil
	}, args(k, value)...)
	if err == nil && p.Messages > 0 {
		_, err = tx.Exec(sqlHistoryRemoved, args(k, p.Messages, p.Bytes)...)
	}
	return p, err
}

// Prune implements history.Pruner.
func (h *History) Prune(ctx context.Context, k history.Key, p history.Policy) (removed history.Pruned, err error) {
	if err := historydriver.CheckPolicy(k, p); err != nil {
		return removed, err
	}
	for {
		batch, err := h.pruneBatch(ctx, k, p)
		removed.Messages += batch.Messages
		removed.Bytes += batch.Bytes
		if err != nil || batch.Messages == 0 {
			return removed, err
		}
	}
}

func (h *History) pruneBatch(ctx context.Context, k history.Key, p history.Policy) (batch history.Pruned, err error) {
	err = h.db.Write(ctx, func(tx sqlkit.Tx) error {
		batch = history.Pruned{}
		now := h.now().UnixMilli()
		return edit(tx, k, now, func(s lockedSession) error {
			oldest, err := queryOutlines(tx, sqlHistoryOldestOutlines, args(k, now, 0, int64(maxSeq), historydriver.PruneRead)...)
			if err != nil {
				return err
			}
			if n := historydriver.PruneSize(oldest, history.Pruned{Messages: s.Messages, Bytes: s.Bytes}, p); n > 0 {
				batch, err = remove(tx, k, sqlHistoryDropUntil, oldest[n-1].Seq)
			}
			return err
		})
	})
	if err != nil {
		return history.Pruned{}, err
	}
	return batch, nil
}

// Fork implements history.Editor.
func (h *History) Fork(ctx context.Context, p history.ForkParams) (copied int64, err error) {
	if err := historydriver.CheckFork(&p); err != nil {
		return 0, err
	}
	err = h.unexpired(ctx, p.To, func(now int64) error {
		return h.db.Write(ctx, func(tx sqlkit.Tx) (err error) {
			copied, err = fork(tx, &p, now)
			return err
		})
	})
	return copied, err
}

func fork(tx sqlkit.Tx, p *history.ForkParams, now int64) (int64, error) {
	from, found, err := lockSession(tx, p.From, now)
	switch {
	case err != nil:
		return 0, err
	case !found:
		return 0, history.ErrNotFound
	}
	if err := createSession(tx, p.To, p.TTL, now); err != nil {
		return 0, err
	}
	through := from.lastSeq
	if p.Through > 0 {
		through = min(through, p.Through)
	}
	copied, err := tx.Exec(sqlHistoryCopy, args(p.From, p.To.Agent, p.To.Session, through)...)
	if err != nil {
		return 0, err
	}
	_, err = tx.Exec(sqlHistoryCopied, args(p.To, through, copied)...)
	return copied, err
}
