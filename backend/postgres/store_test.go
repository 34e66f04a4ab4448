//go:build services

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
	for variable, write := range map[string]func(arg string) error{
		childVariable: writeVectors, pinChildVariable: writePins,
	} {
		if arg := os.Getenv(variable); arg != "" {
			fmt.Fprintln(os.Stderr, write(arg))
			os.Exit(1)
		}
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
	os.Exit(runTests(m))
}

// freshConfig completes a configuration with a new schema, which Open creates.
func freshConfig(t storetest.T, cfg Config) Config {
	t.Helper()
	cfg = withDefaults(t, cfg)
	cfg.Schema = pgtest.Schema(t, cfg.URL)
	return cfg
}

// withDefaults completes a configuration except for its schema.
func withDefaults(t storetest.T, cfg Config) Config {
	t.Helper()
	if cfg.URL == "" {
		cfg.URL = pgtest.URL(t)
		if cfg.Pooler {
			cfg.URL = pgtest.PoolerURL(t)
		}
	}
	cfg.Migrate, cfg.RetryDelay = true, 20*time.Millisecond
	if cfg.PoolMax == 0 {
		cfg.PoolMin, cfg.PoolMax = -1, 5
	}
	return cfg
}

// open opens a store and closes it at the end of the test. It opens no connections in advance, also
// with the configuration of an open store.
func open(t storetest.T, cfg Config) *Store {
	t.Helper()
	if cfg.PoolMin == 0 {
		cfg.PoolMin = -1
	}
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
	runSuite(t, harness, func(t storetest.T) Config { return emptyConfig(t, Config{}) })
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

// runSuite runs the suite in schemas that create returns.
func runSuite(t *testing.T, h storetest.Harness, create func(t storetest.T) Config) {
	t.Helper()
	h.Open = func(t storetest.T) store.Store { return open(t, create(t)) }
	storetest.Run(t, h)
}

func testLogger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(logWriter(func(s string) { t.Logf("%s", s) }), nil))
}

type logWriter func(string)

func (w logWriter) Write(p []byte) (int, error) { w(string(p)); return len(p), nil }
