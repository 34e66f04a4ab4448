package postgres

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/store"
)

// A count is the sum of rows in a counter table. Transactions only add rows, so that no transaction
// waits for another to release a counter. Maintenance merges the rows from time to time.

// sqlMergeCounters and sqlMergeLabelCounters merge rows. They skip rows that another process
// merges.
var (
	sqlMergeCounters = mergeText("counters", "owner, kind", "t.owner = ANY ($1::text[])",
		"FROM {s}.counters t WHERE t.owner = ANY ($1::text[])")
	sqlMergeLabelCounters = mergeText("label_counters", "owner, label, status", "t.owner = ANY ($1::text[]) AND t.label = ANY ($2::bigint[])",
		"FROM unnest($1::text[], $2::bigint[]) u(owner, label) JOIN {s}.label_counters t ON t.owner = u.owner AND t.label = u.label")
)

// mergeText returns the statement that replaces rows of a table by their sums. Sums of zero
// leave no row.
func mergeText(table, key, among, from string) string {
	return fmt.Sprintf(`WITH removed AS (
		DELETE FROM {s}.%[1]s t WHERE %[3]s AND t.id = ANY (ARRAY(SELECT t.id %[4]s FOR UPDATE OF t SKIP LOCKED))
		RETURNING %[2]s, n
	)
	INSERT INTO {s}.%[1]s (%[2]s, n) SELECT %[2]s, sum(n) FROM removed GROUP BY %[2]s HAVING sum(n) <> 0`, table, key, among, from)
}

// sqlReadCounters reads the counts of an owner.
const sqlReadCounters = `SELECT kind, sum(n)::bigint FROM {s}.counters WHERE owner = $1::text GROUP BY 1`

const sqlAddCounter = `INSERT INTO {s}.counters (owner, kind, n) VALUES ($1::text, $2::text, $3::bigint)`

// sqlReadLabelCounters reads the number of contexts of an owner by label and status, and the
// number of rows of each count. The statements that change a context add these rows, see
// sqlCountLabels.
const sqlReadLabelCounters = `SELECT n.label, n.status, sum(n.n)::bigint, count(*) FROM unnest($2::bigint[]) u(label)
	JOIN {s}.label_counters n ON n.owner = $1::text AND n.label = u.label GROUP BY 1, 2`

const (
	// mergeThreshold is the number of added rows of an owner or a label that causes a merge.
	mergeThreshold = 16
	// mergeReadThreshold is the number of rows of a label above which a read causes a merge.
	mergeReadThreshold = 64
	// maxAddedKeys is the maximum number of keys in addedRows.
	maxAddedKeys = 100_000
)

// addedRows counts the rows that were added since the last merge, by key.
type addedRows[K comparable] struct {
	mu    sync.Mutex
	added map[K]int
}

func (t *addedRows[K]) add(key K, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.added == nil || len(t.added) >= maxAddedKeys {
		t.added = make(map[K]int)
	}
	t.added[key] += n
}

// due returns the keys with rows that must be merged, and resets their counts.
func (t *addedRows[K]) due() (keys []K) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, n := range t.added {
		if n >= mergeThreshold {
			keys = append(keys, key)
			delete(t.added, key)
		}
	}
	return keys
}

// labelKey is the key of label_counters.
type labelKey struct {
	owner string
	label int64
}

// mergeCounters merges the rows of all keys that are due.
func (s *changeWriter) mergeCounters(ctx context.Context, on *pgx.Conn) error {
	if owners := s.counterRows.due(); len(owners) > 0 {
		if _, err := s.exec(ctx, on, sqlMergeCounters, owners); err != nil {
			return err
		}
	}
	due := s.labelRows.due()
	if len(due) == 0 {
		return nil
	}
	owners, labels := make([]string, len(due)), make([]int64, len(due))
	for i, k := range due {
		owners[i], labels[i] = k.owner, k.label
	}
	_, err := s.exec(ctx, on, sqlMergeLabelCounters, owners, labels)
	return err
}

// addCounter adds n to a count in a transaction.
func (s *changeWriter) addCounter(ctx context.Context, on querier, owner, kind string, n int) error {
	s.counterRows.add(owner, 1)
	_, err := s.exec(ctx, on, sqlAddCounter, owner, kind, n)
	return err
}

// readCounters returns the counts of an owner by kind.
func (s *changeWriter) readCounters(ctx context.Context, on querier, owner string) (map[string]int, error) {
	counts := make(map[string]int)
	err := s.eachRow(ctx, on, sqlReadCounters, func(r record) error {
		counts[r.text(0)] = int(r.int(1))
		return nil
	}, owner)
	return counts, err
}

// readLabelCounters returns the number of contexts of an owner by label and status.
func (s *changeWriter) readLabelCounters(ctx context.Context, on querier, owner string, labels []int64) (map[int64]map[string]int, error) {
	counts := make(map[int64]map[string]int)
	rows, sums := make(map[int64]int), make(map[int64]int)
	err := s.eachRow(ctx, on, sqlReadLabelCounters, func(r record) error {
		l, n := r.int(0), int(r.int(2))
		if counts[l] == nil {
			counts[l] = make(map[string]int)
		}
		counts[l][r.text(1)] = n
		sums[l] += n
		rows[l] += int(r.int(3))
		return nil
	}, owner, labels)
	for l, n := range rows {
		if n > mergeReadThreshold || sums[l] == 0 {
			s.labelRows.add(labelKey{owner, l}, mergeThreshold)
		}
	}
	return counts, err
}

// noteLabels counts the rows of label counters that a change of a context added. A context
// without a status does not exist.
func (s *changeWriter) noteLabels(was, is *store.Context) {
	var from, to []int64
	if was.Status != "" {
		from = contextLabels(was)
	}
	if is.Status != "" {
		to = contextLabels(is)
	}
	if was.Status == is.Status && slices.Equal(from, to) {
		return
	}
	for _, l := range from {
		s.labelRows.add(labelKey{was.Key.Owner, l}, 1)
	}
	for _, l := range to {
		s.labelRows.add(labelKey{is.Key.Owner, l}, 1)
	}
}
