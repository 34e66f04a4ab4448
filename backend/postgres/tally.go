package postgres

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/store"
)

// Counts are sums of rows that are only added, so that nobody waits for a counter that
// somebody suspended has changed. What has become many rows is put together now and then.

// sqlFoldTallies and sqlFoldLabels put rows together. Rows that another does it with
// are left to it.
var (
	sqlFoldTallies = foldText("tallies", "owner, kind", "t.owner = ANY ($1::text[])",
		"FROM {s}.tallies t WHERE t.owner = ANY ($1::text[])")
	sqlFoldLabels = foldText("label_tallies", "owner, label, status", "t.owner = ANY ($1::text[]) AND t.label = ANY ($2::bigint[])",
		"FROM unnest($1::text[], $2::bigint[]) u(owner, label) JOIN {s}.label_tallies t ON t.owner = u.owner AND t.label = u.label")
)

// foldText writes the statement that replaces rows of a table by their sums. Of what
// comes to nothing no row is left.
func foldText(table, key, among, from string) string {
	return fmt.Sprintf(`WITH gone AS (
		DELETE FROM {s}.%[1]s t WHERE %[3]s AND t.id = ANY (ARRAY(SELECT t.id %[4]s FOR UPDATE OF t SKIP LOCKED))
		RETURNING %[2]s, n
	)
	INSERT INTO {s}.%[1]s (%[2]s, n) SELECT %[2]s, sum(n) FROM gone GROUP BY %[2]s HAVING sum(n) <> 0`, table, key, among, from)
}

// sqlTallies reads the counts of an owner.
const sqlTallies = `SELECT kind, sum(n)::bigint FROM {s}.tallies WHERE owner = $1::text GROUP BY 1`

const sqlTally = `INSERT INTO {s}.tallies (owner, kind, n) VALUES ($1::text, $2::text, $3::bigint)`

// sqlLabelTallies reads how many contexts of an owner have a label, by status, and how
// many rows tell it. The statements that change a context add these rows: see sqlCountLabels.
const sqlLabelTallies = `SELECT n.label, n.status, sum(n.n)::bigint, count(*) FROM unnest($2::bigint[]) u(label)
	JOIN {s}.label_tallies n ON n.owner = $1::text AND n.label = u.label GROUP BY 1, 2`

const (
	// foldFrom is how many rows of an owner or a label are worth putting together.
	foldFrom = 16
	// foldRead is how many rows of a label are too many for whoever reads them.
	foldRead = 64
	// notedKeys bounds the memory of who has how many.
	notedKeys = 100_000
)

// tallyNotes remembers how many rows were added under which key.
type tallyNotes[K comparable] struct {
	mu    sync.Mutex
	added map[K]int
}

func (t *tallyNotes[K]) note(key K, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.added == nil || len(t.added) >= notedKeys {
		t.added = make(map[K]int)
	}
	t.added[key] += n
}

// due returns the keys whose rows are to be put together, and forgets them.
func (t *tallyNotes[K]) due() (keys []K) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, n := range t.added {
		if n >= foldFrom {
			keys = append(keys, key)
			delete(t.added, key)
		}
	}
	return keys
}

// labelKey is the key of label_tallies.
type labelKey struct {
	owner string
	label int64
}

// foldTallies puts rows together.
func (s *Store) foldTallies(ctx context.Context, on *pgx.Conn) error {
	if owners := s.tallies.due(); len(owners) > 0 {
		if _, err := s.exec(ctx, on, sqlFoldTallies, owners); err != nil {
			return err
		}
	}
	due := s.labels.due()
	if len(due) == 0 {
		return nil
	}
	owners, labels := make([]string, len(due)), make([]int64, len(due))
	for i, k := range due {
		owners[i], labels[i] = k.owner, k.label
	}
	_, err := s.exec(ctx, on, sqlFoldLabels, owners, labels)
	return err
}

// count adds to a tally within a transaction.
func (s *Store) count(ctx context.Context, on querier, owner, kind string, n int) error {
	s.tallies.note(owner, 1)
	_, err := s.exec(ctx, on, sqlTally, owner, kind, n)
	return err
}

// counted returns the tallies of an owner by kind.
func (s *Store) counted(ctx context.Context, on querier, owner string) (map[string]int, error) {
	counts := make(map[string]int)
	err := s.each(ctx, on, sqlTallies, func(r record) error {
		counts[r.text(0)] = int(r.int(1))
		return nil
	}, owner)
	return counts, err
}

// labelled returns how many contexts of an owner have each of some labels, by status.
func (s *Store) labelled(ctx context.Context, on querier, owner string, labels []int64) (map[int64]map[string]int, error) {
	counts := make(map[int64]map[string]int)
	rows, sums := make(map[int64]int), make(map[int64]int)
	err := s.each(ctx, on, sqlLabelTallies, func(r record) error {
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
		if n > foldRead || sums[l] == 0 {
			s.labels.note(labelKey{owner, l}, foldFrom)
		}
	}
	return counts, err
}

// noteLabels remembers that contexts were changed from what they were to what they
// are, each of them unless there was or is none.
func (s *Store) noteLabels(was, is *store.Context) {
	var from, to []int64
	if was.Status != "" {
		from = labelsOf(was)
	}
	if is.Status != "" {
		to = labelsOf(is)
	}
	if was.Status == is.Status && slices.Equal(from, to) {
		return
	}
	for _, l := range from {
		s.labels.note(labelKey{was.Key.Owner, l}, 1)
	}
	for _, l := range to {
		s.labels.note(labelKey{is.Key.Owner, l}, 1)
	}
}

// ratingKind is the tally of feedback with a rating.
func ratingKind(rating int) string { return "rating " + strconv.Itoa(rating) }

// rating returns the rating that a tally counts, if it does.
func rating(kind string) (int, bool) {
	text, ok := strings.CutPrefix(kind, "rating ")
	n, err := strconv.Atoi(text)
	return n, ok && err == nil
}
