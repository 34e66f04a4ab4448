//go:build services

package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

const (
	baseline     = "202611221300"
	addIndex     = "-- migrate: without transaction\n-- migrate: compatible with " + baseline + "\nCREATE INDEX CONCURRENTLY task_rows_extra ON {s}.task_rows (turn, id);\n"
	addColumn    = "-- migrate: compatible with " + baseline + "\nALTER TABLE {s}.task_rows ADD COLUMN extra integer;\n"
	addedIndex   = "209901010000_index"
	lockWaitText = "migration waits for a lock"
)

// withMigrations returns the migrations of the program and additional ones.
func withMigrations(t *testing.T, more map[string]string) fs.FS {
	t.Helper()
	files := fstest.MapFS{}
	all, err := fs.Glob(migrationFiles, "migrations/*.sql")
	must(t, err)
	for _, name := range all {
		text, err := migrationFiles.ReadFile(name)
		must(t, err)
		files[name] = &fstest.MapFile{Data: text}
	}
	for name, text := range more {
		files["migrations/"+name+".sql"] = &fstest.MapFile{Data: []byte(text)}
	}
	return files
}

// ownDatabase returns a configuration with a new database. CREATE INDEX CONCURRENTLY waits for
// all snapshots in its database.
func ownDatabase(t *testing.T) Config {
	t.Helper()
	server := pgtest.URL(storetest.Wrap(t))
	name := "d_" + strings.ToLower(rand.Text())
	pgtest.Exec(t, server, "CREATE DATABASE "+name)
	t.Cleanup(func() { pgtest.Exec(t, server, "DROP DATABASE "+name+" WITH (FORCE)") })
	u, err := url.Parse(server)
	must(t, err)
	u.Path = "/" + name
	return Config{URL: u.String(), Schema: "holdfast", Migrate: true, PoolMin: 1, PoolMax: 5, RetryDelay: 20 * time.Millisecond}
}

// upgrade opens and closes a store with additional migrations, as a newer program does.
func upgrade(ctx context.Context, t *testing.T, cfg Config, more map[string]string) chan error {
	t.Helper()
	cfg.files, cfg.Migrate = withMigrations(t, more), true
	done := make(chan error, 1)
	go func() {
		s, err := Open(ctx, cfg)
		if err == nil {
			err = s.Close()
		}
		done <- err
	}()
	return done
}

// startTraffic runs tasks from several callers until stop is called. sent counts completed tasks.
func startTraffic(t *testing.T, s *Store) (sent *atomic.Int64, stop func()) {
	t.Helper()
	sent = new(atomic.Int64)
	var next atomic.Int64
	ctx, cancel := context.WithCancel(bg)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := runTask(s, int(next.Add(1))); err != nil {
					t.Errorf("task during the migration = %v", err)
					return
				}
				sent.Add(1)
			}
		})
	}
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(stop)
	return sent, stop
}

// awaitMore waits until n more tasks are completed.
func awaitMore(t *testing.T, sent *atomic.Int64, n int64) {
	t.Helper()
	end := sent.Load() + n
	await.True(t, "tasks complete during the migration", func() bool { return sent.Load() >= end || t.Failed() })
}

