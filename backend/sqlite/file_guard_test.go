package sqlite

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/await"
)

// logCounter collects the log lines at level error.
type logCounter struct {
	slog.Handler
	mu     sync.Mutex
	errors []string
}

func (c *logCounter) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errors = append(c.errors, string(p))
	return len(p), nil
}

func (c *logCounter) lines() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.errors
}

func TestWritesFailAfterFilesAreRemoved(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("open files cannot be removed here")
	}
	for name, lose := range map[string]func(dir string) error{
		"directory deleted": os.RemoveAll,
		"directory replaced": func(dir string) error {
			return errors.Join(os.Rename(dir, dir+"-old"), os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, FileName), []byte("new"), 0o600))
		},
		"directory replaced by a file": func(dir string) error { return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)) },
		"database deleted":             func(dir string) error { return os.Remove(filepath.Join(dir, FileName)) },
		"log deleted":                  func(dir string) error { return os.Remove(filepath.Join(dir, FileName+"-wal")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			var logged logCounter
			s := open(t, Config{Dir: dir, Logger: slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelError}))})
			must(t, commitOne(s, submitted(1)))
			must(t, lose(dir))
			for n := 2; n < 5; n++ {
				if err := commitOne(s, submitted(n)); a2a.CodeOf(err) != a2a.CodeUnavailable || !strings.Contains(fmt.Sprint(err), "was deleted or replaced") {
					t.Errorf("Commit() after the loss = %v, want code %s and the cause", err, a2a.CodeUnavailable)
				}
			}
			if err := s.Ping(t.Context()); a2a.CodeOf(err) != a2a.CodeUnavailable {
				t.Errorf("Ping() after the loss = %v, want code %s", err, a2a.CodeUnavailable)
			}
			if lines := logged.lines(); len(lines) != 1 || !strings.Contains(lines[0], "was deleted or replaced") {
				t.Errorf("log at level error = %q, want one line about the loss", lines)
			}
		})
	}
}

func TestFileLossIsDetectedWithoutWrites(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("open files cannot be removed here")
	}
	s := open(t, Config{Dir: t.TempDir()})
	must(t, commitOne(s, submitted(1)))
	must(t, os.Remove(s.path))
	await.True(t, "the store detects that its file was removed", func() bool { return s.committer.files.lost() != nil })
}

func BenchmarkFileGuard(b *testing.B) {
	s, err := Open(bg, Config{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	for b.Loop() {
		if err := s.committer.files.check(); err != nil {
			b.Fatal(err)
		}
	}
}
