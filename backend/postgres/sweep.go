package postgres

import (
	"context"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
)

// sweepBound is the time from which a sweep searches entries to remove. So the sweep does not walk the index entries
// of removed rows, which PostgreSQL keeps while a session holds a snapshot.
type sweepBound struct{ from atomic.Int64 }

// batch calls remove with a time in milliseconds. remove removes up to limit entries from this time on, the oldest
// first, and returns their number and the time of the last one. If it finds fewer, batch calls it again with the
// time 0, because entries before the time may have been added, or were locked.
func (b *sweepBound) batch(limit int, remove func(from int64, limit int) (n int, last int64, err error)) (removed int, err error) {
	for from := b.from.Load(); removed < limit; from = 0 {
		n, last, err := remove(from, limit-removed)
		if err != nil {
			return removed, err
		}
		removed += n
		if removed < limit {
			last = 0
		}
		b.from.Store(last)
		if from == 0 {
			break
		}
	}
	return removed, nil
}

// sweep removes up to limit entries that are older than a time. The statement gets this time, the limit and the
// bound, and returns the number of removed entries and the time of the last one.
func (s *database) sweep(ctx context.Context, op, text string, bound *sweepBound, before int64, limit int) (int, error) {
	return bound.batch(limit, func(from int64, limit int) (n int, last int64, err error) {
		err = s.transact(ctx, op, func(ctx context.Context, tx pgx.Tx) error {
			return s.eachRow(ctx, tx, text, func(r record) error {
				n, last = int(r.int(0)), r.int(1)
				return nil
			}, before, limit, from)
		})
		return n, last, err
	})
}
