package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// q returns a statement with the name of the schema in its places.
func (s *Store) q(text string) string {
	if done, ok := s.texts.Load(text); ok {
		return done.(string)
	}
	done := strings.ReplaceAll(text, "{s}", pgx.Identifier{s.cfg.Schema}.Sanitize())
	s.texts.Store(text, done)
	return done
}

// acquire takes a connection of the pool.
func (s *Store) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	return s.pool.Acquire(ctx)
}

// slots bound the connections that calls of a kind use at the same time.
type slots chan struct{}

// take waits for a slot, which give returns.
func (s slots) take(ctx context.Context, timeout time.Duration) error {
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
		return a2a.Errorf(a2a.CodeExhausted, "all %d connections for this are in use (--postgres-pool-max); try again", cap(s))
	}
}

func (s slots) give() { <-s }

// resets is how long the connections of a pool are kept at least that was emptied,
// so that many that end at once do not take the new ones with them.
const resets = 200 * time.Millisecond

// release gives a connection back. Of a read-only server none is kept: there may be
// one by now that can be written to. Nor is any beside one that was ended from
// without: they have likely ended too, and each would cost a try.
func (s *Store) release(ctx context.Context, c *pgxpool.Conn, err error) {
	switch sqlState(err) {
	case stateReadOnly:
		_ = c.Conn().Close(ctx)
		s.pool.Reset()
	case stateEnded, stateCrashed:
		now := time.Now().UnixNano()
		if last := s.reset.Load(); now-last > int64(resets) && s.reset.CompareAndSwap(last, now) {
			s.pool.Reset()
		}
	}
	c.Release()
}

