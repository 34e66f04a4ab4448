package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-dev/holdfast/internal/sqlkit"
)

var (
	stmtBegin  = newStatement("holdfast_begin", "", "BEGIN")
	stmtCommit = newStatement("holdfast_commit", "", "COMMIT")
)

// txIdle is the status of a connection without a transaction.
const txIdle = 'I'

// Write implements sqlkit.DB. It retries transient failures. BEGIN is sent with the first
// statement, and COMMIT with the mark.
func (k *kit) Write(ctx context.Context, f func(tx sqlkit.Tx) error) error {
	var result error
	err := k.commitMarked(ctx, "write", func(ctx context.Context, c *pgx.Conn, mark int64) error {
		t := &kitWrite{ctx: ctx, kit: k, conn: c.PgConn()}
		defer func() { rollbackOpen(ctx, t.conn) }()
		result = f(t)
		if err := kitOutcome(t.failure, result); err != nil || !t.started {
			return err
		}
		return k.commit(ctx, t.conn, mark)
	})
	if errors.Is(err, errKitRejected) {
		return result
	}
	return err
}

// kitWrite runs the statements of a transaction, and keeps the first failure.
type kitWrite struct {
	ctx     context.Context // the context of the call that runs f
	kit     *kit
	conn    *pgconn.PgConn
	started bool
	failure error
}

// In implements sqlkit.EffectTx.
func (t *kitWrite) In(db sqlkit.DB) bool {
	return t.kit.in(db)
}

// Query implements sqlkit.Querier.
func (t *kitWrite) Query(text string, each func(r sqlkit.Row) error, args ...any) error {
	var result error
	k := t.kit.statements.call(text, args...)
	k.row = func(r record) {
		if result == nil {
			result = each(kitRow(r))
		}
	}
	err := t.run(k)
	if err == nil {
		err = result
	}
	return err
}

// Exec implements sqlkit.Tx.
func (t *kitWrite) Exec(text string, args ...any) (int64, error) {
	k := t.kit.statements.call(text, args...)
	err := t.run(k)
	return k.changed, err
}

func (t *kitWrite) run(k *call) error {
	calls := []*call{k}
	if !t.started {
		t.started = true
		calls = append([]*call{newCall(stmtBegin)}, append(t.kit.cfg.lockTimeoutCalls(), k)...)
	}
	err := t.kit.exchange(t.ctx, t.conn, false, calls...)
	if t.failure == nil {
		t.failure = err
	}
	return err
}

// rollbackOpen ends the transaction of a connection, if it was not committed.
func rollbackOpen(ctx context.Context, conn *pgconn.PgConn) {
	if conn.IsClosed() || conn.TxStatus() == txIdle {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	if _, err := conn.Exec(ctx, "ROLLBACK").ReadAll(); err != nil {
		_ = conn.Close(ctx)
	}
}

// Pipeline implements sqlkit.Pipeliner.
func (k *kit) Pipeline(ctx context.Context, order string, of ...sqlkit.Call) error {
	err := k.groups.commit(ctx, &callRequest{op: "write", order: order, calls: k.calls(of)})
	switch {
	case errors.Is(err, errKitRejected):
		return sqlkit.ErrGuard
	case errors.Is(err, errAnswerLost):
		return sqlkit.ErrAnswerLost
	}
	return err
}

// LockPlan implements sqlkit.Pipeliner.
func (k *kit) LockPlan(ctx context.Context, rows string) (unlock func(), err error) {
	return k.plans.Lock(ctx, rows)
}

// commit adds a mark to the transaction of a connection and commits it, in one round trip.
func (s *database) commit(ctx context.Context, conn *pgconn.PgConn, mark int64) error {
	return s.exchange(ctx, conn, true, markCall(mark), newCall(stmtCommit))
}

func markCall(mark int64) *call {
	k := newCall(stmtMark)
	k.scalars = append(k.scalars, mark)
	return k
}

// lockTimeoutCalls returns the call that sets the lock timeout of a transaction behind a pooler,
// which has no session settings.
func (c *Config) lockTimeoutCalls() []*call {
	if !c.Pooler {
		return nil
	}
	return []*call{lockTimeoutCall(c.lockTimeout())}
}

// groupLockTimeoutCall returns the call that sets the lock timeout of a transaction of several requests.
func (c *Config) groupLockTimeoutCall() *call {
	return lockTimeoutCall(min(shortLockTimeout, c.lockTimeout()))
}

func lockTimeoutCall(d time.Duration) *call {
	k := newCall(stmtLockTimeout)
	k.scalars = append(k.scalars, max(1, d.Milliseconds()))
	return k
}
