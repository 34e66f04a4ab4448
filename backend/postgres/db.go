package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/internal/sqlrow"
	"github.com/holdfast-dev/holdfast/internal/runtime"
	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store"
)

// database runs statements on the connections of a pool. All ways to run them share its gate, its
// slots and the resolution of lost answers.
type database struct {
	cfg        Config
	location   string
	log        *slog.Logger
	pool       *pgxpool.Pool
	hosts      *hosts       // nil if the URL names one server
	callSlots  slots        // connections for client calls, lists included
	listSlots  slots        // connections for lists
	generation atomic.Int64 // number of resets of the pool; a connection stores it when it is opened
	sqlCache   sync.Map     // statements by their text without the schema name
	statements statements
	caches     sqlkit.Caches
	// markedStatements are the results of markedStatement, by the statement without a mark.
	markedStatements sync.Map
	groups           callGroups
	plans            runtime.Locks[string] // see kit.LockPlan
	clock            clock
	// vectorSchema is the schema of the extension pgvector, "" without Config.Vectors.
	vectorSchema string
	// unconfirmed is set after a commit that was not answered or not replicated, see confirm.
	unconfirmed atomic.Bool

	// gate is read-locked by each call, so that Close waits for them.
	gate   sync.RWMutex
	closed bool
}

func newDatabase(cfg Config) *database {
	s := &database{cfg: cfg, location: maskURL(cfg.URL), log: cfg.Logger, clock: clock{log: cfg.Logger}, caches: sqlkit.Caches{Bytes: cacheMemory()}}
	s.groups.db, s.groups.alone, s.groups.together = s, s.groups.runAlone, s.groups.runTogether
	return s
}

// qualify returns a statement with {s} and {v} replaced by the names of the schemas of the store and
// of pgvector, the names of phases by their numbers, and {era} by the era of the queues.
func (s *database) qualify(text string) string {
	if done, ok := s.sqlCache.Load(text); ok {
		return done.(string)
	}
	done := s.replacer().Replace(text)
	s.sqlCache.Store(text, done)
	return done
}

func (s *database) replacer() *strings.Replacer {
	schema := pgx.Identifier{s.cfg.Schema}.Sanitize()
	return strings.NewReplacer(append([]string{
		"{s}", schema, "{v}", pgx.Identifier{s.vectorSchema}.Sanitize(), "{era}", "(SELECT era FROM " + schema + ".queue_era WHERE pk = 1)",
	}, sqlrow.PhaseNames...)...)
}

// acquire returns a connection of the pool. It waits up to Config.Timeout for one.
func (s *database) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	return s.pool.Acquire(ctx)
}

// slots limits the number of connections that calls of a kind use at the same time.
type slots chan struct{}

// acquire waits up to timeout for a slot. The caller must release it.
func (s slots) acquire(ctx context.Context, timeout time.Duration) error {
	select {
	case s <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return a2a.Errorf(a2a.CodeExhausted, "all %d connections for this kind of call are in use (--postgres-pool-max); retry later", cap(s))
	}
}

func (s slots) release() { <-s }

// withCallSlot runs f while it has a slot for client calls.
func (s *database) withCallSlot(ctx context.Context, f func() error) error {
	if err := s.callSlots.acquire(ctx, s.cfg.Timeout); err != nil {
		return err
	}
	defer s.callSlots.release()
	return f()
}

// generationKey is the key of database.generation in the data of a connection.
const generationKey = "holdfast.generation"

// release returns a connection to the pool. It closes all connections if the server was read-only, because another
// server may be the primary now. It also does so if the session was lost: the other sessions probably were too, and
// each would fail one attempt. If the pool was reset after the connection was opened, it has been done.
func (s *database) release(c *pgxpool.Conn, err error) {
	if sqlState(err) == stateReadOnly || sessionLost(err) {
		g, _ := c.Conn().PgConn().CustomData()[generationKey].(int64)
		if s.generation.CompareAndSwap(g, g+1) {
			s.pool.Reset()
		}
	}
	c.Release()
}

// enter starts a call. Unless it fails, the caller must call leave.
func (s *database) enter(ctx context.Context) error {
	s.gate.RLock()
	if s.closed {
		s.gate.RUnlock()
		return store.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		s.gate.RUnlock()
		return err
	}
	return nil
}

func (s *database) leave() { s.gate.RUnlock() }

