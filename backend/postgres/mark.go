package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
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
	sqlRuleOut = `INSERT INTO {s}.commit_marks (id, made) VALUES ($1::bigint, false) ON CONFLICT DO NOTHING`
	sqlMade    = `SELECT made FROM {s}.commit_marks WHERE id = $1::bigint`
	sqlSweep   = `DELETE FROM {s}.commit_marks WHERE id < $1::bigint`
)

func (s *Store) newMark() int64 {
	return s.Now().UnixMilli()<<markChance | rand.Int64N(1<<markChance) //nolint:gosec // chance, not secrecy
}

// settle finds out whether the transaction of a mark was committed, and sees to it
// that it will not be if it was not. It goes on when the caller has given up, and
// tries for as long as a command may take.
func (s *Store) settle(mark int64) (made bool, err error) {
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
	s.log.Warn("answer of a commit was lost", "made", made, "error", err)
	return made, err
}

// ruleOut makes the transaction of a mark impossible, unless it was committed.
func (s *Store) ruleOut(ctx context.Context, c *pgx.Conn, mark int64) (made bool, err error) {
	if _, err := s.exec(ctx, c, sqlRuleOut, mark); err != nil {
		return false, err
	}
	found := false
	err = s.each(ctx, c, sqlMade, func(r record) error {
		found, made = true, r.bool(0)
		return nil
	}, mark)
	if err == nil && !found {
		err = errors.New("mark of a commit is gone")
	}
	return made, err
}
