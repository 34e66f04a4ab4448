//go:build services

package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// failNextChange makes the next change of a row of a table fail with a SQLSTATE. It counts changes of rows with
// a sequence, which is not rolled back. Statements that move entries of the queues run at any time, for no row.
func failNextChange(t *testing.T, s *Store, table, state string) {
	t.Helper()
	for _, text := range []string{
		`DROP SEQUENCE IF EXISTS {s}.conflicts CASCADE`,
		`CREATE SEQUENCE {s}.conflicts`,
		`CREATE OR REPLACE FUNCTION {s}.conflict() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF nextval('{s}.conflicts') = 1 THEN RAISE EXCEPTION 'conflict' USING ERRCODE = TG_ARGV[0]; END IF;
			RETURN NULL;
		END $$`,
		`CREATE OR REPLACE TRIGGER conflict AFTER INSERT OR UPDATE ON {s}.` + table + ` FOR EACH ROW EXECUTE FUNCTION {s}.conflict('` + state + `')`,
	} {
		_, err := s.pool.Exec(bg, s.qualify(text), pgx.QueryExecModeExec)
		must(t, err)
	}
}

// changesSeen returns the number of changes that the trigger has seen, including the failed one.
func changesSeen(t *testing.T, s *Store) (n int) {
	t.Helper()
	must(t, s.pool.QueryRow(bg, s.qualify(`SELECT last_value FROM {s}.conflicts`)).Scan(&n))
	return n
}

func TestConflictsAreRetried(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"40001", stateDeadlock, stateQueryCanceled} {
		for _, kind := range []struct {
			name, table string
			call        func(s *Store) error
			events      int
		}{
			{"Commit", "task_log", func(s *Store) error { return commitOne(s, agentMessage(1, "once")) }, 3},
			{"Commit of a new task", "task_rows", func(s *Store) error { return commitOne(s, submitted(2)) }, 2},
			{"Claim", "task_log", func(s *Store) error {
				tasks, err := s.Claim(bg, store.ClaimParams{
					Worker: "w", Now: testStart.Add(time.Hour), Until: testStart.Add(2 * time.Hour), Limit: 1,
					Event: store.Event{Time: testStart.Add(time.Hour), State: a2a.StateWorking},
				})
				if err == nil && (len(tasks) != 1 || tasks[0].Queue.Lease.Fence != 2) {
					err = fmt.Errorf("claimed %v", tasks)
				}
				return err
			}, 3},
			{"Renew", "task_rows", func(s *Store) error {
				lost, err := s.Renew(bg, testStart.Add(time.Hour), []store.HeldLease{{Key: taskKey(1), Worker: testWorker, Fence: 1}})
				if len(lost) > 0 {
					err = fmt.Errorf("lost %v", lost)
				}
				return err
			}, 2},
			{"ClaimLanes", "webhook_lanes", func(s *Store) error {
				lanes, err := s.ClaimLanes(bg, claimParams("w", 1))
				if err == nil && len(lanes) != 1 {
					err = fmt.Errorf("claimed %v", lanes)
				}
				return err
			}, 2},
			{"AddFeedback", "feedback_rows", func(s *Store) error {
				return s.AddFeedback(bg, store.Feedback{Key: taskKey(1), ID: "f", Rating: 4, CreatedAt: testStart})
			}, 2},
		} {
			t.Run(state+" "+kind.name, func(t *testing.T) {
				t.Parallel()
				s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{}))
				must(t, commitOne(s, submitted(1)))
				_, err := s.SaveWebhook(bg, webhook(1, "p", "http://x"), store.WebhookCursor{}, testStart)
				must(t, err)
				failNextChange(t, s, kind.table, state)
				if err := kind.call(s); err != nil {
					t.Errorf("%s() = %v, want the second attempt to succeed", kind.name, err)
				}
				if n := changesSeen(t, s); n != 2 {
					t.Errorf("%s was changed %d times, want 2: one rolled back, one committed", kind.table, n)
				}
				n := 1
				if kind.name == "Commit of a new task" {
					n = 2
				}
				wantEvents(t, s, n, kind.events)
			})
		}
	}
}

// The first attempt returns the lease and is rolled back. Before the second, another worker claims
// the task.
func TestRenewIgnoresLeasesOfAFailedAttempt(t *testing.T) {
	t.Parallel()
	cfg := emptyConfig(storetest.Wrap(t), Config{})
	cfg.RetryDelay = time.Second
	s := open(storetest.Wrap(t), cfg)
	must(t, commitOne(s, submitted(1)))
	failNextChange(t, s, "task_log", stateQueryCanceled)
	_, err := s.pool.Exec(bg, s.qualify(`CREATE CONSTRAINT TRIGGER conflict AFTER UPDATE ON {s}.task_rows DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW EXECUTE FUNCTION {s}.conflict('`+stateQueryCanceled+`')`)) // fails the commit, after the rows were sent
	must(t, err)
	var lost []store.Key
	done := make(chan struct{})
	go func() {
		defer close(done)
		lost, err = s.Renew(bg, testStart.Add(time.Hour), []store.HeldLease{{Key: taskKey(1), Worker: testWorker, Fence: 1}})
	}()
	await.True(t, "the first attempt fails", func() bool { return countRows(t, s, `{s}.conflicts WHERE is_called`) > 0 })
	_, e := s.pool.Exec(bg, s.qualify(`UPDATE {s}.task_rows SET fence = 2 WHERE id = $1`), taskID(1))
	must(t, e)
	within(t, "Renew()", func() { <-done })
	if err != nil || len(lost) != 1 {
		t.Errorf("Renew() of a lease that was lost between two attempts = %v, %v, want it lost", lost, err)
	}
}

// A commit and another transaction lock two tasks in opposite orders. The changes are applied
// once, whichever of the two the server aborts.
func TestCommitSurvivesADeadlock(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{}))
	must(t, commitOne(s, submitted(1)))
	must(t, commitOne(s, submitted(2)))
	other, err := pgx.Connect(bg, s.cfg.URL)
	must(t, err)
	t.Cleanup(func() { _ = other.Close(bg) })
	tx, err := other.Begin(bg)
	must(t, err)
	lock := func(n int) error {
		_, err := tx.Exec(bg, s.qualify(sqlLockRow), taskKey(n).Owner, taskKey(n).ID)
		return err
	}
	must(t, lock(2))
	done := make(chan error, 1)
	go func() {
		_, err := s.Commit(bg, agentMessage(1, "x"), agentMessage(2, "x")) // locks the first, waits for the second
		done <- err
	}()
	waitForLock(t, s)
	err = lock(1)
	if state := sqlState(err); err != nil && state != stateDeadlock {
		t.Errorf("lock = %v, want success or a deadlock", err)
	}
	must(t, tx.Rollback(bg))
	within(t, "the commit", func() {
		if err := <-done; err != nil {
			t.Errorf("Commit() = %v", err)
		}
	})
	wantEvents(t, s, 1, 3)
	wantEvents(t, s, 2, 3)
}

// waitForLock returns when a session of the store waits for a lock in its schema.
func waitForLock(t *testing.T, s *Store) {
	t.Helper()
	await.True(t, "a session waits for a lock", func() bool {
		return countRows(t, s, `pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%'`, s.cfg.Schema) > 0
	})
}
