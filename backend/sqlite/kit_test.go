package sqlite

import (
	"testing"

	"github.com/holdfast-dev/holdfast/internal/sqlkit/kittest"
)

func TestKitWritesWholeTransactions(t *testing.T) {
	t.Parallel()
	s, err := Open(bg, Config{Dir: t.TempDir()})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	kittest.Run(t, s.kit)
}
