// Package historysql stores transcripts in SQLite and PostgreSQL.
package historysql

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"time"

	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historydriver"
)

// History stores transcripts: package history documents its methods. A session is a row with
// totals, which every change locks first; a message is a row.
type History struct {
	db  sqlkit.DB
	now func() time.Time
}

var (
	_ history.Provider      = (*History)(nil)
	_ history.Editor        = (*History)(nil)
	_ history.Pruner        = (*History)(nil)
	_ history.Searcher      = (*History)(nil)
	_ history.SessionLister = (*History)(nil)
	_ history.Transactional = (*History)(nil)
)

// Of returns the transcripts in the database of a store of tasks, nil if the store has none. They implement all
// interfaces of package history.
func Of(tasks any) history.Provider {
	if db := sqlkit.Of(tasks); db != nil {
		return New(db, db.Now)
	}
	return nil
}

// New returns the transcripts in a database. now is the clock for expiry.
func New(db sqlkit.DB, now func() time.Time) *History { return &History{db: db, now: now} }

// errExpired: the session has expired and must be purged before the append.
var errExpired = errors.New("session has expired")

// repeatedError is the result of an earlier append with the same idempotency key.
type repeatedError struct{ history.AppendResult }

func (repeatedError) Error() string { return "append was repeated" }

// args returns the arguments of a statement of a session.
func args(k history.Key, more ...any) []any {
	return append([]any{k.Owner, k.Agent, k.Session}, more...)
}

// Append implements history.Provider.
func (h *History) Append(ctx context.Context, k history.Key, p history.AppendParams) (history.AppendResult, error) {
	if err := historydriver.CheckAppend(k, &p); err != nil {
		return history.AppendResult{}, err
	}
	rows := messageRows(&p)
	result, err := h.appendPipelined(ctx, k, &p, rows)
	if !errors.Is(err, sqlkit.ErrGuard) {
		return result, err
	}
	err = h.unexpired(ctx, k, func(now int64) error {
		return h.db.Write(ctx, func(tx sqlkit.Tx) (err error) {
			result, err = h.appendMessages(tx, k, &p, rows, now)
			return err
		})
	})
	if repeated, ok := errors.AsType[repeatedError](err); ok {
		if err := h.raiseFence(ctx, k, p.Run, p.Fence); err != nil {
			return history.AppendResult{}, err
		}
		return repeated.AppendResult, nil
	}
	return result, err
}

// advance adds n messages of a size to the totals of a session, creates it if necessary, and returns
// its last sequence. It returns false if the session has expired or its newest message is not the
// expected one, unless that is negative.
func (h *History) advance(tx sqlkit.Tx, k history.Key, p *history.AppendParams, n, size, expected, now int64) (last int64, advanced bool, err error) {
	ttl := max(p.TTL.Milliseconds(), 0)
	if h.db.Dialect() == sqlkit.PostgreSQL {
		advanced, err = sqlkit.QueryOne(tx, sqlHistoryAdvance, func(r sqlkit.Row) { last = r.Int(0) }, args(k, now, n, size, expected, ttl, p.TTL == 0)...)
		return last, advanced, err
	}
	// In SQLite, RETURNING costs more than the change, and UPDATE changes the indexes of each column
	// that it sets. No other transaction can change the session.
	var newest, expires, minute int64
	found, err := sqlkit.QueryOne(tx, sqlHistoryTotals, func(r sqlkit.Row) {
		last, newest, expires, minute = r.Int(0), r.Int(1), r.Int(2), r.Int(3)
		if p.TTL == 0 {
			ttl = r.Int(4)
		}
	}, args(k)...)
	switch {
	case err != nil:
		return 0, false, err
	case found && (expires > 0 && expires <= now || expected >= 0 && newest != expected):
		return 0, false, nil
	case !found:
		_, err = tx.Exec(sqlHistoryCreate, args(k, now, ttl)...)
	case minute != now/60_000:
		_, err = tx.Exec(sqlHistoryListed, args(k, now/60_000)...)
	}
	if expires = 0; ttl > 0 {
		expires = now + ttl
	}
	if err == nil {
		_, err = tx.Exec(sqlHistoryAdded, args(k, n, size, now, ttl, expires)...)
	}
	return last + n, err == nil, err
}

// appendMessages appends in a transaction. It reserves sequences first, which locks the session.
func (h *History) appendMessages(tx sqlkit.Tx, k history.Key, p *history.AppendParams, rows [][]any, now int64) (history.AppendResult, error) {
	expected := int64(-1)
	if p.Expected != nil {
		expected = *p.Expected
	}
	var size int64
	for i := range p.Messages {
		size += int64(len(p.Messages[i].Body))
	}
	n := int64(len(p.Messages))
	last, advanced, err := h.advance(tx, k, p, n, size, expected, now)
	if err == nil && !advanced {
		err = h.rejection(tx, k, p, expected, now)
	} else if err == nil {
		err = h.checkAppend(tx, k, p)
	}
	if err != nil {
		return history.AppendResult{}, err
	}
	result := history.AppendResult{First: last - n + 1, Last: last}
	if result.First == 1 && expected > 0 {
		return history.AppendResult{}, &history.ConflictError{Expected: expected}
	}
	if err := insertMessages(tx, k, p, rows, result, now); err != nil {
		return history.AppendResult{}, err
	}
	return result, nil
}

