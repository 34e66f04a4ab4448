package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/holdfast-dev/holdfast/a2a"
)

// lockFile is locked for as long as a process uses the data directory. It tells
// the process's id and the time since when.
const lockFile = "holdfast.lock"

// A process that was killed holds its lock until the system has taken it apart,
// and its successor is often started before that.
const (
	lockPatience = time.Second
	lockRetry    = 20 * time.Millisecond
)

// lockDir takes the data directory for this process.
func lockDir(ctx context.Context, dir string) (*flock.Flock, error) {
	path := filepath.Join(dir, lockFile)
	lock := flock.New(path, flock.SetPermissions(0o600))
	wait, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	taken, err := lock.TryLockContext(wait, lockRetry)
	if err != nil && wait.Err() == nil {
		return nil, openError(err, path)
	}
	if !taken {
		return nil, a2a.Errorf(a2a.CodeUnavailable, "data directory %s is locked by %s: stop it or choose another data directory",
			dir, lockHolder(path))
	}
	text := fmt.Sprintf("%d %s\n", os.Getpid(), time.Now().UTC().Format(time.RFC3339))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return nil, errors.Join(openError(err, path), lock.Unlock())
	}
	return lock, nil
}

// lockHolder tells who holds a lock, as far as the file can be read.
func lockHolder(path string) string {
	text, err := os.ReadFile(path)
	pid, since, found := strings.Cut(strings.TrimSpace(string(text)), " ")
	if err != nil || !found {
		return "another process"
	}
	return fmt.Sprintf("process %s (holdfast, since %s)", pid, since)
}
