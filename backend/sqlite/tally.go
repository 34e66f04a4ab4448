package sqlite

import (
	"context"
)

// Tallies are counts that are kept, so that the total of a list costs no count.
const (
	sqlTallies     = `SELECT shelf, n FROM tallies WHERE owner = ? AND label = ?`
	sqlUpsertTally = `INSERT INTO tallies (owner, label, shelf, n) VALUES (?,?,?,?) ON CONFLICT DO UPDATE SET n = n + excluded.n`
	sqlDropTally   = `DELETE FROM tallies WHERE owner = ? AND label = ? AND shelf = ? AND n <= 0`
)

// The labels of tallies that are not those of contexts.
const (
	labelAll    = ""
	labelRating = "rating"
)

// tallyKey names a tally. owner is "" for what is counted of all owners.
type tallyKey struct{ owner, label, shelf string }

// tally notes that there is so much more of something. It is written once, at the
// end of the transaction.
func (w *writer) tally(owner, label, shelf string, by int64) {
	w.tallies[tallyKey{owner, label, shelf}] += by
}

func (w *writer) writeTallies() error {
	for k, by := range w.tallies {
		if by == 0 {
			continue
		}
		if _, err := w.upsertTally.exec(k.owner, k.label, k.shelf, by); err != nil {
			return err
		}
		if by > 0 {
			continue
		}
		if _, err := w.dropTally.exec(k.owner, k.label, k.shelf); err != nil {
			return err
		}
	}
	return nil
}

// tallied calls each for every shelf on which an owner has something of a label.
func (r *reader) tallied(owner, label string, each func(shelf string, n int)) error {
	return r.tallies.query(context.Background(), func(rec record) error {
		each(rec.text(0), int(rec.int(1)))
		return nil
	}, owner, label)
}
