package postgres

import (
	"context"
	"strconv"
	"strings"
	"sync"
)

// sqlFoldTallies puts together what has become many rows. Rows that another does
// it with are left to it.
const sqlFoldTallies = `WITH gone AS (
		DELETE FROM {s}.tallies WHERE ctid = ANY (ARRAY(
			SELECT ctid FROM {s}.tallies WHERE owner = ANY ($1::text[]) FOR UPDATE SKIP LOCKED))
		RETURNING owner, kind, n
	)
	INSERT INTO {s}.tallies (owner, kind, n) SELECT owner, kind, sum(n) FROM gone GROUP BY 1, 2`

// sqlTallies reads the counts of an owner.
const sqlTallies = `SELECT kind, sum(n)::bigint FROM {s}.tallies WHERE owner = $1::text GROUP BY 1`

const sqlTally = `INSERT INTO {s}.tallies (owner, kind, n) VALUES ($1::text, $2::text, $3::bigint)`

const (
	// foldFrom is how many rows of an owner are worth putting together.
	foldFrom = 16
	// notedOwners bounds the memory of who has how many.
	notedOwners = 100_000
)

// tallyNotes remembers how many rows were added for which owner.
type tallyNotes struct {
	mu    sync.Mutex
	added map[string]int
}

func (t *tallyNotes) note(owner string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.added == nil || len(t.added) >= notedOwners {
		t.added = make(map[string]int)
	}
	t.added[owner]++
}

// due returns the owners whose rows are to be put together, and forgets them.
func (t *tallyNotes) due() (owners []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for owner, n := range t.added {
		if n >= foldFrom {
			owners = append(owners, owner)
			delete(t.added, owner)
		}
	}
	return owners
}

// foldTallies puts rows together.
func (s *Store) foldTallies(ctx context.Context, on querier) error {
	owners := s.tallies.due()
	if len(owners) == 0 {
		return nil
	}
	_, err := s.exec(ctx, on, sqlFoldTallies, owners)
	return err
}

// count adds to a tally within a transaction.
func (s *Store) count(ctx context.Context, on querier, owner, kind string, n int) error {
	s.tallies.note(owner)
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

// ratingKind is the tally of feedback with a rating.
func ratingKind(rating int) string { return "rating " + strconv.Itoa(rating) }

// rating returns the rating that a tally counts, if it does.
func rating(kind string) (int, bool) {
	text, ok := strings.CutPrefix(kind, "rating ")
	n, err := strconv.Atoi(text)
	return n, ok && err == nil
}
