package sqlite

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"sync/atomic"
	"syscall"

	"github.com/holdfast-dev/holdfast/a2a"
)

// fileGuard watches whether the database and its write-ahead log are still the files
// that were opened. SQLite goes on without complaint when they were deleted or
// replaced, but what it writes then is gone when the process ends. A loss is final:
// the store accepts no change after it. Safe for concurrent use.
type fileGuard struct {
	files []guardedFile
	log   *slog.Logger
	loss  atomic.Pointer[a2a.Error]
}

type guardedFile struct {
	path string
	info os.FileInfo
}

// guardFiles remembers which files the paths name now.
func guardFiles(log *slog.Logger, paths ...string) (*fileGuard, error) {
	g := &fileGuard{log: log}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		g.files = append(g.files, guardedFile{path, info})
	}
	return g, nil
}

// lost returns the error of a loss that check has found, else nil.
func (g *fileGuard) lost() error {
	if loss := g.loss.Load(); loss != nil {
		return loss
	}
	return nil
}

// check reports a loss. A file whose directory cannot be read is not lost.
func (g *fileGuard) check() error {
	if err := g.lost(); err != nil {
		return err
	}
	for _, f := range g.files {
		now, err := os.Stat(f.path)
		if err == nil && os.SameFile(now, f.info) || err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			continue
		}
		// Clients see this error, so only the log has the path.
		loss := a2a.Errorf(a2a.CodeUnavailable, "the database was deleted or replaced while it was in use: nothing is stored until the server is restarted")
		if g.loss.CompareAndSwap(nil, loss) {
			g.log.Error("the database was deleted or replaced while it was in use: every change is rejected until the server is restarted", "path", f.path)
		}
		return g.lost()
	}
	return nil
}
