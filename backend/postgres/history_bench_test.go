package postgres

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

func historyBench(b *testing.B) historytest.Harness {
	return historytest.Harness{Open: func(_ storetest.T, now func() time.Time) history.Provider {
		return sqlkit.NewHistory(&kit{openBench(b, Config{}).database}, now)
	}}
}

func BenchmarkHistoryAppend(b *testing.B) { historytest.BenchAppend(b, historyBench(b)) }

// BenchmarkHistoryAppendReference measures the least work for the same commits: inserts of a row
// with the same body.
func BenchmarkHistoryAppendReference(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			s := openBench(b, Config{})
			_, err := s.pool.Exec(bg, s.qualify(`CREATE TABLE {s}.bare (id bigint PRIMARY KEY, data text)`))
			must(b, err)
			insert, data := s.qualify(`INSERT INTO {s}.bare VALUES ($1, $2)`), strings.Repeat("x", historytest.BenchBody)
			runParallel(b, callers, func(n int) error {
				_, err := s.pool.Exec(bg, insert, n, data)
				return err
			})
		})
	}
}

func BenchmarkHistoryTail(b *testing.B) { historytest.BenchTail(b, historyBench(b), 1_000_000) }
