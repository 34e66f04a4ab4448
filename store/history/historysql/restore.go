package historysql

import (
	"cmp"
	"context"
	"errors"

	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historydriver"
)

var _ history.Restorer = (*History)(nil)

// sqlHistoryRestore adds messages up to the sequence $4 to the totals of a session, if its last
// sequence is before $10, and sets its times.
const sqlHistoryRestore = `UPDATE {s}.history_sessions SET last_seq = $4::bigint, newest = $4::bigint, messages = messages + $5::bigint,
	bytes = bytes + $6::bigint, updated_at = $7::bigint, updated_minute = $7::bigint / 60000, ttl = $8::bigint, expires_at = $9::bigint` + byKey + ` AND last_seq < $10::bigint`

// Restore implements history.Restorer.
func (h *History) Restore(ctx context.Context, s history.Session, messages []history.Message) error {
	if err := historydriver.CheckRestore(&s, messages); err != nil {
		return err
	}
	return h.unexpired(ctx, s.Key, func(now int64) error {
		if !s.ExpiresAt.IsZero() && s.ExpiresAt.UnixMilli() <= now {
			return nil
		}
		return h.db.Write(ctx, func(tx sqlkit.Tx) error { return restore(tx, &s, messages, now) })
	})
}

func restore(tx sqlkit.Tx, s *history.Session, messages []history.Message, now int64) error {
	err := createSession(tx, s.Key, 0, s.CreatedAt.UnixMilli())
	if err != nil && !errors.Is(err, history.ErrExists) {
		return err
	}
	if _, live, err := lockSession(tx, s.Key, now); err != nil || !live {
		return cmp.Or(err, errExpired)
	}
	size, expires := int64(0), int64(0)
	for i := range messages {
		size += int64(len(messages[i].Body))
	}
	if !s.ExpiresAt.IsZero() {
		expires = s.ExpiresAt.UnixMilli()
	}
	first, last := messages[0].Seq, messages[len(messages)-1].Seq
	n, err := tx.Exec(sqlHistoryRestore, args(s.Key, last, len(messages), size, s.UpdatedAt.UnixMilli(), s.TTL().Milliseconds(), expires, first)...)
	if err != nil {
		return err
	}
	if n == 0 {
		return &history.ConflictError{Expected: first - 1}
	}
	return historydriver.Batches(messages, func(part []history.Message) error {
		p := history.AppendParams{Run: part[0].Run, Messages: part}
		return insertMessages(tx, s.Key, &p, messageRows(&p), history.AppendResult{First: part[0].Seq, Last: part[len(part)-1].Seq}, now)
	})
}
