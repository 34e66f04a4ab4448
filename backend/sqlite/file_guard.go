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

// fileGuard checks that the paths of the database and its write-ahead log still name
// the opened files. SQLite reports no error when they were deleted or replaced, but its
// writes are then lost when the process ends. After such a loss the store rejects all
// changes. It is safe for concurrent use.
type fileGuard struct {
	files []watchedFile
	log   *slog.Logger
	loss  atomic.Pointer[a2a.Error]
}

type watchedFile struct {
	path string
	info os.FileInfo
}

// watchFiles returns a guard for the files that the paths name now.
func watchFiles(log *slog.Logger, paths ...string) (*fileGuard, error) {
	g := &fileGuard{log: log}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		g.files = append(g.files, watchedFile{path, info})
	}
	return g, nil
}

// lost returns the loss that check has found, or nil.
func (g *fileGuard) lost() error {
	if loss := g.loss.Load(); loss != nil {
		return loss
	}
	return nil
}

// check returns an error if a file was lost. A file in an unreadable directory does not
// count as lost.
func (g *fileGuard) check() error {
	if err := g.lost(); err != nil {
		return err
	}
	for _, f := range g.files {
		now, err := os.Stat(f.path)
		if err == nil && os.SameFile(now, f.info) || err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			continue
		}
		// Clients receive this error, so only the log has the path.
		loss := a2a.Errorf(a2a.CodeUnavailable, "the database was deleted or replaced while it was in use: changes are rejected until the server is restarted")
		if g.loss.CompareAndSwap(nil, loss) {
			g.log.Error("database was deleted or replaced while in use: changes are rejected until the server is restarted", "path", f.path)
		}
		return g.lost()
	}
	return nil
}
