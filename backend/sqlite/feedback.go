package sqlite

import (
	"strconv"

	"github.com/holdfast-dev/holdfast/backend/internal/sqltask"
	"github.com/holdfast-dev/holdfast/internal/sqlkit"
)

const (
	sqlRatings      = `SELECT CAST(bucket AS INTEGER), n FROM counters WHERE owner = ? AND label = '` + labelRating + `'`
	sqlRatingsOf    = `SELECT rating FROM feedback_rows WHERE owner = ? AND task_id = ?`
	sqlDropFeedback = `DELETE FROM feedback_rows WHERE owner = ? AND task_id = ?`
)

var ratings = sqltask.Ratings{
	Add: func(tx sqlkit.Tx, owner string, rating int) error {
		tx.(*kitTx).writer.countRating(owner, int64(rating), 1)
		return nil
	},
	Sum: sqlRatings,
}

// countRating adds by to the number of ratings with a value, of an owner and of all owners.
func (w *writer) countRating(owner string, rating, by int64) {
	bucket := strconv.FormatInt(rating, 10)
	w.addCount(owner, labelRating, bucket, by)
	w.addCount("", labelRating, bucket, by)
}

// removeFeedback removes all feedback on a task.
func (w *writer) removeFeedback(t *taskRow) error {
	found := false
	err := w.query(sqlRatingsOf, func(r record) error {
		found = true
		w.countRating(t.Key.Owner, r.int(0), -1)
		return nil
	}, t.Key.Owner, t.Key.ID)
	if err != nil || !found {
		return err
	}
	_, err = w.exec(sqlDropFeedback, t.Key.Owner, t.Key.ID)
	return err
}
