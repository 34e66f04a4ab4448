package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/holdfast-dev/holdfast/backend/sqlite"
)

func TestMigrationsReportsPendingSteps(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	pending := func() (n int) {
		t.Helper()
		all, err := sqlite.Migrations(t.Context(), dir)
		if err != nil || len(all) == 0 {
			t.Fatalf("Migrations() = %v, %v, want at least one migration", all, err)
		}
		for _, m := range all {
			if m.Name == "" || m.Script == "" {
				t.Errorf("Migrations() has %+v, want a name and a script", m)
			}
			if m.Applied.IsZero() {
				n++
			}
		}
		return n
	}
	if n := pending(); n == 0 {
		t.Error("no migration is pending without a database, want all")
	}
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if n := pending(); n != 0 {
		t.Errorf("%d migrations are pending while the store is open, want 0", n)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n := pending(); n != 0 {
		t.Errorf("%d migrations are pending after Open, want 0", n)
	}
}
