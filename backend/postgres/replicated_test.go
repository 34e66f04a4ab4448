//go:build services

package postgres

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// cluster is a primary with synchronous replication to a standby.
type cluster struct {
	t                *testing.T
	primary, standby *pgtest.Server
	pooler           bool
	url              string // of the primary, or of the pooler in front of it
}

func newCluster(t *testing.T, pooler bool) *cluster {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Chmod(filepath.Dir(dir), 0o755))
	primary, err := pgtest.Start(pgtest.Config{Dir: dir, Settings: map[string]string{"synchronous_commit": "on", "shared_buffers": "16MB"}})
	must(t, err)
	t.Cleanup(func() { _ = primary.Close() })
	standby, err := primary.Standby()
	must(t, err)
	t.Cleanup(func() { _ = standby.Close() })
	c := &cluster{t: t, primary: primary, standby: standby, pooler: pooler, url: primary.URL()}
	if pooler {
		p, err := primary.Pooler()
		must(t, err)
		t.Cleanup(func() { _ = p.Close() })
		c.url = p.URL()
	}
	c.query(primary.URL(), nil, `ALTER SYSTEM SET synchronous_standby_names = '*'`)
	c.query(primary.URL(), nil, `SELECT pg_reload_conf()`)
	c.awaitStandby()
	return c
}

// query runs a statement on a server and reads its first column, if to is not nil.
func (c *cluster) query(url string, to any, text string) {
	c.t.Helper()
	conn, err := pgx.Connect(bg, url)
	must(c.t, err)
	defer func() { _ = conn.Close(bg) }()
	if to == nil {
		_, err = conn.Exec(bg, text)
	} else {
		err = conn.QueryRow(bg, text).Scan(to)
	}
	must(c.t, err)
}

func (c *cluster) awaitStandby() {
	c.t.Helper()
	await.True(c.t, "the standby follows", func() (follows bool) {
		c.query(c.primary.URL(), &follows, `SELECT count(*) > 0 FROM pg_stat_replication WHERE sync_state = 'sync' AND state = 'streaming'`)
		return follows
	})
}

func (c *cluster) restoreStandby() {
	c.t.Helper()
	must(c.t, c.standby.Start())
	c.awaitStandby()
}

// open opens a store on the primary. Its calls fail after timeout, without retries.
func (c *cluster) open(timeout time.Duration, cfg Config) *Store {
	c.t.Helper()
	cfg.URL, cfg.Pooler, cfg.CommandTimeout, cfg.Timeout = c.url, c.pooler, timeout, timeout
	cfg.Migrate, cfg.PoolMax, cfg.MaxRetries = true, 20, -1
	return openInTime(c.t, cfg)
}

// promote stops the primary, promotes the standby and opens a store on it.
func (c *cluster) promote() *Store {
	c.t.Helper()
	must(c.t, c.primary.Stop())
	must(c.t, c.standby.Start())
	// The statement does not wait for the promotion: replay cancels statements that are in its way.
	c.query(c.standby.URL(), nil, `SELECT pg_promote(wait => false)`)
	await.True(c.t, "the standby is promoted", func() (promoted bool) {
		c.query(c.standby.URL(), &promoted, `SELECT NOT pg_is_in_recovery()`)
		return promoted
	})
	return open(storetest.Wrap(c.t), Config{URL: c.standby.URL()})
}

func TestUnreplicatedChangesAreNotAcknowledged(t *testing.T) {
	t.Parallel()
	checkNotAcknowledged(t, newCluster(t, false))
}

func TestUnreplicatedChangesAreNotAcknowledgedBehindAPooler(t *testing.T) {
	t.Parallel()
	checkNotAcknowledged(t, newCluster(t, true))
}

