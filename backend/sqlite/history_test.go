package sqlite

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/backend/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historytest"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// openHistory is a history of a store that a test can reopen.
type openHistory struct {
	*sqlkit.History
	store *Store
}

func newHistory(t storetest.T, dir string, now func() time.Time) history.Provider {
	s := open(t, Config{Dir: dir, Logger: testLogger(t)})
	return openHistory{sqlkit.NewHistory(s.kit, now), s}
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

func BenchmarkHistoryAppend(b *testing.B) { historytest.BenchAppend(b, historyHarness) }

// BenchmarkHistoryAppendReference measures the least work for the same commits: grouped inserts
// of a row with the same body.
func BenchmarkHistoryAppendReference(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			s := open(b, Config{Dir: b.TempDir()})
			must(b, s.committer.script(`CREATE TABLE bare (id INTEGER PRIMARY KEY, data TEXT)`))
			insert, err := s.committer.prepare(`INSERT INTO bare VALUES (?, ?)`)
			must(b, err)
			data := strings.Repeat("x", historytest.BenchBody)
			runConcurrently(b, callers, func(n int) error {
				return s.write(bg, &request{weight: 1, apply: func(*writer) error {
					_, err := insert.exec(int64(n), data)
					return err
				}})
			})
		})
	}
}

func BenchmarkHistoryTail(b *testing.B) { historytest.BenchTail(b, historyHarness, 1_000_000) }
