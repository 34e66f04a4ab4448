package sqlite

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historysql"
	"github.com/holdfast-dev/holdfast/store/history/historytest"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// openHistory is a history of a store that a test can reopen.
type openHistory struct {
	*historysql.History
	store *Store
}

func newHistory(t storetest.T, dir string, now func() time.Time) history.Provider {
	s := open(t, Config{Dir: dir, Logger: testLogger(t)})
	return openHistory{historysql.New(s.kit, now), s}
}

var historyHarness = historytest.Harness{
	Open: func(t storetest.T, now func() time.Time) history.Provider { return newHistory(t, t.TempDir(), now) },
	Reopen: func(t storetest.T, p history.Provider, now func() time.Time) history.Provider {
		s := p.(openHistory).store
		if err := s.Close(); err != nil {
			t.Fatalf("Close() = %v", err)
		}
		return newHistory(t, s.cfg.Dir, now)
	},
}

func TestHistory(t *testing.T) {
	t.Parallel()
	historytest.Run(t, historyHarness)
}

func BenchmarkHistorySpeed(b *testing.B) {
	eachReference(b, func(b *testing.B, reference func(*testing.B, *Store) rowChange) {
		historytest.BenchAppend(b, func(b *testing.B) (history.Provider, func(caller, n int) error) {
			s := open(b, Config{Dir: b.TempDir()})
			exec, data := reference(b, s), strings.Repeat("x", historytest.BenchBody)
			return historysql.Of(s), func(_, n int) error { return exec(`INSERT INTO bare VALUES (?, ?)`, int64(n+100), data) }
		})
	})
}

func BenchmarkTailSpeed(b *testing.B) { historytest.BenchTail(b, historyHarness, 1_000_000) }