func checkNotAcknowledged(t *testing.T, c *cluster) {
	longTimeout, s := c.open(30*time.Second, Config{}), c.open(time.Second, Config{Logger: testLogger(t)})
	for _, n := range []int{0, 1, 2, 3, 4, 20, 21, 22, 23} { // more lanes than other calls lock while ClaimLanes runs
		must(t, commitOne(longTimeout, submitted(n)))
		_, err := longTimeout.SaveWebhook(bg, webhook(n, "p", "e"), store.WebhookCursor{}, testStart)
		must(t, err)
	}
	claimed, err := longTimeout.ClaimLanes(bg, claimParams("w", 1))
	must(t, err)
	finished := submitted(6)
	must(t, commitOne(longTimeout, finished))
	must(t, commitOne(longTimeout, completed(finished)))
	queued := submitted(7)
	queued.Queue = &store.QueueEntry{Phase: store.PhaseQueued, Turn: 1, DueAt: testStart, SeenSeq: 1}
	must(t, commitOne(longTimeout, queued))
	renewed := submitted(8)
	renewed.Queue.Lease.Until = testStart.Add(time.Hour) // Claim must not take it before Renew
	must(t, commitOne(longTimeout, renewed))

	must(t, c.standby.Stop())
	keyed := submitted(10)
	keyed.Idempotency = &store.IdempotencyRecord{Owner: keyed.Key.Owner, Key: "send", TaskID: keyed.Key.ID, CreatedAt: testStart}
	kept := store.ContextChange{Create: true, Context: store.Context{
		Key: store.ContextKey{Owner: keyed.Key.Owner, ID: "kept"}, Status: a2a.ContextActive, Role: store.DefaultContextRole,
	}}
	kept.Idempotency = &store.IdempotencyRecord{Owner: keyed.Key.Owner, Key: "save", TaskID: "kept", CreatedAt: testStart}
	wantUnavailable(t, map[string]func() error{
		"Commit of a new task": func() error { return commitOne(s, keyed) },
		"Commit":               func() error { return commitOne(s, progress(0)) },
		"SaveContext":          func() error { _, err := s.SaveContext(bg, kept); return err },
		"DeleteContext": func() error {
			_, err := s.DeleteContext(bg, finished.Key.Owner, finished.Create.ContextID, 10)
			return err
		},
		"AddFeedback": func() error {
			return s.AddFeedback(bg, store.Feedback{Key: taskKey(1), ID: "f", Rating: 4, CreatedAt: testStart})
		},
		"SaveWebhook": func() error {
			_, err := s.SaveWebhook(bg, webhook(2, "q", "e"), store.WebhookCursor{}, testStart)
			return err
		},
		"DeleteWebhook": func() error { _, err := s.DeleteWebhook(bg, taskKey(3), "p", testStart); return err },
		"ReplayWebhook": func() error {
			_, err := s.ReplayWebhook(bg, taskKey(4), "p", store.WebhookCursor{}, testStart)
			return err
		},
		"AckLanes":     func() error { _, err := s.AckLanes(bg, ackOf(&claimed[0], false)); return err },
		"ClaimLanes":   func() error { _, err := s.ClaimLanes(bg, claimParams("w", 1)); return err },
		"WakeLanes":    func() error { _, err := s.WakeLanes(bg, "e", testStart.Add(-time.Hour), 1); return err },
		"SaveEndpoint": func() error { return s.SaveEndpoint(bg, store.Endpoint{Name: "e", Failures: 1}) },
		"Claim": func() error {
			_, err := s.Claim(bg, store.ClaimParams{
				Worker: "w", Now: testStart.Add(time.Minute), Until: testStart.Add(2 * time.Minute), Limit: 1,
				Event: store.Event{Time: testStart.Add(time.Minute), State: a2a.StateWorking},
			})
			return err
		},
		"Renew": func() error {
			lost, err := s.Renew(bg, testStart.Add(2*time.Hour), []store.HeldLease{{Key: renewed.Key, Worker: testWorker, Fence: 1}})
			if len(lost) > 0 {
				t.Errorf("Renew without the standby lost %v", lost)
			}
			return err
		},
		"Ping": func() error { return s.Ping(bg) },
	})
	// A call that timed out before it reached the primary is repeated.
	await.True(t, "the primary has the changes, but no standby has them", func() (has bool) {
		if c.query(c.primary.URL(), &has, s.qualify(`SELECT count(*) = 2 FROM {s}.idempotency_keys WHERE key IN ('send', 'save')`)); !has {
			_ = commitOne(s, keyed)
			_, _ = s.SaveContext(bg, kept)
		}
		return has
	})
	again := submitted(11)
	again.Idempotency = &store.IdempotencyRecord{Owner: again.Key.Owner, Key: "send", TaskID: again.Key.ID, CreatedAt: testStart}
	elsewhere := c.openElsewhere(time.Second)
	wantUnavailable(t, map[string]func() error{
		"Task":                  func() error { _, err := s.Task(bg, keyed.Key, store.TaskOptions{}); return err },
		"Commit again":          func() error { return commitOne(s, again) },
		"Commit again nearby":   func() error { return commitOne(elsewhere, again) },
		"SaveContext again":     func() error { return saveAgain(elsewhere, kept) },
		"Idempotency elsewhere": func() error { _, err := elsewhere.Idempotency(bg, keyed.Key.Owner, "send"); return err },
	})

	c.restoreStandby()
	await.True(t, "the change that was not acknowledged is read", func() bool {
		_, err := s.Task(bg, keyed.Key, store.TaskOptions{})
		return err == nil
	})
	if err := commitOne(longTimeout, again); !errors.Is(err, store.ErrDuplicate) {
		t.Errorf("Commit() with the key of a replicated change = %v, want ErrDuplicate", err)
	}
	must(t, saveAgain(longTimeout, kept))
	must(t, commitOne(longTimeout, submitted(12)))

	must(t, c.standby.Stop())
	wantUnavailable(t, map[string]func() error{"Commit": func() error { return commitOne(s, submitted(13)) }})
	promoted := c.promote()
	for n, want := range map[int]error{10: nil, 12: nil, 13: store.ErrNotFound} {
		if _, err := promoted.Task(bg, taskKey(n), store.TaskOptions{}); !errors.Is(err, want) {
			t.Errorf("Task(%d) after the promotion = %v, want %v", n, err, want)
		}
	}
	if _, err := promoted.Context(bg, keyed.Key.Owner, "kept", 0); err != nil {
		t.Errorf("Context() after the promotion = %v", err)
	}
}

