package historysql

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/history"
)

// The statements of an append in a pipeline. Each fails if it cannot be applied.
const (
	sqlHistoryReserve = `WITH h AS (` + sqlHistoryAdvance + `)
		SELECT max(last_seq), 1 / (CASE WHEN count(*) = 1 AND ($7::bigint <= 0 OR max(last_seq) > $5::bigint) THEN 1 ELSE 0 END) FROM h`
	// sqlHistoryAppend appends one message without a fence, and sqlHistoryAppendAll several. They lock the
	// session before they read whether any of its runs has a fence, so they need no second statement that
	// sees what others have committed meanwhile.
	sqlHistoryAppend    = appendTo + `(VALUES ($12::text, $13::bigint, $14::text, $15::text, $16::text, 1))` + appendFrom
	sqlHistoryAppendAll = appendTo + `unnest($12::text[], $13::bigint[], $14::text[], $15::text[], $16::text[]) WITH ORDINALITY` + appendFrom
	appendTo            = `WITH h AS (` + sessionTotals + ` DO UPDATE SET last_seq = h.last_seq + excluded.last_seq
				/ (CASE WHEN ` + sessionGuard + ` AND ($10::text = '' OR NOT h.fenced) THEN 1 ELSE 0 END), ` + addedTotals + `
		RETURNING last_seq)
		INSERT INTO {s}.history_messages (owner, agent, session, run, seq, role, created_at, tool_calls, tool_results, body, key, key_last)
		SELECT $1::text, $2::text, $3::text, $10::text,
			h.last_seq / (CASE WHEN $7::bigint <= 0 OR h.last_seq > $5::bigint THEN 1 ELSE 0 END) - $5::bigint + u.ord, u.role, u.created_at, u.tool_calls, u.tool_results, u.body,
			CASE WHEN u.ord = 1 THEN $11::text ELSE '' END, CASE WHEN $11::text = '' THEN $17::bigint - u.ord ELSE h.last_seq END
		FROM h CROSS JOIN `
	appendFrom = ` AS u(role, created_at, tool_calls, tool_results, body, ord) RETURNING seq`
	// sqlHistoryInsert inserts messages with the last sequences of the session, which sqlHistoryReserve
	// has reserved and locked. So it sees the fence and the key of every earlier append. Without an
	// idempotency key, key_last is $12 minus the number of the message in the append, see sqlHistoryAppended.
	sqlHistoryInsert = `WITH m AS (
			INSERT INTO {s}.history_messages (owner, agent, session, run, seq, role, created_at, tool_calls, tool_results, body, key, key_last)
			SELECT h.owner, h.agent, h.session, $4::text, h.last_seq - cardinality($7::text[]) + u.ord, u.role, u.created_at, u.tool_calls, u.tool_results, u.body,
				CASE WHEN u.ord = 1 THEN $6::text ELSE '' END, CASE WHEN $6::text = '' THEN $12::bigint - u.ord ELSE h.last_seq END
			FROM {s}.history_sessions h
			CROSS JOIN unnest($7::text[], $8::bigint[], $9::text[], $10::text[], $11::text[]) WITH ORDINALITY
				AS u(role, created_at, tool_calls, tool_results, body, ord)` + byKey + `
				AND NOT EXISTS (SELECT 1 FROM {s}.history_fences f WHERE f.owner = $1::text AND f.agent = $2::text AND f.session = $3::text AND f.run = $4::text AND f.fence > $5::bigint)
			RETURNING 1
		)
		SELECT 1 / (CASE WHEN count(*) = cardinality($7::text[]) THEN 1 ELSE 0 END) FROM m`
	// sqlHistoryAppended finds the first sequence of a recent append without an idempotency key, by
	// any of its $5 messages.
	sqlHistoryAppended = `SELECT seq + key_last - $4::bigint + 1 FROM {s}.history_messages` + ofSession + `
		AND key = '' AND key_last BETWEEN $4::bigint - $5::bigint AND $4::bigint - 1 ORDER BY seq DESC LIMIT 1`
	sqlHistoryRaiseFence = `WITH s AS (UPDATE {s}.history_sessions SET fenced = true` + byKey + ` AND NOT fenced)
		INSERT INTO {s}.history_fences AS f (owner, agent, session, run, fence) VALUES ($1::text, $2::text, $3::text, $4::text, $5::bigint)
		ON CONFLICT (owner, agent, session, run) DO UPDATE SET fence = excluded.fence WHERE f.fence < excluded.fence`
)

// PipelineStatements returns the statements of pipelines, like Statements.
func PipelineStatements() []sqlkit.Statement {
	return []sqlkit.Statement{
		{"history: reserve sequences in a pipeline", sqlHistoryReserve},
		{"history: append a message without a fence", sqlHistoryAppend},
		{"history: append messages without a fence", sqlHistoryAppendAll},
		{"history: insert messages in a pipeline", sqlHistoryInsert},
		{"history: sequences of an append in a pipeline", sqlHistoryAppended},
		{"history: raise the fence", sqlHistoryRaiseFence},
	}
}