// checkAppend checks and raises the fence of a run, and then checks the idempotency key.
func (h *History) checkAppend(tx sqlkit.Tx, k history.Key, p *history.AppendParams) error {
	if p.Run != "" {
		if err := h.checkFence(tx, k, p.Run, p.Fence); err != nil {
			return err
		}
	}
	if p.IdempotencyKey == "" {
		return nil
	}
	first := history.AppendResult{Repeated: true}
	found, err := sqlkit.QueryOne(tx, sqlHistoryKey, func(r sqlkit.Row) { first.First, first.Last = r.Int(0), r.Int(1) }, args(k, p.IdempotencyKey)...)
	if found && err == nil {
		err = repeatedError{first}
	}
	return err
}

// checkFence returns ErrFenced if the run has a higher fence, and else sets it.
func (h *History) checkFence(tx sqlkit.Tx, k history.Key, run string, fence int64) error {
	var current int64
	if _, err := sqlkit.QueryOne(tx, sqlHistoryFence, func(r sqlkit.Row) { current = r.Int(0) }, args(k, run)...); err != nil {
		return err
	}
	switch {
	case fence < current:
		return history.ErrFenced
	case fence == current:
		return nil
	}
	text := sqlHistorySetFence
	if h.db.Dialect() == sqlkit.PostgreSQL {
		text = sqlHistoryRaiseFence
	}
	_, err := tx.Exec(text, args(k, run, fence)...)
	return err
}

// raiseFence sets the fence of a run of a session that exists.
func (h *History) raiseFence(ctx context.Context, k history.Key, run string, fence int64) error {
	if fence == 0 {
		return nil
	}
	return h.db.Write(ctx, func(tx sqlkit.Tx) error {
		return edit(tx, k, h.now().UnixMilli(), func(lockedSession) error { return h.checkFence(tx, k, run, fence) })
	})
}

// rejection returns why an append got no sequences. The session is locked.
func (h *History) rejection(tx sqlkit.Tx, k history.Key, p *history.AppendParams, expected, now int64) error {
	s, live, err := lockSession(tx, k, now)
	switch {
	case err != nil:
		return err
	case !live:
		return errExpired
	}
	if err := h.checkAppend(tx, k, p); err != nil {
		return err
	}
	return &history.ConflictError{Expected: expected, Newest: s.Newest}
}

// messageRows returns the columns of messages that do not depend on the session: role, creation
// time, calls, results and body.
func messageRows(p *history.AppendParams) [][]any {
	rows := make([][]any, len(p.Messages))
	for i := range p.Messages {
		m := &p.Messages[i]
		var created any
		if !m.CreatedAt.IsZero() {
			created = m.CreatedAt.UnixMilli()
		}
		rows[i] = []any{m.Role, created, encodeIDs(m.ToolCalls), encodeIDs(m.ToolResults), string(m.Body)}
	}
	return rows
}

func insertMessages(tx sqlkit.Tx, k history.Key, p *history.AppendParams, rows [][]any, result history.AppendResult, now int64) error {
	for i := 0; i < len(rows); {
		n := 1
		for _, size := range []int{8, 64} {
			if len(rows)-i >= size {
				n = size
			}
		}
		values := args(k, p.Run)
		for _, row := range rows[i : i+n] {
			created, key := row[1], ""
			if created == nil {
				created = now
			}
			if i == 0 {
				key = p.IdempotencyKey
			}
			values = append(values, result.First+int64(i), row[0], created, row[2], row[3], row[4], key, result.Last)
			i++
		}
		if _, err := tx.Exec(historyInserts[n], values...); err != nil {
			return err
		}
	}
	return nil
}

// lockSession locks a session that has not expired and returns it with its last sequence.
func lockSession(tx sqlkit.Tx, k history.Key, now int64) (s lockedSession, found bool, err error) {
	found, err = sqlkit.QueryOne(tx, sqlHistoryLock, func(r sqlkit.Row) { s = lockedSession{scanSession(r), r.Int(9)} }, args(k, now)...)
	return s, found, err
}

type lockedSession struct {
	history.Session
	lastSeq int64
}

// encodeIDs returns ids as a JSON array, or "".
func encodeIDs(ids []string) string {
	if len(ids) == 0 {
		return ""
	}
	text, _ := json.Marshal(ids) // strings
	return string(text)
}

func decodeIDs(text string) (ids []string, err error) {
	if text != "" {
		err = json.Unmarshal([]byte(text), &ids)
	}
	return ids, err
}

// maxSeq is greater than every sequence.
const maxSeq = math.MaxInt64