// openElsewhere opens a store as another replica, which knows nothing of unreplicated commits.
func (c *cluster) openElsewhere(timeout time.Duration) *Store {
	c.t.Helper()
	return c.open(timeout, Config{})
}

// saveAgain saves a context as the engine does: it reads an idempotency key that exists.
func saveAgain(s *Store, c store.ContextChange) error {
	_, err := s.SaveContext(bg, c)
	if errors.Is(err, store.ErrDuplicate) {
		_, err = s.Idempotency(bg, c.Idempotency.Owner, c.Idempotency.Key)
	}
	return err
}

// wantUnavailable runs calls concurrently. Each must fail with code unavailable.
func wantUnavailable(t *testing.T, calls map[string]func() error) {
	t.Helper()
	var wg sync.WaitGroup
	for name, call := range calls {
		wg.Go(func() {
			if err := call(); a2a.CodeOf(err) != a2a.CodeUnavailable {
				t.Errorf("%s without the standby = %v, want code unavailable", name, err)
			}
		})
	}
	wg.Wait()
}

func TestNothingAcknowledgedIsMissingAfterAPromotion(t *testing.T) {
	t.Parallel()
	checkNothingIsMissing(t, newCluster(t, false))
}

func TestNothingAcknowledgedIsMissingAfterAPromotionBehindAPooler(t *testing.T) {
	t.Parallel()
	checkNothingIsMissing(t, newCluster(t, true))
}

// checkNothingIsMissing creates tasks and contexts while the standby is stopped and restored, and
// while an operator cancels and terminates the sessions that wait for it.
func checkNothingIsMissing(t *testing.T, c *cluster) {
	// A call that times out closes its connection. On a busy machine a call on a new one needs more than 300 ms.
	s := c.open(time.Second, Config{RetryDelay: 20 * time.Millisecond})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var next, failures atomic.Int64
	var mu sync.Mutex
	var acked, saved []int
	var callers sync.WaitGroup
	for g := range 6 {
		callers.Go(func() {
			for ctx.Err() == nil {
				n := int(next.Add(1))
				list, err := &acked, error(nil)
				if g == 0 {
					list = &saved
					_, err = s.SaveContext(bg, store.ContextChange{Create: true, Context: store.Context{
						Key: store.ContextKey{Owner: "o", ID: taskID(n)}, Status: a2a.ContextActive, Role: store.DefaultContextRole,
					}})
				} else {
					err = commitOne(s, submitted(n))
				}
				mu.Lock()
				if err == nil {
					*list = append(*list, n)
				}
				mu.Unlock()
				if err != nil {
					failures.Add(1)
				}
			}
		})
	}
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return min(len(acked), len(saved))
	}
	awaitMore := func(what string, now func() int, more int) {
		t.Helper()
		want := now() + more
		await.True(t, what, func() bool { return now() >= want })
	}
	answers := func() int { return int(next.Load()) }
	for _, text := range []string{"pg_cancel_backend(pid)", "pg_terminate_backend(pid)"} {
		awaitMore("acknowledgements", count, 5)
		must(t, c.standby.Stop())
		awaitMore("answers", answers, 6)
		want := answers() + 12
		await.True(t, "answers to canceled commits", func() bool {
			c.query(c.primary.URL(), nil, "SELECT "+text+" FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
			return answers() >= want
		})
		c.restoreStandby()
	}
	awaitMore("acknowledgements", count, 5)
	must(t, c.standby.Stop())
	awaitMore("answers", answers, 20)
	stop()
	callers.Wait()
	promoted := c.promote()
	for _, n := range acked {
		if _, err := promoted.Task(bg, taskKey(n), store.TaskOptions{}); err != nil {
			t.Errorf("Task(%d), which was acknowledged, = %v after the promotion", n, err)
		}
	}
	for _, n := range saved {
		if _, err := promoted.Context(bg, "o", taskID(n), 0); err != nil {
			t.Errorf("Context(%d), which was acknowledged, = %v after the promotion", n, err)
		}
	}
	t.Logf("%d tasks and %d contexts acknowledged, %d changes not", len(acked), len(saved), failures.Load())
}
