//go:build services

package postgres

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobsql"
	"github.com/holdfast-dev/holdfast/store/blob/blobtest"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historysql"
	"github.com/holdfast-dev/holdfast/store/history/historytest"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorysql"
	"github.com/holdfast-dev/holdfast/store/memory/memorytest"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

func historyBench(b *testing.B) historytest.Harness {
	return historytest.Harness{Open: func(_ storetest.T, now func() time.Time) history.Provider {
		return historysql.New(&kit{database: openBench(b, Config{}).database}, now)
	}}
}

// The reference makes the least work for the same commits: inserts of a row.
func BenchmarkHistorySpeed(b *testing.B) {
	historytest.BenchAppend(b, func(b *testing.B) (history.Provider, func(caller, n int) error) {
		s := openBench(b, Config{})
		return historysql.Of(s), benchInsert(b, s, strings.Repeat("x", historytest.BenchBody))
	})
}

// benchInsert returns a function that inserts a row in a transaction of its own.
func benchInsert(b *testing.B, s *Store, data string) func(caller, n int) error {
	_, err := s.pool.Exec(bg, s.qualify(`CREATE TABLE {s}.bare (id bigint PRIMARY KEY, data text)`))
	must(b, err)
	insert := s.qualify(`INSERT INTO {s}.bare VALUES ($1, $2)`)
	return func(_, n int) error {
		_, err := s.pool.Exec(bg, insert, n, data)
		return err
	}
}

func BenchmarkTailSpeed(b *testing.B) { historytest.BenchTail(b, historyBench(b), 1_000_000) }

// The reference makes the least work for the same commits: updates of a row.
func BenchmarkStateSpeed(b *testing.B) {
	memorytest.BenchShortTerm(b, func(b *testing.B) (memory.ShortTerm, func(caller int, value string) error) {
		s := openBench(b, Config{})
		states, err := memory.NewShortTerm(memory.ShortTermConfig{Records: store.NewUpdater(s)})
		must(b, err)
		insert := benchInsert(b, s, "")
		for i := range 64 {
			must(b, insert(0, i))
		}
		update := s.qualify(`UPDATE {s}.bare SET data = $1 WHERE id = $2`)
		return states, func(caller int, value string) error {
			_, err := s.pool.Exec(bg, update, value, caller)
			return err
		}
	})
}

// BenchmarkSearchSpeed searches 200,000 facts in 1,000 scopes.
func BenchmarkSearchSpeed(b *testing.B) {
	memorytest.BenchLongTerm(b, memorysql.Of(openBench(b, Config{}), memory.LongTermConfig{}), 1000, nil)
}

// BenchmarkSearchModes searches a scope with 10,000 facts.
func BenchmarkSearchModes(b *testing.B) {
	s := openBench(b, Config{})
	memorytest.BenchModes(b, func(cfg memory.LongTermConfig) memory.LongTerm { return memorysql.Of(s, cfg) }, 10_000, nil)
}

func BenchmarkBlobSpeed(b *testing.B) {
	blobtest.Bench(b, blobtest.Harness{Open: func(_ storetest.T, cfg blob.Config) blobtest.Store {
		s := openBench(b, Config{})
		return blobStore{blobsql.Of(s, cfg), s}
	}}, blobtest.Files)
}
