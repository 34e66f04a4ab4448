package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// pipeline runs calls in one round trip and one transaction. The Sync message at the end
// commits it.
func (s *database) pipeline(ctx context.Context, calls []*call) error {
	return s.withConn(ctx, func(c *pgx.Conn) error { return s.exchange(ctx, c.PgConn(), true, calls...) })
}

// exchange prepares the statements of calls and runs the calls in one round trip. With commits, the
// calls commit a transaction, so that their failure is a commitError.
func (s *database) exchange(ctx context.Context, conn *pgconn.PgConn, commits bool, calls ...*call) error {
	if err := s.prepare(ctx, conn, calls); err != nil {
		return err
	}
	err := s.run(ctx, conn, calls)
	if err != nil && commits {
		err = commitError{err}
	}
	return err
}

const preparedKey = "holdfast.prepared"

// prepare prepares the statements that the connection does not have. Behind a pooler, no statement
// is prepared.
func (s *database) prepare(ctx context.Context, conn *pgconn.PgConn, calls []*call) error {
	if s.cfg.Pooler {
		return nil
	}
	known, ok := conn.CustomData()[preparedKey].(map[*statement]bool)
	if !ok {
		known = make(map[*statement]bool)
		conn.CustomData()[preparedKey] = known
	}
	for _, k := range calls {
		if k.planned || known[k.statement] {
			continue
		}
		if _, err := conn.Prepare(ctx, k.name, s.qualify(k.text), nil); err != nil {
			return fmt.Errorf("prepare %s: %w", k.name, err)
		}
		known[k.statement] = true
	}
	return nil
}

var binary1 = []int16{1}

// run runs prepared calls in one round trip.
func (s *database) run(ctx context.Context, conn *pgconn.PgConn, calls []*call) (err error) {
	p := conn.StartPipeline(ctx)
	defer func() {
		if e := p.Close(); err == nil {
			err = e
		}
		if state := sqlState(err); state == stateStalePlan || state == stateUnknownStatement {
			_ = conn.Close(ctx) // its prepared statements are invalid
		}
	}()
	for _, k := range calls {
		switch {
		case k.planned:
			p.SendQueryParams(s.replacer().Replace(k.text), k.params(), nil, binary1, binary1)
		case s.cfg.Pooler:
			p.SendQueryParams(s.qualify(k.text), k.params(), nil, binary1, binary1)
		default:
			p.SendQueryPrepared(k.name, k.params(), binary1, binary1)
		}
	}
	if err := p.Sync(); err != nil {
		return err
	}
	next := 0
	failed := func(i int, e error) error {
		if err == nil && i < len(calls) {
			e = &callError{calls[i], e}
		}
		return errors.Join(err, e)
	}
	for {
		results, e := p.GetResults()
		if e != nil {
			err = failed(next, e)
			if sqlState(e) == "" {
				return err // the connection is lost
			}
			continue
		}
		switch r := results.(type) {
		case *pgconn.ResultReader:
			k := calls[next]
			next++
			for r.NextRow() {
				k.result(record(r.Values()))
			}
			tag, e := r.Close()
			if k.changed = tag.RowsAffected(); e != nil {
				if err = failed(next-1, e); sqlState(e) == "" {
					return err
				}
			}
		case *pgconn.PipelineSync:
			return err
		default:
			return errors.Join(err, errConnectionLost)
		}
	}
}

// statements are prepared statements by their text.
type statements struct{ byText sync.Map }

// of returns the statement of a text.
func (s *statements) of(text string) *statement {
	if st, ok := s.byText.Load(text); ok {
		return st.(*statement)
	}
	sum := sha256.Sum256([]byte(text))
	st, _ := s.byText.LoadOrStore(text, &statement{name: "holdfast_" + hex.EncodeToString(sum[:8]), text: text})
	return st.(*statement)
}

// call returns the call of a text with arguments.
func (s *statements) call(text string, args ...any) *call {
	return &call{statement: s.of(text), args: args}
}

// callError is the error of the call that failed first.
type callError struct {
	call *call
	err  error
}

func (e *callError) Error() string { return e.call.name + ": " + e.err.Error() }

func (e *callError) Unwrap() error { return e.err }

// result processes a row of a call's result.
func (k *call) result(r record) {
	if k.row != nil {
		k.row(r)
	}
	if k.statement != stmtUpdate {
		return
	}
	if ord := r.int(0); ord > 0 {
		ch := k.changes[ord-1]
		ch.applied, ch.result.Seq, ch.movedLanes = true, r.int(1), r.int(2) > 0
	}
}

// pipelined is pipeline with the command timeout.
func (s *database) pipelined(ctx context.Context, calls []*call) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CommandTimeout)
	defer cancel()
	err := s.pipeline(ctx, calls)
	if sqlState(err) == stateQueryCanceled && ctx.Err() == nil {
		err = strayCancel{err}
	}
	return err
}

// pkSource assigns task numbers. It takes a block from the time and random bits, so that the
// numbers of an owner do not repeat, whatever state the database was restored to.
type pkSource struct {
	now       func() time.Time
	mu        sync.Mutex
	free, end int64
}

const (
	// pkBlock is the number of task numbers in a block. blocksPerSecond is the number of blocks
	// that start with the same second.
	pkBlock         = 1 << 10
	blocksPerSecond = 1 << 20
)

func (p *pkSource) next() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free == p.end {
		p.free = (p.now().Unix()*blocksPerSecond + rand.Int64N(blocksPerSecond)) * pkBlock //nolint:gosec // need not be secret
		p.end = p.free + pkBlock
	}
	n := p.free
	p.free++
	return n
}

// reassign discards the numbers of new tasks if err reports that the owner of one already uses
// it: two processes have the same block.
func (p *pkSource) reassign(err error, accepted []*change) {
	var e *pgconn.PgError
	if !errors.As(err, &e) || e.Code != stateUniqueViolation || !strings.HasPrefix(e.ConstraintName, "task_log_") { // each partition has its own constraint name
		return
	}
	p.mu.Lock()
	p.free, p.end = 0, 0
	p.mu.Unlock()
	for _, ch := range accepted {
		if ch.Create != nil {
			ch.pk = 0
		}
	}
}
