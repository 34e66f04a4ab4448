package sqlite

// Counters are updated in the transaction that changes the rows they count, so that
// the total of a list needs no count.
const (
	sqlCounters      = `SELECT bucket, n FROM counters WHERE owner = ? AND label = ?`
	sqlUpsertCounter = `INSERT INTO counters (owner, label, bucket, n) VALUES (?,?,?,?) ON CONFLICT DO UPDATE SET n = n + excluded.n`
	sqlDropCounter   = `DELETE FROM counters WHERE owner = ? AND label = ? AND bucket = ? AND n <= 0`
)

// The labels of counters other than context labels.
const (
	labelAll    = ""
	labelRating = "rating"
)

// counterKey identifies a counter. owner is "" for counts of all owners.
type counterKey struct{ owner, label, bucket string }

// counterWriter changes counters.
type counterWriter struct {
	*conn
	counterChanges map[counterKey]int64 // staged
}

// addCount adds to a counter. The transaction writes each counter once, before it
// commits.
func (w *counterWriter) addCount(owner, label, bucket string, by int64) {
	w.counterChanges[counterKey{owner, label, bucket}] += by
}

func (w *counterWriter) writeCounters() error {
	for k, by := range w.counterChanges {
		if by == 0 {
			continue
		}
		if _, err := w.exec(sqlUpsertCounter, k.owner, k.label, k.bucket, by); err != nil {
			return err
		}
		if by > 0 {
			continue
		}
		if _, err := w.exec(sqlDropCounter, k.owner, k.label, k.bucket); err != nil {
			return err
		}
	}
	return nil
}

// eachCounter calls each for every counter of an owner and a label.
func (r *reader) eachCounter(owner, label string, each func(bucket string, n int)) error {
	return r.query(sqlCounters, func(rec record) error {
		each(rec.text(0), int(rec.int(1)))
		return nil
	}, owner, label)
}
