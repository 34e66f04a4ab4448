package sqlkit

import (
	"math"
	"time"
)

// QueryOne runs a statement and calls each for its row, if there is one.
func QueryOne(q Querier, text string, each func(r Row), args ...any) (found bool, err error) {
	err = q.Query(text, func(r Row) error {
		found = true
		each(r)
		return nil
	}, args...)
	return found, err
}

// NoBound is the time in a column without an upper bound.
const NoBound = math.MaxInt64

// LowerBound returns a time as a column with a lower bound, in milliseconds. The zero time is no
// bound.
func LowerBound(t time.Time) int64 {
	if t.IsZero() {
		return math.MinInt64
	}
	return t.UnixMilli()
}

// UpperBound is LowerBound for an upper bound.
func UpperBound(t time.Time) int64 {
	if t.IsZero() {
		return NoBound
	}
	return t.UnixMilli()
}

// Time returns the time of a column, zero if it has no bound.
func Time(ms int64) time.Time {
	if ms == math.MinInt64 || ms == NoBound {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// MaxConflicts is the number of concurrent changes of a row after which a change fails.
const MaxConflicts = 1000

// FirstBatch is the number of rows that a search with a filter reads first. Each further batch is larger.
const FirstBatch = 200

// Statement is the name and the text of a statement with a cost that does not depend on the size of the
// database. Tests check its plan.
type Statement [2]string
