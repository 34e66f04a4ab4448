//go:build services

package postgres

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/store"
)

// openBoth opens a store with a URL that names the primary and the standby, and has further parameters.
func (c *cluster) openBoth(params string, cfg Config) *Store {
	c.t.Helper()
	u, err := url.Parse(c.primary.URL())
	must(c.t, err)
	u.Host += "," + c.standby.Addr()
	u.RawQuery += params
	cfg.URL, cfg.Migrate, cfg.Logger = u.String(), true, testLogger(c.t)
	return openInTime(c.t, cfg)
}

// A primary that hangs keeps its connections open. Without other signs, each call would wait for its time limit, two minutes
// here. When another server is promoted, changes go there, and none is lost that was acknowledged.
func TestHungPrimaryIsLeft(t *testing.T) {
	t.Parallel()
	c := newCluster(t, false)
	s := c.openBoth("&target_session_attrs=read-write", Config{CommandTimeout: 2 * time.Minute, Timeout: 2 * time.Minute})
	if len(s.hosts.servers) != 2 {
		t.Fatalf("the store watches %d servers, want 2", len(s.hosts.servers))
	}
	must(t, commitOne(s, submitted(0)))

	must(t, c.primary.Pause())
	defer func() { _ = c.primary.Resume() }()
	waiting := make(chan error, 1)
	go func() { waiting <- commitOne(s, submitted(1)) }() // it was sent to the primary, which reads it when it is resumed
	await.True(t, "the hanging server is found", func() bool { return s.hosts.servers[0].hangs.Load() })
	c.query(c.standby.URL(), nil, `SELECT pg_promote(wait => false)`)
	promoted := time.Now()
	for n := 2; ; n++ {
		err := commitOne(s, submitted(n))
		if err == nil {
			break
		}
		if time.Since(promoted) > await.Limit {
			t.Fatalf("Commit() fails %s after the promotion: %v", time.Since(promoted), err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Logf("the first change was stored %s after the promotion", time.Since(promoted).Round(time.Millisecond))
	err := <-waiting
	for n, stored := range map[int]bool{0: true, 1: err == nil} {
		if _, e := s.Task(bg, taskKey(n), store.TaskOptions{}); stored && e != nil {
			t.Errorf("Task(%d) = %v, want the task: it was acknowledged", n, e)
		}
	}
	if s.hosts.servers[1].hangs.Load() {
		t.Error("the new primary hangs")
	}
}

// A slow request is no sign of a hanging server: it answers a probe.
func TestSlowRequestsAreNotInterrupted(t *testing.T) {
	t.Parallel()
	c := newCluster(t, false)
	s := c.openBoth("", Config{})
	err := s.runOnce(bg, func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, "SELECT pg_sleep($1)", (2*hangAfter + probeTimeout).Seconds())
		return err
	})
	if err != nil || s.hosts.servers[0].hangs.Load() {
		t.Errorf("a slow request = %v, hangs: %t, want neither an error nor a hanging server", err, s.hosts.servers[0].hangs.Load())
	}
}
