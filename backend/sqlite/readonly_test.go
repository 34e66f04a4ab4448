package sqlite

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

func TestReadOnlyStoreSeesCommitsOfServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	must(t, runTask(s, 1))
	r := open(t, Config{Dir: dir, ReadOnly: true})
	must(t, runTask(s, 2))
	must(t, commitOne(s, submitted(3)))
	for n := 1; n <= 3; n++ {
		want, err := s.Task(bg, taskKey(n), store.TaskOptions{})
		must(t, err)
		got, err := r.Task(bg, taskKey(n), store.TaskOptions{})
		if err != nil || got.Seq != want.Seq {
			t.Errorf("Task(%d) = %+v, %v, want the server's version", n, got, err)
		}
	}
	if b, err := r.Backlog(bg); err != nil || b.Leased != 1 {
		t.Errorf("Backlog() = %+v, %v, want 1 leased", b, err)
	}
	if _, err := s.SaveWebhook(bg, store.Webhook{Task: taskKey(1), ID: "p", Endpoint: "e", Data: []byte("{}")}, store.WebhookCursor{}, testTime); err != nil {
		t.Fatal(err)
	}
	lanes, err := r.Lanes(bg, store.LaneQuery{Limit: 9})
	if err != nil || len(lanes.Lanes) != 1 {
		t.Errorf("Lanes() = %+v, %v, want one", lanes, err)
	}
	if b, err := r.WebhookBacklog(bg); err != nil || b != (store.WebhookBacklog{Pending: 1}) {
		t.Errorf("WebhookBacklog() = %+v, %v, want 1 pending", b, err)
	}
	page, err := r.Contexts(bg, store.ContextQuery{Owner: taskKey(1).Owner, Sort: store.ContextsByUpdated, Limit: 10})
	if err != nil || page.Total != 3 || len(page.Contexts) != 3 {
		t.Errorf("Contexts() = %+v, %v, want 3", page, err)
	}
	if r.Info().Exclusive || !s.Info().Exclusive {
		t.Errorf("Exclusive = %v for the reader and %v for the server, want false and true", r.Info().Exclusive, s.Info().Exclusive)
	}
	// A read-only store caches no rows.
	if _, err := s.DeleteContext(bg, taskKey(1).Owner, "c"+taskID(1), 10); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Task(bg, taskKey(1), store.TaskOptions{}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Task() after its deletion = %v, want %v", err, store.ErrNotFound)
	}
	must(t, r.Close())
	must(t, runTask(s, 4))
	must(t, s.Close())
}

func TestReadOnlyStoreRejectsWrites(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	must(t, runTask(s, 1))
	r := open(t, Config{Dir: dir, ReadOnly: true})
	k := taskKey(1)
	for name, write := range map[string]func() error{
		"Commit": func() error { _, err := r.Commit(bg, submitted(2)); return err },
		"Claim": func() error {
			_, err := r.Claim(bg, store.ClaimParams{Worker: "w", Limit: 1, Now: testTime, Until: testTime})
			return err
		},
		"Renew":             func() error { _, err := r.Renew(bg, testTime, []store.HeldLease{{Key: k}}); return err },
		"ExpireIdempotency": func() error { _, err := r.ExpireIdempotency(bg, testTime, 1); return err },
		"ExpireRecords":     func() error { _, err := r.ExpireRecords(bg, testTime, 1); return err },
		"SaveContext": func() error {
			_, err := r.SaveContext(bg, store.ContextChange{Create: true, Context: store.Context{
				Key: store.ContextKey{Owner: "o", ID: "c"}, Role: "r", Status: a2a.ContextActive,
			}})
			return err
		},
		"DeleteContext": func() error { _, err := r.DeleteContext(bg, k.Owner, "c"+k.ID, 1); return err },
		"SaveWebhook": func() error {
			_, err := r.SaveWebhook(bg, store.Webhook{Task: k, ID: "p"}, store.WebhookCursor{}, testTime)
			return err
		},
		"DeleteWebhook": func() error { _, err := r.DeleteWebhook(bg, k, "p", testTime); return err },
		"ClaimLanes": func() error {
			_, err := r.ClaimLanes(bg, store.LaneClaim{Worker: "w", Limit: 1, Now: testTime, Until: testTime})
			return err
		},
		"RenewLanes":     func() error { _, err := r.RenewLanes(bg, testTime, []store.LaneLease{{Task: k}}); return err },
		"AckLanes":       func() error { _, err := r.AckLanes(bg, store.LaneAck{Lease: store.LaneLease{Task: k}}); return err },
		"ReplayWebhook":  func() error { _, err := r.ReplayWebhook(bg, k, "p", store.WebhookCursor{}, testTime); return err },
		"WakeLanes":      func() error { _, err := r.WakeLanes(bg, "e", testTime, 1); return err },
		"SaveEndpoint":   func() error { return r.SaveEndpoint(bg, store.Endpoint{Name: "e", Failures: 1}) },
		"ExpireWebhooks": func() error { _, err := r.ExpireWebhooks(bg, store.WebhookExpiry{}, 1); return err },
		"AddFeedback":    func() error { return r.AddFeedback(bg, store.Feedback{Key: k, ID: "f"}) },
		"Ping":           func() error { return r.Ping(bg) },
	} {
		if err := write(); a2a.CodeOf(err) != a2a.CodeUnsupported || !strings.Contains(err.Error(), "opened for reading only") {
			t.Errorf("%s() = %v, want code %s", name, err, a2a.CodeUnsupported)
		}
	}
	must(t, r.Close())
	if _, err := r.Backlog(bg); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Backlog() of a closed store = %v, want %v", err, store.ErrClosed)
	}
}

func TestReadOnlyStoreOpensBesideServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	must(t, runTask(s, 1))
	must(t, s.Close())
	cmd := child(t.Context(), "hold", dir)
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	bufio.NewScanner(out).Scan()
	r := open(t, Config{Dir: dir, ReadOnly: true})
	if _, err := r.Task(bg, taskKey(1), store.TaskOptions{}); err != nil {
		t.Errorf("Task() = %v", err)
	}
	must(t, in.Close())
	must(t, cmd.Wait())
	if _, err := r.Task(bg, taskKey(1), store.TaskOptions{}); err != nil {
		t.Errorf("Task() after the server has ended = %v", err)
	}
	must(t, r.Close())
	must(t, runTask(open(t, Config{Dir: dir}), 2))
}

func TestReadOnlyStoreOpensWithoutServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	must(t, runTask(s, 1))
	must(t, s.Close())
	r := open(t, Config{Dir: dir, ReadOnly: true})
	if _, err := r.Task(bg, taskKey(1), store.TaskOptions{}); err != nil {
		t.Errorf("Task() = %v", err)
	}
	lock, err := lockDir(t.Context(), dir) // the store holds no lock
	must(t, err)
	must(t, unlock(lock))
}

func TestReadOnlyStoreRejectsOtherSchemas(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		make func(t *testing.T, path string)
		want string
	}{
		{"none", func(*testing.T, string) {}, "does not exist"},
		{
			"older", func(t *testing.T, path string) {
				makeStore(t, path)
				execFile(t, path, "DELETE FROM schema_migrations")
			},
			"schema is older than this program: it lacks migration 202611221300_initial",
		},
		{"newer", func(t *testing.T, path string) {
			makeStore(t, path)
			execFile(t, path, "INSERT INTO schema_migrations VALUES ('999912312359', 'future', 'x', '2099-01-01T00:00:00Z', '999912312359')")
		}, "schema is newer than this program: migration 999912312359_future needs a program with migration 999912312359 or later"},
		{"changed", func(t *testing.T, path string) {
			makeStore(t, path)
			execFile(t, path, "UPDATE schema_migrations SET checksum = '00ff'")
		}, "applied migration was changed: 202611221300_initial"},
		{"another program's", func(t *testing.T, path string) {
			execFile(t, path, "PRAGMA application_id = 77; CREATE TABLE x (y)")
		}, "is the database of another program"},
		{"not a database", func(t *testing.T, path string) {
			must(t, os.WriteFile(path, []byte(strings.Repeat("not a database ", 100)), 0o600))
		}, "is not a SQLite database"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, FileName)
			test.make(t, path)
			_, err := Open(t.Context(), Config{Dir: dir, ReadOnly: true})
			if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Open() = %v, want %q and the path in it", err, test.want)
			}
			if _, err := os.Stat(path); test.name == "none" && !errors.Is(err, os.ErrNotExist) {
				t.Errorf("Open() created %s", path)
			}
		})
	}
}