const (
	// maxPipelined is the size in bytes up to which the messages of an append use a pipeline. Up to
	// maxGrouped, the append may be part of a transaction of other callers.
	maxPipelined = 8 << 20
	maxGrouped   = 64 << 10
)

// appendPipelined appends in a pipeline. It returns ErrGuard if the DB has none, or if the append
// needs a decision.
func (h *History) appendPipelined(ctx context.Context, k history.Key, p *history.AppendParams, rows [][]any) (history.AppendResult, error) {
	db, ok := h.db.(sqlkit.Pipeliner)
	if !ok {
		return history.AppendResult{}, sqlkit.ErrGuard
	}
	a := newPipelinedAppend(p, rows, h.now().UnixMilli())
	if a.size > maxPipelined {
		return history.AppendResult{}, sqlkit.ErrGuard
	}
	var last int64
	err := db.Pipeline(ctx, a.order(k), a.calls(k, p, func(r sqlkit.Row) { last = max(last, r.Int(0)) })...)
	if errors.Is(err, sqlkit.ErrAnswerLost) {
		last, err = h.appended(ctx, k, p, a.id)
	}
	if err != nil {
		return history.AppendResult{}, err
	}
	return history.AppendResult{First: last - int64(len(rows)) + 1, Last: last}, nil
}

// appended returns the last sequence of an append after the answer of its pipeline was lost.
func (h *History) appended(ctx context.Context, k history.Key, p *history.AppendParams, id int64) (last int64, err error) {
	n := int64(len(p.Messages))
	err = h.db.Read(ctx, func(q sqlkit.Querier) error {
		text, values := sqlHistoryAppended, args(k, id, n)
		if p.IdempotencyKey != "" {
			text, values = sqlHistoryKey, args(k, p.IdempotencyKey)
		}
		found, err := sqlkit.QueryOne(q, text, func(r sqlkit.Row) { last = r.Int(0) + n - 1 }, values...)
		if err == nil && !found {
			err = a2a.Wrap(a2a.CodeUnavailable, sqlkit.ErrAnswerLost, "the messages were stored and have been removed since: their sequences are unknown")
		}
		return err
	})
	return last, err
}

// pipelinedAppend has the columns of messages: roles, calls, results and bodies.
type pipelinedAppend struct {
	id        int64 // random and negative: identifies the messages of an append without an idempotency key
	now, size int64
	created   []int64
	texts     [4][]string
}

// order returns the order of the append in a transaction of other callers, "" if it is too large.
func (a *pipelinedAppend) order(k history.Key) string {
	if a.size > maxGrouped {
		return ""
	}
	return strings.Join([]string{"history", k.Owner, k.Agent, k.Session}, "\x00")
}

// calls returns the statements of the append. row receives the sequences.
func (a *pipelinedAppend) calls(k history.Key, p *history.AppendParams, row func(r sqlkit.Row)) []sqlkit.Call {
	expected := int64(-1)
	if p.Expected != nil {
		expected = *p.Expected
	}
	totals := args(k, a.now, int64(len(a.created)), a.size, expected, max(p.TTL.Milliseconds(), 0), p.TTL == 0)
	switch {
	case p.Fence > 0:
		return []sqlkit.Call{
			{Text: sqlHistoryReserve, Args: totals, Row: row},
			{Text: sqlHistoryInsert, Args: append(args(k, p.Run, p.Fence, p.IdempotencyKey), a.arrays()...)},
			{Text: sqlHistoryRaiseFence, Args: args(k, p.Run, p.Fence)},
		}
	case len(a.created) == 1:
		return []sqlkit.Call{{Text: sqlHistoryAppend, Args: append(append(totals, p.Run, p.IdempotencyKey), a.values()...), Row: row}}
	}
	return []sqlkit.Call{{Text: sqlHistoryAppendAll, Args: append(append(totals, p.Run, p.IdempotencyKey), a.arrays()...), Row: row}}
}

// arrays returns the columns and the id.
func (a *pipelinedAppend) arrays() []any {
	return []any{a.texts[0], a.created, a.texts[1], a.texts[2], a.texts[3], a.id}
}

// values returns the columns of the only message and the id.
func (a *pipelinedAppend) values() []any {
	return []any{a.texts[0][0], a.created[0], a.texts[1][0], a.texts[2][0], a.texts[3][0], a.id}
}

func newPipelinedAppend(p *history.AppendParams, rows [][]any, now int64) (a pipelinedAppend) {
	a.id, a.now = -1-rand.Int64N(1<<62), now //nolint:gosec // need not be secret
	for i, row := range rows {
		a.size += int64(len(p.Messages[i].Body))
		created, ok := row[1].(int64)
		if !ok {
			created = now
		}
		a.created = append(a.created, created)
		for column, at := range []int{0, 2, 3, 4} {
			a.texts[column] = append(a.texts[column], row[at].(string))
		}
	}
	return a
}
