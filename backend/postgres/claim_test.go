//go:build services

package postgres

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// queuedChange returns the change that creates a task with a webhook and queues it.
func queuedChange(id, context string) store.Change {
	k := store.Key{Owner: "o", ID: id}
	c := store.Change{
		Key: k, Create: &store.Create{ContextID: context},
		Events: []store.Event{{Time: testStart, State: a2a.StateSubmitted, Received: message("m1", "user", "hello")}},
		Queue:  &store.QueueEntry{Phase: store.PhaseQueued, Turn: 1},
	}
	c.Webhooks = []store.NewWebhook{{ID: "p", Endpoint: "http://receiver.example:80", Data: []byte("{}")}}
	return c
}

// A locked row of a webhook delays only the claim of its task.
func TestClaimSkipsTasksWithALockedWebhook(t *testing.T) {
	t.Parallel()
	for _, contexts := range []int{1, 4} {
		t.Run(fmt.Sprint(contexts, " contexts"), func(t *testing.T) {
			t.Parallel()
			s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{}))
			for i := range 4 {
				must(t, commitOne(s, queuedChange(fmt.Sprint("t", i), fmt.Sprint("c", i%contexts))))
			}
			tx, err := s.pool.Begin(bg)
			must(t, err)
			defer func() { _ = tx.Rollback(bg) }()
			_, err = tx.Exec(bg, s.qualify(`SELECT 1 FROM {s}.webhook_lanes WHERE task_id = 't0' FOR UPDATE`))
			must(t, err)
			claim := func(limit int, oldest bool) (got []string) {
				t.Helper()
				tasks, err := s.Claim(bg, store.ClaimParams{
					Worker: "w", Now: testStart, Until: testStart.Add(time.Hour), Limit: limit, OldestFirst: oldest,
					Event: store.Event{Time: testStart, State: a2a.StateWorking},
				})
				must(t, err)
				for _, task := range tasks {
					got = append(got, task.Key.ID)
				}
				return got
			}
			if got := claim(1, true); !slices.Equal(got, []string{"t1"}) {
				t.Errorf("Claim() of the oldest = %v, want t1", got)
			}
			if got := claim(10, false); !slices.Equal(got, []string{"t2", "t3"}) {
				t.Errorf("Claim() = %v, want t2 and t3", got)
			}
			must(t, tx.Rollback(bg))
			if got := claim(10, false); !slices.Equal(got, []string{"t0"}) {
				t.Errorf("Claim() after the row was unlocked = %v, want t0", got)
			}
		})
	}
}

func claimEight(worker string) store.ClaimParams {
	return store.ClaimParams{
		Worker: worker, Now: testStart, Until: testStart.Add(time.Minute), Limit: 8,
		Event: store.Event{Time: testStart, State: a2a.StateWorking},
	}
}

// The test cuts the connection at every stage of a claim with several rounds.
func TestClaimReportsLeasesWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	p, s, direct := openBehindProxy(t, Config{RetryDelay: time.Millisecond})
	partly := 0
	for bytes := 0; bytes < 6000; bytes += 150 {
		worker := fmt.Sprint("w", bytes)
		for i := range 8 {
			c := queuedChange(fmt.Sprint(worker, "-", i), fmt.Sprint("c", i))
			c.Webhooks = nil
			must(t, commitOne(direct, c))
		}
		p.CutAfter(bytes)
		tasks, err := s.Claim(bg, claimEight(worker))
		p.Disarm()
		leased := countRows(t, direct, `{s}.task_rows WHERE phase = {leased} AND lease_worker = $1`, worker)
		if err == nil && len(tasks) != leased || len(tasks) > leased {
			t.Errorf("cut after %d bytes: Claim() = %d tasks, %v, but %d are leased", bytes, len(tasks), err, leased)
		}
		var lost *store.ClaimError
		if len(tasks) > 0 && err != nil {
			partly++
			if !errors.As(err, &lost) || lost.Indeterminate == nil {
				t.Errorf("cut after %d bytes: Claim() = %d tasks, %v, want an error that reports lost leases", bytes, len(tasks), err)
			}
		}
		left := 0
		await.True(t, "the server ends the transaction of the lost connection", func() bool {
			rest, err := direct.Claim(bg, claimEight("rest"))
			must(t, err)
			left += len(rest)
			leased = countRows(t, direct, `{s}.task_rows WHERE phase = {leased} AND lease_worker = $1`, worker)
			return left+leased >= 8
		})
		if left+leased != 8 {
			t.Errorf("cut after %d bytes: %d tasks leased, %d left, want 8 in all", bytes, leased, left)
		}
	}
	if partly == 0 {
		t.Error("no claim was cut between two rounds")
	}
}

