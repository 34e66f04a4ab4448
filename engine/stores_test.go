package engine_test

import (
	"testing"

	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/store"
)

// onStores runs a test on each embedded backend.
func onStores(t *testing.T, test func(t *testing.T, s store.Store)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		test(t, inmem.New())
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: t.TempDir()})
		if err != nil {
			t.Fatalf("Open() = %v", err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Errorf("Close() = %v", err)
			}
		})
		test(t, s)
	})
}