// querier is a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// eachRow runs a statement and calls f for each row, which is valid during the call.
func (s *database) eachRow(ctx context.Context, on querier, text string, f func(r record) error, args ...any) error {
	if s.cfg.Pooler {
		_, err := s.execUnprepared(ctx, on, text, f, args)
		return err
	}
	// Results in binary format.
	rows, err := on.Query(ctx, s.qualify(text), append([]any{pgx.QueryResultFormats{pgx.BinaryFormatCode}}, args...)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(record(rows.RawValues())); err != nil {
			return err
		}
	}
	return rows.Err()
}

// exec runs a statement and returns the number of rows that it changed.
func (s *database) exec(ctx context.Context, on querier, text string, args ...any) (int, error) {
	if s.cfg.Pooler {
		return s.execUnprepared(ctx, on, text, func(record) error { return nil }, args)
	}
	rows, err := on.Query(ctx, s.qualify(text), args...)
	if err != nil {
		return 0, err
	}
	rows.Close()
	return int(rows.CommandTag().RowsAffected()), rows.Err()
}

// execUnprepared runs a statement in one round trip that creates no state in the session.
func (s *database) execUnprepared(ctx context.Context, on querier, text string, f func(r record) error, args []any) (int, error) {
	var conn *pgx.Conn
	switch on := on.(type) {
	case *pgx.Conn:
		conn = on
	case pgx.Tx:
		conn = on.Conn()
	}
	params := make([][]byte, len(args))
	for i, arg := range args {
		params[i] = param(arg)
	}
	r := conn.PgConn().ExecParams(ctx, s.qualify(text), params, nil, binary1, binary1)
	var failure error
	for failure == nil && r.NextRow() {
		failure = f(record(r.Values()))
	}
	tag, err := r.Close()
	if failure != nil {
		return 0, failure
	}
	return int(tag.RowsAffected()), err
}

// exists reports whether a query returns any row.
func (s *database) exists(ctx context.Context, on querier, text string, args ...any) (found bool, err error) {
	err = s.eachRow(ctx, on, text, func(record) error {
		found = true
		return nil
	}, args...)
	return found, err
}

// eachRowPlanned is eachRow. With custom, the statement is planned for its arguments.
func (s *database) eachRowPlanned(ctx context.Context, c *pgx.Conn, custom bool, text string, f func(r record) error, args ...any) error {
	if !custom {
		return s.eachRow(ctx, c, text, f, args...)
	}
	tx, err := c.BeginTx(ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly})
	if err != nil {
		return err
	}
	defer func() { _ = rollback(ctx, tx) }()
	if _, err := s.exec(ctx, tx, sqlForceCustomPlan); err != nil {
		return err
	}
	if !s.cfg.Pooler { // a prepared statement would keep its plan
		args = append([]any{pgx.QueryExecModeCacheDescribe}, args...)
	}
	return s.eachRow(ctx, tx, text, f, args...)
}

// readCall is read for client calls. They leave connections to commits, claims and renewals.
func (s *database) readCall(ctx context.Context, op string, f func(ctx context.Context, c *pgx.Conn) error) error {
	return s.withCallSlot(ctx, func() error { return s.read(ctx, op, f) })
}

// readList is readCall for lists. They may take long and leave connections to other calls.
func (s *database) readList(ctx context.Context, op string, f func(ctx context.Context, c *pgx.Conn) error) error {
	if err := s.listSlots.acquire(ctx, s.cfg.Timeout); err != nil {
		return err
	}
	defer s.listSlots.release()
	return s.readCall(ctx, op, f)
}

// read runs f, which must not change data, on a connection of the pool. It retries transient
// failures.
func (s *database) read(ctx context.Context, op string, f func(ctx context.Context, c *pgx.Conn) error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	return s.retry(ctx, op, f)
}

// retry is read for callers that have entered the gate. f may make idempotent changes.
func (s *database) retry(ctx context.Context, op string, f func(ctx context.Context, c *pgx.Conn) error) error {
	for try := 0; ; try++ {
		err := s.runOnce(ctx, f)
		if err == nil || isResult(err) {
			return err
		}
		if try >= s.cfg.MaxRetries || !transient(err) || !s.backoff(ctx, try, err) {
			return wrapError(ctx, err, op)
		}
	}
}

// runOnce runs f on a connection of the pool with the command timeout.
func (s *database) runOnce(ctx context.Context, f func(ctx context.Context, c *pgx.Conn) error) error {
	return s.withConn(ctx, func(c *pgx.Conn) error {
		ctx, cancel := context.WithTimeout(ctx, s.cfg.CommandTimeout)
		defer cancel()
		return f(ctx, c)
	})
}