func TestClaimReportsTasksItCannotRead(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]string{
		"broken":  `UPDATE {s}.task_log SET events = '[{' WHERE task_pk = (SELECT pk FROM {s}.task_rows WHERE id = 't1') AND seq = 1`,
		"missing": `DELETE FROM {s}.task_log WHERE task_pk = (SELECT pk FROM {s}.task_rows WHERE id = 't1')`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{}))
			for i := range 3 {
				must(t, commitOne(s, queuedChange(fmt.Sprint("t", i), "c")))
			}
			if name == "missing" { // the claim would add an event, the only one
				_, err := s.pool.Exec(bg, s.qualify(`UPDATE {s}.task_rows SET seq = 0, checkpoint = 5 WHERE id = 't1'`))
				must(t, err)
			}
			_, err := s.pool.Exec(bg, s.qualify(damage))
			must(t, err)
			tasks, err := s.Claim(bg, claimEight("w"))
			var partly *store.ClaimError
			if !errors.As(err, &partly) || partly.Indeterminate != nil || len(partly.Unreadable) != 1 || len(tasks) != 2 {
				t.Fatalf("Claim() = %d tasks, %v, want two and one that cannot be read", len(tasks), err)
			}
			u := partly.Unreadable[0]
			if u.Key.ID != "t1" || u.Err == nil || u.Queue.Phase != store.PhaseLeased || u.Queue.Attempt != 1 || u.Queue.Lease.Worker != "w" {
				t.Errorf("Claim() cannot read %+v, want t1 leased to w", u)
			}
		})
	}
}

// Lanes that a claim leased but did not return are due again after the lease, also for the same
// worker.
func TestUnreturnedLanesAreDueAfterTheirLease(t *testing.T) {
	t.Parallel()
	p, s, direct := openBehindProxy(t, Config{RetryDelay: time.Millisecond})
	for i := range 8 {
		must(t, commitOne(direct, queuedChange(fmt.Sprint("t", i), "c")))
	}
	_, err := direct.pool.Exec(bg, direct.qualify(`UPDATE {s}.task_log SET events = '[{' WHERE task_pk = (SELECT pk FROM {s}.task_rows WHERE id = 't7')`))
	must(t, err)
	unreturned := 0
	now := testStart
	for bytes := 0; bytes < 6000; bytes += 150 {
		claim := store.LaneClaim{Worker: "w", Now: now, Until: now.Add(time.Minute), Limit: 8, Events: 8}
		p.CutAfter(bytes)
		lanes, _ := s.ClaimLanes(bg, claim)
		p.Disarm()
		if leased := countRows(t, direct, `{s}.webhook_lanes WHERE phase = {leased} AND lease_until > $1`, now.UnixMilli()); leased > len(lanes) {
			unreturned++
		}
		now = now.Add(2 * time.Minute)
		claim.Now, claim.Until = now, now.Add(time.Minute)
		again := 0
		await.True(t, "the server ends the transaction of the lost connection", func() bool {
			lanes, err := direct.ClaimLanes(bg, claim)
			must(t, err)
			again += len(lanes)
			return again >= 7
		})
		if again != 7 {
			t.Errorf("cut after %d bytes: ClaimLanes() after the leases = %d lanes, want the 7 that can be read", bytes, again)
		}
		now = now.Add(2 * time.Minute)
	}
	if unreturned == 0 {
		t.Error("no claim leased lanes that it did not return")
	}
}
