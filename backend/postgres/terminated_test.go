//go:build services

package postgres

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/store"
)

// All sessions end at once. The next call fails one attempt, not one for each connection of the pool.
func TestLostSessionsCostOneAttempt(t *testing.T) {
	t.Parallel()
	server, err := pgtest.Start(pgtest.Config{})
	must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	p, proxied := pgtest.NewProxy(t, server.URL())
	operator, err := pgx.Connect(bg, server.URL())
	must(t, err)
	t.Cleanup(func() { _ = operator.Close(bg) })
	for _, kind := range []struct {
		name string
		url  string
		end  func() error
	}{
		{"an administrator terminates them", server.URL(), func() error {
			_, err := operator.Exec(bg, `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'holdfast'`)
			return err
		}},
		{"the network cuts them", proxied, func() error { p.CutAll(); return nil }},
	} {
		s, err := Open(bg, Config{URL: kind.url, Migrate: true, RetryDelay: 10 * time.Millisecond, MaxRetries: 1, PoolMax: 8})
		must(t, err)
		t.Cleanup(func() { _ = s.Close() })
		must(t, commitOne(s, submitted(100+len(kind.name))))
		for n := range 5 {
			var conns []interface{ Release() }
			for range 8 {
				c, err := s.pool.Acquire(bg)
				must(t, err)
				conns = append(conns, c)
			}
			for _, c := range conns {
				c.Release()
			}
			must(t, kind.end())
			if n%2 == 0 {
				err = commitOne(s, submitted(200+10*len(kind.name)+n))
			} else {
				_, err = s.Task(bg, taskKey(100+len(kind.name)), store.TaskOptions{})
			}
			if err != nil {
				t.Errorf("%s: call %d afterwards = %v", kind.name, n, err)
			}
		}
	}
}
