//go:build services

package postgres

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// laneRowsRead returns the number of lane rows that a pass reads to find lanes to expire.
func laneRowsRead(t *testing.T, s *Store) (read int) {
	t.Helper()
	tx, err := s.pool.Begin(bg)
	must(t, err)
	defer func() { _ = tx.Rollback(bg) }()
	// The planner may read such a small table as a whole.
	_, err = tx.Exec(bg, `SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off`)
	must(t, err)
	counted := func() (n int) {
		must(t, tx.QueryRow(bg, `SELECT coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0)::bigint FROM pg_stat_xact_user_tables
			WHERE schemaname = $1 AND relname = 'webhook_lanes'`, s.cfg.Schema).Scan(&n))
		return n
	}
	before := counted()
	_, err = tx.Exec(bg, s.qualify(sqlDoneLanes), false, ceilMillis(testStart.Add(100*time.Hour)), 1000, 0)
	must(t, err)
	return counted() - before
}

func TestExpiryReadsIdleLanesOnce(t *testing.T) {
	t.Parallel()
	const n = 200
	s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{}))
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
		got, err := s.ExpireWebhooks(bg, store.WebhookExpiry{Finished: testStart.Add(100 * time.Hour)}, 50)
		must(t, err)
		if got != want {
			t.Errorf("ExpireWebhooks() = %d, want %d", got, want)
		}
	}
	for i := range n {
		c := submitted(i)
		c.Webhooks = []store.NewWebhook{{ID: "p", Endpoint: "http://x", Data: []byte(`"x"`)}}
		must(t, commitOne(s, c))
	}
	deliver(n)
	if read := laneRowsRead(t, s); read < n {
		t.Errorf("the first pass reads %d rows of lanes, want the %d idle ones", read, n)
	}
	expire(0) // no task is terminal
	if read := laneRowsRead(t, s); read > n/10 {
		t.Errorf("the next pass reads %d rows of lanes, want none of %d that cannot expire", read, n)
	}
	const terminal = 3
	for i := range terminal {
		must(t, commitOne(s, completed(submitted(i))))
	}
	deliver(terminal)
	if read := laneRowsRead(t, s); read < terminal || read > n/10 {
		t.Errorf("a pass after %d tasks have ended reads %d rows of lanes, want only theirs", terminal, read)
	}
	expire(terminal)
	checkLanes(t, s)
}
