package postgres

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

var bg = context.Background()

var harness = storetest.Harness{
	Reopen: func(t storetest.T, s store.Store) store.Store {
		if err := s.Close(); err != nil {
			t.Fatalf("Close() = %v", err)
		}
		return open(t, s.(*Store).cfg)
	},
	// The database has the same state after a crash as without Close.
	Crash: func(t storetest.T, s store.Store) store.Store { return open(t, s.(*Store).cfg) },
	Tasks: 300,
	Calls: 4 * 60, // see TestMain
}

func TestMain(m *testing.M) {
	if arg := os.Getenv(childVariable); arg != "" {
		fmt.Fprintln(os.Stderr, writeVectors(arg))
		os.Exit(1)
	}
	if arg := os.Getenv(graphChildVariable); arg != "" {
		fmt.Fprintln(os.Stderr, writeGraphs(arg))
		os.Exit(1)
	}
	// Opening a store takes the time of many calls: run fewer series than by default, each four times
	// as long. The command line overrides it.
	_ = flag.Set("rapid.checks", "12")
	// Tests use less CPU time than the time they wait for the database.
	_ = flag.Set("test.parallel", strconv.Itoa(max(4, runtime.GOMAXPROCS(0))))
	if underRace {
		_ = flag.Set("rapid.checks", "8")
		harness.Tasks = 200
	}
	os.Exit(m.Run())
}

// freshConfig completes a configuration with a new schema, which Open creates.
func freshConfig(t storetest.T, cfg Config) Config {
	t.Helper()
	if cfg.URL == "" {
		cfg.URL = pgtest.URL(t)
	}
	cfg.Schema, cfg.Migrate = pgtest.Schema(t, cfg.URL), true
	cfg.RetryDelay = 20 * time.Millisecond
	if cfg.PoolMax == 0 {
		cfg.PoolMin, cfg.PoolMax = 1, 5
	}
	return cfg
}

// open opens a store and closes it at the end of the test.
func open(t storetest.T, cfg Config) *Store {
	t.Helper()
	s, err := Open(bg, cfg)
	if err != nil {
		t.Fatalf("Open() = %v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// openInTime is open with short timeouts: it retries, because a slow machine may exceed them.
func openInTime(t *testing.T, cfg Config) (s *Store) {
	t.Helper()
	var err error
	await.True(t, "Open() succeeds", func() bool { s, err = Open(bg, cfg); return err == nil })
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestStore(t *testing.T) {
	t.Parallel()
	runSuite(t, harness, func(t storetest.T) Config { return freshConfig(t, Config{}) })
}

func TestStoreBehindAPooler(t *testing.T) {
	t.Parallel()
	runSuite(t, smallHarness(), func(t storetest.T) Config { return partitioned(t, Config{Pooler: true}) })
}

// smallHarness is for suites that repeat TestStore behind a pooler.
func smallHarness() storetest.Harness {
	h := harness
	h.Tasks, h.Calls = 100, 60
	return h
}

// runSuite runs the suite in a pool of schemas, which create makes.
func runSuite(t *testing.T, h storetest.Harness, create func(t storetest.T) Config) {
	t.Helper()
	all := newSchemas(t, create)
	h.Open = func(t storetest.T) store.Store { return open(t, all.get(t)) }
	storetest.Run(t, h)
}

func testLogger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(logWriter(func(s string) { t.Logf("%s", s) }), nil))
}

type logWriter func(string)

func (w logWriter) Write(p []byte) (int, error) { w(string(p)); return len(p), nil }
