package sqlite_test

import (
	"testing"

	"github.com/holdfast-dev/holdfast/backend/sqlite"
)

// The test changes the working directory, so it cannot be parallel.
func TestOpenAcceptsRelativeAndUnusualDirs(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, dir := range []string{"data", "./a/b", "what? 100%#1 é", "../" + "up"} {
		s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
		if err != nil {
			t.Errorf("Open(%q) = %v", dir, err)
			continue
		}
		if err := s.Ping(t.Context()); err != nil {
			t.Errorf("Ping() in %q = %v", dir, err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("Close() in %q = %v", dir, err)
		}
	}
}