// enter begins a call; unless it fails, leave ends it.
func (s *Store) enter(ctx context.Context) error {
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

func (s *Store) leave() { s.gate.RUnlock() }

// querier runs statements: a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// each runs a statement and calls f for every row, which is valid during the call.
func (s *Store) each(ctx context.Context, on querier, text string, f func(r record) error, args ...any) error {
	if s.cfg.Pooler {
		_, err := s.unprepared(ctx, on, text, f, args)
		return err
	}
	// All columns in the binary form.
	rows, err := on.Query(ctx, s.q(text), append([]any{pgx.QueryResultFormats{pgx.BinaryFormatCode}}, args...)...)
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

// exec runs a statement and returns how many rows it changed.
func (s *Store) exec(ctx context.Context, on querier, text string, args ...any) (int, error) {
	if s.cfg.Pooler {
		return s.unprepared(ctx, on, text, func(record) error { return nil }, args)
	}
	rows, err := on.Query(ctx, s.q(text), args...)
	if err != nil {
		return 0, err
	}
	rows.Close()
	return int(rows.CommandTag().RowsAffected()), rows.Err()
}

// unprepared runs a statement in one round trip that leaves nothing behind in the
// session.
func (s *Store) unprepared(ctx context.Context, on querier, text string, f func(r record) error, args []any) (int, error) {
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
	r := conn.PgConn().ExecParams(ctx, s.q(text), params, nil, binary1, binary1)
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

// readCall is read for calls of clients, which leave connections for what must not wait.
func (s *Store) readCall(ctx context.Context, doing string, f func(ctx context.Context, c *pgx.Conn) error) error {
	if err := s.calls.take(ctx, s.cfg.Timeout); err != nil {
		return err
	}
	defer s.calls.give()
	return s.read(ctx, doing, f)
}

// readList is readCall for lists, which may take long: they leave connections for the
// other calls.
func (s *Store) readList(ctx context.Context, doing string, f func(ctx context.Context, c *pgx.Conn) error) error {
	if err := s.lists.take(ctx, s.cfg.Timeout); err != nil {
		return err
	}
	defer s.lists.give()
	return s.readCall(ctx, doing, f)
}

// read runs f, which changes nothing, on a connection of the pool, and again after
// failures that pass.
func (s *Store) read(ctx context.Context, doing string, f func(ctx context.Context, c *pgx.Conn) error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	return s.repeat(ctx, doing, f)
}

// repeat is read for callers that are inside the gate. f may also make changes that
// do the same when they are made twice.
func (s *Store) repeat(ctx context.Context, doing string, f func(ctx context.Context, c *pgx.Conn) error) error {
	for try := 0; ; try++ {
		err := s.once(ctx, f)
		if err == nil || refusal(err) {
			return err
		}
		if try >= s.cfg.MaxRetries || !passing(err) || !s.pause(ctx, try, err) {
			return failed(ctx, err, doing)
		}
	}
}

func (s *Store) once(ctx context.Context, f func(ctx context.Context, c *pgx.Conn) error) error {
	return s.with(ctx, func(c *pgx.Conn) error {
		ctx, cancel := context.WithTimeout(ctx, s.cfg.CommandTimeout)
		defer cancel()
		return f(ctx, c)
	})
}

// with runs f on a connection of the pool. It fails if f succeeds but a commit of it was
// not replicated: this is the one place where commits outside of ruleOut are checked.
func (s *Store) with(ctx context.Context, f func(c *pgx.Conn) error) (err error) {
	c, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer func() { s.release(ctx, c, err) }()
	err = f(c.Conn())
	if e := replicated(c.Conn()); err == nil {
		err = e
	}
	if err != nil && unanswered(err) {
		s.unconfirmed.Store(true)
	}
	return err
}

// conflictDelay is the first wait after a conflict with other commands.
const conflictDelay = 5 * time.Millisecond

// pause waits before a command is tried again; it reports whether it may be.
func (s *Store) pause(ctx context.Context, try int, cause error) bool {
	delay := s.cfg.RetryDelay << min(try, 10)
	if conflicting(cause) {
		delay = min(delay, conflictDelay<<min(try, 10))
	}
	delay = delay/2 + rand.N(delay/2+1) //nolint:gosec // chance, not secrecy
	s.log.Debug("command is tried again", "error", cause, "delay", delay)
	return wait(ctx, delay)
}

// wait waits; it reports whether ctx lasted.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// transact runs f in a transaction that is committed unless f fails, and again
// after failures that pass. A lost answer is found out: the transaction leaves a
// mark. So f may run several times, of which the last one counts.
func (s *Store) transact(ctx context.Context, doing string, f func(ctx context.Context, tx pgx.Tx) error) error {
	if err := s.calls.take(ctx, s.cfg.Timeout); err != nil {
		return err
	}
	defer s.calls.give()
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	for try := 0; ; try++ {
		mark := s.newMark()
		err := s.once(ctx, func(ctx context.Context, c *pgx.Conn) error {
			tx, err := c.BeginTx(ctx, s.begin())
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
			if err := f(ctx, tx); err != nil {
				return err
			}
			if _, err := s.exec(ctx, tx, sqlMark, mark); err != nil {
				return err
			}
			if err := tx.Commit(ctx); err != nil {
				return commitError{err}
			}
			return nil
		})
		if unsure(err) {
			made, e := s.settle(mark, err)
			if e != nil {
				return e
			}
			if made {
				return nil
			}
		}
		if err == nil || refusal(err) {
			return err
		}
		if try >= s.cfg.MaxRetries || !passing(err) && !raised(err) || !s.pause(ctx, try, err) {
			return failed(ctx, err, doing)
		}
	}
}

// begin says how transactions begin: where there is no session to say it, they say
// themselves how long they wait for locks.
func (s *Store) begin() (o pgx.TxOptions) {
	if s.cfg.Pooler {
		o.BeginQuery = fmt.Sprintf("BEGIN; SET LOCAL lock_timeout = %d", s.cfg.lockTimeout().Milliseconds())
	}
	return o
}

// commitError is a failure after the end of a transaction was sent.
type commitError struct{ error }

func (e commitError) Unwrap() error { return e.error }
