package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/a2a"
)

// A mark is a row that a transaction adds with all else it does. When the answer to
// a commit is lost, settle adds the same row: if it is there, the transaction was
// committed; if it was not, then now it never can be, even if the server has yet
// to read it from a connection that only this end has given up.

// markLife is how old a mark may be when it is added; sweepAge is when it may be
// removed.
const (
	markLife = 5 * time.Minute
	sweepAge = 2 * markLife
)

const (
	markChance = 22

	// The division fails for a mark that is too old.
	sqlMark = `INSERT INTO {s}.commit_marks (id, made) SELECT $1::bigint /
		(CASE WHEN $1::bigint >> 22 > extract(epoch FROM clock_timestamp()) * 1000 - 300000 THEN 1 ELSE 0 END), true`
	// A mark that exists is updated: only a write waits for the standbys, and so confirms
	// that they have the transaction of the mark.
	sqlRuleOut = `INSERT INTO {s}.commit_marks AS m (id, made) VALUES ($1::bigint, false)
		ON CONFLICT (id) DO UPDATE SET made = m.made RETURNING m.made`
	sqlSweep = `DELETE FROM {s}.commit_marks WHERE id < $1::bigint`
)

func (s *Store) newMark() int64 {
	return s.Now().UnixMilli()<<markChance | rand.Int64N(1<<markChance) //nolint:gosec // chance, not secrecy
}

// settle finds out whether the transaction of a mark was committed and replicated, and
// ensures that it never will be if it was not. cause is the failure that left it open.
// settle ignores the end of the caller's context and tries for up to CommandTimeout. Its
// error says that the outcome is unknown.
func (s *Store) settle(mark int64, cause error) (made bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.CommandTimeout)
	defer cancel()
	for try := 0; ; try++ {
		err = s.once(ctx, func(ctx context.Context, c *pgx.Conn) (err error) {
			made, err = s.ruleOut(ctx, c, mark)
			return err
		})
		if err == nil || !passing(err) || !s.pause(ctx, min(try, 2), err) {
			break
		}
	}
	s.log.Warn("outcome of a commit was looked up", "because", cause, "made", made && err == nil, "error", err)
	if err == nil {
		return made, nil
	}
	text := "the database does not answer: the change may have been stored or not"
	if errors.Is(err, errUnreplicated) {
		text = unreplicatedText
	}
	return false, a2a.Wrap(a2a.CodeUnavailable, errors.Join(errOpen, cause, err), "%s", text)
}

// ruleOut makes the transaction of a mark impossible, unless it was committed: then it
// is replicated when ruleOut returns.
func (s *Store) ruleOut(ctx context.Context, c *pgx.Conn, mark int64) (made bool, err error) {
	err = s.each(ctx, c, sqlRuleOut, func(r record) error {
		made = r.bool(0)
		return nil
	}, mark)
	if err == nil {
		err = replicated(c)
	}
	return made, err
}
