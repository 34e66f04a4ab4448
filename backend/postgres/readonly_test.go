//go:build services

package postgres

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/store"
)

// A database is read-only for a while, like a standby before its promotion. Sessions that
// started during that time stay read-only until they end.
func TestSessionsOfAReadOnlyServerAreClosed(t *testing.T) {
	t.Parallel()
	server, err := pgtest.Start(pgtest.Config{})
	must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	cfg := Config{URL: server.URL(), Migrate: true, RetryDelay: 10 * time.Millisecond, MaxRetries: 3, PoolMin: 4, PoolMax: 5}
	s, err := Open(bg, cfg)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	must(t, commitOne(s, submitted(1)))
	operator, err := pgx.Connect(bg, server.URL())
	must(t, err)
	t.Cleanup(func() { _ = operator.Close(bg) })
	exec := func(text string) {
		t.Helper()
		_, err := operator.Exec(bg, text)
		must(t, err)
	}
	readOnly := func() {
		t.Helper()
		exec(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); END $$`)
		exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND application_name = 'holdfast'`)
		for range 2 * cfg.PoolMax { // opens new sessions
			_, err := s.Task(bg, taskKey(1), store.TaskOptions{})
			must(t, err)
		}
	}
	calls := []struct {
		name string
		call func(n int) error
	}{
		{"Commit", func(int) error { return commitOne(s, agentMessage(1, "x")) }},
		{"Commit of a new task", func(n int) error { return commitOne(s, submitted(n)) }},
		{"AddFeedback", func(n int) error {
			return s.AddFeedback(bg, store.Feedback{Key: taskKey(1), ID: taskID(n), Rating: 4, CreatedAt: testStart})
		}},
		{"Ping", func(int) error { return s.Ping(bg) }},
		{"Renew", func(int) error {
			_, err := s.Renew(bg, testStart.Add(time.Hour), []store.HeldLease{{Key: taskKey(1), Worker: testWorker, Fence: 1}})
			return err
		}},
	}
	for n, c := range calls {
		readOnly()
		if err := c.call(10 + n); a2a.CodeOf(err) != a2a.CodeUnavailable {
			t.Errorf("%s on a read-only database = %v, want code unavailable", c.name, err)
		}
		readOnly() // all sessions are read-only
		exec(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I RESET default_transaction_read_only', current_database()); END $$`)
		err := c.call(20 + n)
		if c.name == "Ping" && err != nil { // Ping does not retry
			err = c.call(20 + n)
		}
		if err != nil {
			t.Errorf("%s after the database was read-only = %v", c.name, err)
		}
	}
	wantEvents(t, s, 1, 3)
	wantEvents(t, s, 21, 2)
}
