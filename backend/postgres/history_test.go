//go:build services

package postgres

import (
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

func newHistory(t storetest.T, cfg Config, now func() time.Time) history.Provider {
	s := open(t, cfg)
	return openHistory{historysql.New(&kit{database: s.database}, now), s}
}

// runHistorySuite runs the suite in schemas that create returns.
func runHistorySuite(t *testing.T, calls int, create func(t storetest.T) Config) {
	t.Helper()
	historytest.Run(t, historytest.Harness{
		Open: func(t storetest.T, now func() time.Time) history.Provider { return newHistory(t, create(t), now) },
		Reopen: func(t storetest.T, p history.Provider, now func() time.Time) history.Provider {
			s := p.(openHistory).store
			if err := s.Close(); err != nil {
				t.Fatalf("Close() = %v", err)
			}
			return newHistory(t, s.cfg, now)
		},
		Calls: calls,
	})
}

func TestHistory(t *testing.T) {
	t.Parallel()
	runHistorySuite(t, 1000, func(t storetest.T) Config { return emptyConfig(t, Config{}) })
}

func TestHistoryBehindAPooler(t *testing.T) {
	t.Parallel()
	runHistorySuite(t, 200, func(t storetest.T) Config { return partitioned(t, Config{Pooler: true}) })
}