// withConn runs f on a connection of the pool. It fails if f succeeds but a commit of f was
// not replicated. All commits are checked here, except the commits of resolveMark.
func (s *database) withConn(ctx context.Context, f func(c *pgx.Conn) error) (err error) {
	c, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer func() { s.release(c, err) }()
	err = f(c.Conn())
	if e := replicated(c.Conn()); err == nil {
		err = e
	}
	if err != nil && unanswered(err) {
		s.unconfirmed.Store(true)
	}
	return err
}

// conflictDelay is the first pause after a conflict with another command.
const conflictDelay = 5 * time.Millisecond

// backoff waits before a retry. It returns false if ctx ended.
func (s *database) backoff(ctx context.Context, try int, cause error) bool {
	delay := s.cfg.RetryDelay << min(try, 10)
	if isConflict(cause) {
		delay = min(delay, conflictDelay<<min(try, 10))
	}
	delay = delay/2 + rand.N(delay/2+1) //nolint:gosec // jitter
	s.log.Debug("retrying command", "error", cause, "delay", delay)
	return runtime.Sleep(ctx, delay) == nil
}

// transact runs f in a transaction and commits it unless f fails. It retries transient
// failures, so f may run several times; the results of the last run count.
func (s *database) transact(ctx context.Context, op string, f func(ctx context.Context, tx pgx.Tx) error) error {
	return s.commitMarked(ctx, op, func(ctx context.Context, c *pgx.Conn, mark int64) error {
		tx, err := c.BeginTx(ctx, s.cfg.txOptions())
		if err != nil {
			return err
		}
		defer func() {
			if c.PgConn().TxStatus() != txIdle {
				_ = rollback(ctx, tx)
			}
		}()
		if err := f(ctx, tx); err != nil {
			return err
		}
		return s.commit(ctx, c.PgConn(), mark)
	})
}

// commitMarked runs attempt, which commits one transaction that inserts the mark. If the answer
// is lost, commitMarked resolves the outcome. It retries transient failures and failed guards.
func (s *database) commitMarked(ctx context.Context, op string, attempt func(ctx context.Context, c *pgx.Conn, mark int64) error) error {
	err := s.withCallSlot(ctx, func() error {
		if err := s.enter(ctx); err != nil {
			return err
		}
		defer s.leave()
		return s.commitEntered(ctx, op, attempt)
	})
	if errors.Is(err, errAnswerLost) {
		return nil
	}
	return err
}

// errAnswerLost means that a transaction was committed, but the rows of its answer are incomplete.
var errAnswerLost = errors.New("the transaction was committed, but its answer was lost")

// commitEntered is commitMarked for callers that have entered the gate and have a slot. It returns
// errAnswerLost if the transaction of a lost answer was committed.
func (s *database) commitEntered(ctx context.Context, op string, attempt func(ctx context.Context, c *pgx.Conn, mark int64) error) error {
	for try := 0; ; try++ {
		mark := s.newMark()
		err := s.runOnce(ctx, func(ctx context.Context, c *pgx.Conn) error { return attempt(ctx, c, mark) })
		if indeterminate(err) {
			committed, e := s.resolveOutcome(mark, err)
			if e != nil {
				return e
			}
			if committed {
				return errAnswerLost
			}
		}
		if err == nil || isResult(err) {
			return err
		}
		if try >= s.cfg.MaxRetries || !transient(err) && !guardFailed(err) || !s.backoff(ctx, try, err) {
			return wrapError(ctx, err, op)
		}
	}
}

// txOptions returns the options of a transaction. Behind a pooler, which has no session
// settings, it sets the lock timeout.
func (c *Config) txOptions() (o pgx.TxOptions) {
	if c.Pooler {
		o.BeginQuery = fmt.Sprintf("BEGIN; SET LOCAL lock_timeout = %d", c.lockTimeout().Milliseconds())
	}
	return o
}

// rollbackTimeout is the maximum time of a rollback. If the rollback fails, its connection is closed.
const rollbackTimeout = 3 * time.Second

// rollback ends a transaction, also if ctx was canceled.
func rollback(ctx context.Context, tx pgx.Tx) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	return tx.Rollback(ctx)
}

// commitError is a failure after COMMIT was sent.
type commitError struct{ error }

func (e commitError) Unwrap() error { return e.error }
