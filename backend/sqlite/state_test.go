package sqlite

import (
	"testing"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/board/boardtest"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorytest"
)

func TestShortTerm(t *testing.T) {
	t.Parallel()
	memorytest.RunShortTerm(t, memorytest.ShortTermOverRecords(harness))
}

func TestBoards(t *testing.T) {
	t.Parallel()
	boardtest.Run(t, boardtest.OverRecords(harness))
}

func BenchmarkStateSpeed(b *testing.B) {
	eachReference(b, func(b *testing.B, reference func(*testing.B, *Store) rowChange) {
		memorytest.BenchShortTerm(b, func(b *testing.B) (memory.ShortTerm, func(caller int, value string) error) {
			s := open(b, Config{Dir: b.TempDir()})
			states, err := memory.NewShortTerm(memory.ShortTermConfig{Records: store.NewUpdater(s)})
			must(b, err)
			exec := reference(b, s)
			for i := range 64 {
				must(b, exec(`INSERT INTO bare VALUES (?, ?)`, int64(i), ""))
			}
			return states, func(caller int, value string) error {
				return exec(`UPDATE bare SET data = ?2 WHERE id = ?1`, int64(caller), value)
			}
		})
	})
}
