package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/a2a"
)

// A mark is a row that each transaction inserts. When the answer to a commit is lost,
// resolveOutcome inserts the same row. If the row exists, the transaction was committed. If
// not, the inserted row prevents the commit, even if the server has yet to read the
// transaction from a connection that this side has closed.

// maxMarkAge is the maximum age of a mark when it is inserted. deleteMarksAfter is the age at
// which it is deleted.
const (
	maxMarkAge       = 5 * time.Minute
	deleteMarksAfter = 2 * maxMarkAge
)

const (
	markRandomBits = 22

	// The division fails for a mark older than maxMarkAge.
	sqlMark = `INSERT INTO {s}.commit_marks (id, committed) VALUES (@mark /
		(CASE WHEN @mark >> 22 > extract(epoch FROM clock_timestamp()) * 1000 - 300000 THEN 1 ELSE 0 END), true)`
	// An existing mark is updated: a write waits for the standbys, and so confirms that they
	// have the transaction of the mark.
	sqlResolveMark = `INSERT INTO {s}.commit_marks AS m (id, committed) VALUES ($1::bigint, false)
		ON CONFLICT (id) DO UPDATE SET committed = m.committed RETURNING m.committed`
	sqlDeleteOldMarks = `DELETE FROM {s}.commit_marks WHERE id < $1::bigint`
)

var stmtMark = newStatement("holdfast_mark", "mark", sqlMark)

// marked returns the calls of a transaction, extended to insert its mark. If the only call starts
// with WITH, its own statement inserts the mark, after everything else.
func (s *database) marked(calls []*call, mark int64) []*call {
	if len(calls) > 1 || !strings.HasPrefix(calls[0].text, "WITH ") {
		return append(slices.Clone(calls), markCall(mark))
	}
	k := *calls[0]
	k.statement, k.args = s.markedStatement(k.statement, len(k.args)+1), append(slices.Clone(k.args), mark)
	return []*call{&k}
}

// markedStatement returns a statement that also inserts a mark, its parameter n.
func (s *database) markedStatement(st *statement, n int) *statement {
	if st, ok := s.markedStatements.Load(st); ok {
		return st.(*statement)
	}
	insert := strings.ReplaceAll(sqlMark, "@mark", fmt.Sprintf("$%d::bigint", n))
	text := "WITH mark AS (" + insert + "), " + strings.TrimPrefix(st.text, "WITH ")
	marked, _ := s.markedStatements.LoadOrStore(st, &statement{name: st.name + "_mark", text: text})
	return marked.(*statement)
}

func (s *database) newMark() int64 {
	return s.Now().UnixMilli()<<markRandomBits | rand.Int64N(1<<markRandomBits) //nolint:gosec // need not be secret
}

// resolveOutcome returns whether the transaction of a mark was committed and replicated. If not,
// it will never be committed. cause is the failure that made the outcome indeterminate.
// resolveOutcome ignores cancellation of the caller and retries for up to CommandTimeout. An
// error means that the outcome is still unknown.
func (s *database) resolveOutcome(mark int64, cause error) (committed bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.CommandTimeout)
	defer cancel()
	for try := 0; ; try++ {
		err = s.runOnce(ctx, func(ctx context.Context, c *pgx.Conn) (err error) {
			committed, err = s.resolveMark(ctx, c, mark)
			return err
		})
		if err == nil || !transient(err) || !s.backoff(ctx, min(try, 2), err) {
			break
		}
	}
	s.log.Warn("checked the outcome of a commit", "cause", cause, "committed", committed && err == nil, "error", err)
	if err == nil {
		return committed, nil
	}
	text := "the database does not respond: the change may or may not have been stored"
	if errors.Is(err, errUnreplicated) {
		text = unreplicatedText
	}
	return false, a2a.Wrap(a2a.CodeUnavailable, errors.Join(errIndeterminate, cause, err), "%s", text)
}

// resolveMark returns whether the transaction of a mark was committed, and prevents it from
// being committed otherwise. A committed transaction is replicated when resolveMark returns.
func (s *database) resolveMark(ctx context.Context, c *pgx.Conn, mark int64) (committed bool, err error) {
	err = s.eachRow(ctx, c, sqlResolveMark, func(r record) error {
		committed = r.bool(0)
		return nil
	}, mark)
	if err == nil {
		err = replicated(c)
	}
	return committed, err
}
