package sqlite

import (
	"log/slog"
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

func BenchmarkClaims(b *testing.B) { storetest.BenchClaims(b, harness) }

type tester interface {
	Helper()
	Fatalf(format string, args ...any)
}

// open opens a store and closes it at the end of the test.
func open(t tester, cfg Config) *Store {
	t.Helper()
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
