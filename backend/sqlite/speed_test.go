package sqlite

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
)

// rowChange runs a statement that changes one row of the table bare.
type rowChange func(text string, args ...any) error

// eachReference runs a benchmark with two references: each caller commits by itself, on a
// connection with the settings of the store, or the commits of callers are grouped.
func eachReference(b *testing.B, run func(b *testing.B, reference func(*testing.B, *Store) rowChange)) {
	const table = `CREATE TABLE bare (id INTEGER PRIMARY KEY, data TEXT)`
	b.Run("own commits", func(b *testing.B) {
		run(b, func(b *testing.B, _ *Store) rowChange {
			c, err := openConn(filepath.Join(b.TempDir(), FileName), readWrite, "journal_mode(wal)", "synchronous(FULL)", fmt.Sprintf("wal_autocheckpoint(%d)", walAutocheckpoint))
			must(b, err)
			b.Cleanup(func() { _ = c.close() })
			must(b, c.script(table))
			var mu sync.Mutex
			return func(text string, args ...any) error {
				mu.Lock()
				defer mu.Unlock()
				_, err := c.exec(text, args...)
				return err
			}
		})
	})
	b.Run("grouped commits", func(b *testing.B) {
		run(b, func(b *testing.B, s *Store) rowChange {
			must(b, s.committer.script(table))
			return func(text string, args ...any) error {
				return s.write(bg, &request{weight: 1, apply: func(w *writer) error {
					_, err := w.exec(text, args...)
					return err
				}})
			}
		})
	})
}