// oldSnapshot starts a transaction with a snapshot that prevents an index from being completed.
func oldSnapshot(t *testing.T, s *Store) (end func()) {
	t.Helper()
	c, err := pgx.Connect(bg, s.cfg.URL)
	must(t, err)
	_, err = c.Exec(bg, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
	must(t, err)
	end = sync.OnceFunc(func() { _ = c.Close(bg) })
	t.Cleanup(end)
	return end
}

// awaitBuild waits until the build of the index waits for older snapshots.
func awaitBuild(t *testing.T, s *Store) {
	t.Helper()
	await.True(t, "the index is built", func() bool {
		return countRows(t, s, `pg_stat_progress_create_index WHERE phase = 'waiting for old snapshots' AND datname = current_database()
			AND relid IN (SELECT '{s}.task_rows'::regclass UNION ALL SELECT inhrelid FROM pg_inherits)`) > 0
	})
}

// indexState returns the identity of the index, 0 for none, and whether it is valid.
func indexState(t *testing.T, s *Store) (oid uint32, valid bool) {
	t.Helper()
	err := s.pool.QueryRow(bg, `SELECT indexrelid, indisvalid FROM pg_index WHERE indexrelid = to_regclass($1)`, s.cfg.Schema+".task_rows_extra").Scan(&oid, &valid)
	if !errors.Is(err, pgx.ErrNoRows) {
		must(t, err)
	}
	return oid, valid
}

func wantIndex(t *testing.T, s *Store) {
	t.Helper()
	if oid, valid := indexState(t, s); oid == 0 || !valid {
		t.Errorf("index exists: %t, valid: %t, want a valid index", oid != 0, valid)
	}
	if n := countRows(t, s, `{s}.schema_migrations WHERE version = '209901010000' AND compatible = $1`, baseline); n != 1 {
		t.Errorf("%d migrations are recorded, want 1", n)
	}
}

// lockWaitLogger returns a logger and a channel that receives a value each time a migration waits
// for a lock.
func lockWaitLogger(t *testing.T) (*slog.Logger, chan string) {
	t.Helper()
	seen := make(chan string, 1000)
	return slog.New(slog.NewTextHandler(logWriter(func(text string) {
		if strings.Contains(text, lockWaitText) {
			seen <- text
		}
	}), nil)), seen
}

func TestTasksCompleteWhileAnIndexIsBuilt(t *testing.T) {
	t.Parallel()
	cfg := ownDatabase(t)
	s := open(storetest.Wrap(t), cfg)
	sent, stop := startTraffic(t, s)
	end := oldSnapshot(t, s)
	done := upgrade(bg, t, cfg, map[string]string{addedIndex: addIndex})
	awaitBuild(t, s)
	awaitMore(t, sent, 100)
	select {
	case err := <-done:
		t.Fatalf("Open() = %v, want it to wait for the older snapshot", err)
	default:
	}
	end()
	within(t, "the migration", func() { must(t, <-done) })
	awaitMore(t, sent, 10)
	stop()
	wantIndex(t, s)
}

// lockedTasks returns a store with a task. The table of tasks is locked until release is called.
func lockedTasks(t *testing.T) (cfg Config, s *Store, release func()) {
	t.Helper()
	cfg = emptyConfig(storetest.Wrap(t), Config{})
	s = open(storetest.Wrap(t), cfg)
	must(t, runTask(s, 0))
	return cfg, s, lockRows(t, s, `SELECT 1 FROM {s}.task_rows`)
}

// A long transaction reads the table. A migration of the table must wait for it, and other
// statements must not wait for the migration.
func TestMigrationsYieldToTraffic(t *testing.T) {
	t.Parallel()
	cfg, s, release := lockedTasks(t)
	sent, stop := startTraffic(t, s)
	logger, waiting := lockWaitLogger(t)
	cfg.Logger, cfg.MigrationLockTimeout, cfg.MigrationWait = logger, 50*time.Millisecond, time.Hour
	done := upgrade(bg, t, cfg, map[string]string{"209901010000_column": addColumn})
	for range 4 {
		within(t, "the next attempt", func() { <-waiting })
		awaitMore(t, sent, 10)
	}
	release()
	within(t, "the migration", func() { must(t, <-done) })
	awaitMore(t, sent, 10)
	stop()
	if n := countRows(t, s, `information_schema.columns WHERE table_schema = $1 AND column_name = 'extra'`, cfg.Schema); n != 1 {
		t.Errorf("%d columns were added, want 1", n)
	}
}

func TestMigrationsFailAfterTheirWait(t *testing.T) {
	t.Parallel()
	cfg, s, release := lockedTasks(t)
	shortWait := cfg
	shortWait.MigrationLockTimeout, shortWait.MigrationWait = 20*time.Millisecond, 200*time.Millisecond
	more := map[string]string{"209901010000_column": addColumn}
	var coded *a2a.Error
	if err := <-upgrade(bg, t, shortWait, more); !errors.As(err, &coded) || coded.Code != a2a.CodeUnavailable ||
		!strings.Contains(err.Error(), "was not migrated within 200ms: apply migration 209901010000_column") {
		t.Errorf("Open() = %v, want code unavailable, the migration and the time limit", err)
	}
	must(t, runTask(s, 1))
	release()
	must(t, <-upgrade(bg, t, cfg, more))
}

func TestMigrationRebuildsAnIncompleteIndex(t *testing.T) {
	t.Parallel()
	cfg := ownDatabase(t)
	s := open(storetest.Wrap(t), cfg)
	must(t, runTask(s, 0))
	more := map[string]string{addedIndex: addIndex}
	end := oldSnapshot(t, s)
	done := upgrade(bg, t, cfg, more)
	awaitBuild(t, s)
	pgtest.Exec(t, cfg.URL, "SELECT pg_terminate_backend(pid) FROM pg_stat_progress_create_index WHERE datname = current_database()")
	within(t, "the migration", func() {
		if err := <-done; err == nil {
			t.Error("Open() with a terminated connection = nil, want an error")
		}
	})
	if oid, valid := indexState(t, s); oid == 0 || valid {
		t.Fatalf("index exists: %t, valid: %t, want an invalid index", oid != 0, valid)
	}
	end()
	must(t, <-upgrade(bg, t, cfg, more))
	wantIndex(t, s)
	must(t, runTask(s, 1))
}

// The server continues to build an index after the process was killed. The next process waits for
// it.
func TestMigrationWaitsForAnIndexBuildOfAKilledProcess(t *testing.T) {
	t.Parallel()
	cfg := ownDatabase(t)
	s := open(storetest.Wrap(t), cfg)
	more := map[string]string{addedIndex: addIndex}
	end := oldSnapshot(t, s)
	p, through := pgtest.NewProxy(t, cfg.URL)
	killed := cfg
	killed.URL = through
	done := upgrade(bg, t, killed, more)
	awaitBuild(t, s)
	p.Refuse() // no cancel request reaches the server
	p.CutAll()
	within(t, "the migration of the killed process", func() {
		if err := <-done; err == nil {
			t.Error("Open() with a cut connection = nil, want an error")
		}
	})
	before, _ := indexState(t, s)
	logger, waiting := lockWaitLogger(t)
	next := cfg
	next.Logger = logger
	done = upgrade(bg, t, next, more)
	within(t, "the next migration", func() {
		for text := ""; !strings.Contains(text, errBuilding.Error()); text = <-waiting {
		}
	})
	end()
	within(t, "the next migration", func() { must(t, <-done) })
	wantIndex(t, s)
	if after, _ := indexState(t, s); after != before {
		t.Error("the index was built twice")
	}
}

func TestReplicasThatStartTogetherBuildAnIndexOnce(t *testing.T) {
	t.Parallel()
	for name, pooler := range map[string]bool{"sessions": false, "pooler": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := ownDatabase(t)
			cfg.Pooler = pooler
			s := open(storetest.Wrap(t), cfg)
			_, stop := startTraffic(t, s)
			var all []chan error
			for range 4 {
				all = append(all, upgrade(bg, t, cfg, map[string]string{addedIndex: addIndex, "209901010001_column": addColumn}))
			}
			within(t, "the migrations", func() {
				for _, done := range all {
					if err := <-done; err != nil {
						t.Errorf("Open() = %v", err)
					}
				}
			})
			stop()
			wantIndex(t, s)
		})
	}
}

