package postgres

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

var bg = context.Background()

var harness = harnessOf(Config{})

// harnessOf opens stores of some configuration in the suite.
func harnessOf(cfg Config) storetest.Harness {
	return storetest.Harness{
		Open: func(t storetest.T) store.Store { return open(t, fresh(t, cfg)) },
		Reopen: func(t storetest.T, s store.Store) store.Store {
			if err := s.Close(); err != nil {
				t.Fatalf("Close() = %v", err)
			}
			return open(t, s.(*Store).cfg)
		},
		// What a process leaves behind when it dies is what is there without a close.
		Crash: func(t storetest.T, s store.Store) store.Store { return open(t, s.(*Store).cfg) },
		Tasks: 300,
	}
}

// fresh completes a configuration with a schema that is not there yet.
func fresh(t storetest.T, cfg Config) Config {
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

// open opens a store that is closed at the end of the test.
func open(t storetest.T, cfg Config) *Store {
	t.Helper()
	s, err := Open(bg, cfg)
	if err != nil {
		t.Fatalf("Open() = %v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, harness)
}

func TestStoreBehindAPooler(t *testing.T) {
	t.Parallel()
	storetest.Run(t, harnessOf(Config{Pooler: true}))
}

func testLogger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(logWriter(func(s string) { t.Logf("%s", s) }), nil))
}

type logWriter func(string)

func (w logWriter) Write(p []byte) (int, error) { w(string(p)); return len(p), nil }
