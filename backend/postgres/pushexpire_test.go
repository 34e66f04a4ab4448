package postgres

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// lanesRead returns the number of rows of lanes that a pass reads to find those to expire.
func lanesRead(t *testing.T, s *Store) (read int) {
	t.Helper()
	tx, err := s.pool.Begin(bg)
	must(t, err)
	defer func() { _ = tx.Rollback(bg) }()
	// A table as small as this one may be read as a whole.
	_, err = tx.Exec(bg, `SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off`)
	must(t, err)
	counted := func() (n int) {
		must(t, tx.QueryRow(bg, `SELECT coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0)::bigint FROM pg_stat_xact_user_tables
			WHERE schemaname = $1 AND relname = 'push_lanes'`, s.cfg.Schema).Scan(&n))
		return n
	}
	before := counted()
	_, err = tx.Exec(bg, s.q(sqlIdleLanes), false, ceilMillis(began.Add(100*time.Hour)), 1000)
	must(t, err)
	return counted() - before
}

func TestExpiryReadsIdleLanesOnce(t *testing.T) {
	t.Parallel()
	const n = 200
	s := open(storetest.Wrap(t), fresh(storetest.Wrap(t), Config{URL: pgtest.URL(t)}))
	deliver := func(want int) {
		t.Helper()
		lanes, err := s.ClaimLanes(bg, claimParams("w", n))
		must(t, err)
		if len(lanes) != want {
			t.Fatalf("ClaimLanes() = %d lanes, want %d", len(lanes), want)
		}
		acks := make([]store.LaneAck, len(lanes))
		for i := range lanes {
			acks[i] = ackOf(&lanes[i], false)
			acks[i].Attempts = nil
		}
		_, err = s.AckLanes(bg, acks...)
		must(t, err)
	}
	expire := func(want int) {
		t.Helper()
		got, err := s.ExpirePush(bg, store.PushExpiry{Finished: began.Add(100 * time.Hour)}, 50)
		must(t, err)
		if got != want {
			t.Errorf("ExpirePush() = %d, want %d", got, want)
		}
	}
	for i := range n {
		c := submitted(i)
		c.Push = []store.NewPush{{ID: "p", Endpoint: "http://x", Data: []byte(`"x"`)}}
		must(t, commitOne(s, c))
	}
	deliver(n)
	if read := lanesRead(t, s); read < n {
		t.Errorf("the first pass reads %d rows of lanes, want the %d that are idle", read, n)
	}
	expire(0) // no task is over
	if read := lanesRead(t, s); read > n/10 {
		t.Errorf("the next pass reads %d rows of lanes, want none of %d that cannot expire", read, n)
	}
	const over = 3
	for i := range over {
		must(t, commitOne(s, completed(submitted(i))))
	}
	deliver(over)
	if read := lanesRead(t, s); read < over || read > n/10 {
		t.Errorf("a pass after %d tasks have ended reads %d rows of lanes, want only theirs", over, read)
	}
	expire(over)
	checkLanes(t, s)
}
