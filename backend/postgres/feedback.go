package postgres

import (
	"github.com/holdfast-dev/holdfast/backend/internal/sqltask"
	"github.com/holdfast-dev/holdfast/internal/sqlkit"
)

// The kind of the counter of a rating is "rating 5".
const (
	sqlAddRating = `INSERT INTO {s}.counters (owner, kind, n) SELECT owner, 'rating ' || $2::bigint, 1 FROM (VALUES ($1::text), ('')) AS u(owner)`
	sqlRatings   = `SELECT right(kind, 1)::bigint, sum(n)::bigint FROM {s}.counters
		WHERE owner = $1::text AND kind >= 'rating 0' AND kind <= 'rating 5' GROUP BY kind`
)

// ratings counts feedback by rating.
func (s *changeWriter) ratings() sqltask.Ratings {
	return sqltask.Ratings{Sum: sqlRatings, Add: func(tx sqlkit.Tx, owner string, rating int) error {
		s.counterRows.add(owner, 1)
		s.counterRows.add("", 1)
		_, err := tx.Exec(sqlAddRating, owner, rating)
		return err
	}}
}