func TestIndexesOfPartitionedTablesAreBuiltUnderLoad(t *testing.T) {
	t.Parallel()
	cfg := ownDatabase(t)
	createPartitioned(storetest.Wrap(t), cfg)
	s := open(storetest.Wrap(t), cfg)
	sent, stop := startTraffic(t, s)
	end := oldSnapshot(t, s)
	ctx, cancel := context.WithCancel(bg)
	more := map[string]string{addedIndex: addIndex}
	done := upgrade(ctx, t, cfg, more)
	awaitBuild(t, s)
	awaitMore(t, sent, 20)
	cancel() // after the first partition
	within(t, "the end of the migration", func() {
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Open() = %v, want it canceled", err)
		}
	})
	end()
	within(t, "the migration", func() { must(t, <-upgrade(bg, t, cfg, more)) })
	stop()
	wantIndex(t, s)
	if n := countRows(t, s, `pg_inherits WHERE inhparent = '{s}.task_rows_extra'::regclass`); n != partitions {
		t.Errorf("%d partitions have the index, want %d", n, partitions)
	}
}

func TestOlderProgramsAcceptACompatibleSchema(t *testing.T) {
	t.Parallel()
	const third = "209901020000_third"
	after := func(version string) string { return "-- migrate: compatible with " + version + "\nSELECT 1;\n" }
	for _, test := range []struct {
		name, want string
		more       map[string]string
	}{
		{"compatible", "", map[string]string{"209901010000_column": addColumn}},
		{"compatible twice", "", map[string]string{"209901010000_column": addColumn, third: after(baseline)}},
		{"not compatible", "migration 209901010000_column needs a program with migration 209901010000 or later", map[string]string{"209901010000_column": "SELECT 1"}},
		{
			"compatible with a later one", "migration 209901020000_third needs a program with migration 209901010000 or later",
			map[string]string{"209901010000_column": addColumn, third: after("209901010000")},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cfg := freshConfig(storetest.Wrap(t), Config{})
			must(t, <-upgrade(bg, t, cfg, test.more))
			for _, cfg.Migrate = range []bool{false, true} {
				older, err := Open(bg, cfg)
				if test.want != "" {
					if err == nil || !strings.Contains(err.Error(), "schema is newer than this program: "+test.want) {
						t.Errorf("Open() = %v, want %q", err, test.want)
					}
					continue
				}
				must(t, err)
				n := 0
				if cfg.Migrate {
					n = 1
				}
				must(t, runTask(older, n))
				_, err = older.Task(bg, taskKey(n), store.TaskOptions{})
				must(t, err)
				must(t, older.Close())
				all, err := Migrations(bg, cfg)
				must(t, err)
				if newer := len(all) - len(test.more); newer < 1 || all[newer].Name != "209901010000_column" || all[newer].Applied.IsZero() {
					t.Errorf("Migrations() = %+v, want the migrations of the newer program included as applied", all)
				}
			}
		})
	}
}

func TestOnlyIndexesRunWithoutTransaction(t *testing.T) {
	t.Parallel()
	cfg := freshConfig(storetest.Wrap(t), Config{})
	for _, text := range []string{"VACUUM", "CREATE INDEX task_rows_extra ON {s}.task_rows (turn)", "CREATE INDEX CONCURRENTLY ON {s}.task_rows (turn)"} {
		err := <-upgrade(bg, t, cfg, map[string]string{addedIndex: "-- migrate: without transaction\n" + text + ";\n"})
		if err == nil || !strings.Contains(err.Error(), "only this statement may run without transaction") {
			t.Errorf("Open() with %q = %v, want it refused", text, err)
		}
	}
}
