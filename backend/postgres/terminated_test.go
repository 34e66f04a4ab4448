//go:build services

package postgres

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/store"
)

// An administrator terminates all sessions. The next call fails one attempt, not one for each
// connection of the pool.
func TestTerminatedSessionsCostOneAttempt(t *testing.T) {
	t.Parallel()
	server, err := pgtest.Start(pgtest.Config{})
	must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	s, err := Open(bg, Config{URL: server.URL(), Migrate: true, RetryDelay: 10 * time.Millisecond, MaxRetries: 1, PoolMax: 8})
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	must(t, commitOne(s, submitted(1)))
	operator, err := pgx.Connect(bg, server.URL())
	must(t, err)
	t.Cleanup(func() { _ = operator.Close(bg) })
	for n := range 5 {
		await.True(t, "the pool may be reset again", func() bool {
			return time.Now().UnixNano()-s.lastReset.Load() > int64(resetInterval)
		})
		var conns []interface{ Release() }
		for range 8 {
			c, err := s.pool.Acquire(bg)
			must(t, err)
			conns = append(conns, c)
		}
		for _, c := range conns {
			c.Release()
		}
		_, err = operator.Exec(bg, `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'holdfast'`)
		must(t, err)
		if n%2 == 0 {
			err = commitOne(s, submitted(10+n))
		} else {
			_, err = s.Task(bg, taskKey(1), store.TaskOptions{})
		}
		if err != nil {
			t.Errorf("call %d after all sessions were terminated = %v", n, err)
		}
	}
}
