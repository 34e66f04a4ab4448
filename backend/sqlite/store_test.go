package sqlite

import (
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

var harness = storetest.Harness{
	Open: func(t storetest.T) store.Store { return open(t, Config{Dir: t.TempDir(), Logger: testLogger(t)}) },
	Reopen: func(t storetest.T, s store.Store) store.Store {
		if err := s.Close(); err != nil {
			t.Fatalf("Close() = %v", err)
		}
		return open(t, Config{Dir: s.(*Store).cfg.Dir})
	},
}

func TestStore(t *testing.T) {
	t.Parallel()
	h := harness
	if underRace {
		h.Tasks = 200
	}
	storetest.Run(t, h)
}

func TestStoreSurvivesKill(t *testing.T) {
	t.Parallel()
	storetest.KillLoop(t, storetest.KillConfig{
		Open: func(dir string) (store.Store, error) { return Open(bg, Config{Dir: dir}) },
	})
}

func BenchmarkStore(b *testing.B) { storetest.Bench(b, harness) }

func BenchmarkDelete(b *testing.B) { storetest.BenchDelete(b, harness) }

func BenchmarkClaims(b *testing.B) { storetest.BenchClaims(b, harness) }

type tester interface {
	Helper()
	Fatalf(format string, args ...any)
}

// emptyDatabase is the file that Open creates. Tests copy it, because creating it takes longer than
// most of them.
var emptyDatabase = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "holdfast-sqlite-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, FileName)
	if err := create(bg, path); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// open opens a store and closes it at the end of the test. A directory that exists and is empty gets a
// copy of emptyDatabase.
func open(t tester, cfg Config) *Store {
	t.Helper()
	if files, err := os.ReadDir(cfg.Dir); err == nil && len(files) == 0 {
		data, err := emptyDatabase()
		if err == nil {
			err = os.WriteFile(filepath.Join(cfg.Dir, FileName), data, 0o600)
		}
		if err != nil {
			t.Fatalf("create database: %v", err)
		}
	}
	s, err := Open(bg, cfg)
	if err != nil {
		t.Fatalf("Open() = %v", err)
	}
	if c, ok := t.(interface{ Cleanup(func()) }); ok {
		c.Cleanup(func() { _ = s.Close() })
	}
	return s
}

func testLogger(t any) *slog.Logger {
	tb, ok := t.(interface{ Logf(string, ...any) })
	if !ok {
		return nil
	}
	return slog.New(slog.NewTextHandler(logWriter(func(s string) { tb.Logf("%s", s) }), nil))
}

type logWriter func(string)

func (w logWriter) Write(p []byte) (int, error) { w(string(p)); return len(p), nil }
