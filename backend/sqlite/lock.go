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

// lockFile is locked while a process uses the data directory. It contains the process
// id and the start time.
const lockFile = "holdfast.lock"

// A killed process holds its lock until the operating system has removed the process.
// Its successor may start before that, so it retries until lockTimeout.
const (
	lockTimeout       = time.Second
	lockRetryInterval = 20 * time.Millisecond
)

// lockDir locks the data directory for this process.
func lockDir(ctx context.Context, dir string) (*flock.Flock, error) {
	path := filepath.Join(dir, lockFile)
	lock := flock.New(path, flock.SetPermissions(0o600))
	wait, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	locked, err := lock.TryLockContext(wait, lockRetryInterval)
	if err != nil && wait.Err() == nil {
		return nil, openError(err, path)
	}
	if !locked {
		return nil, a2a.Errorf(a2a.CodeUnavailable, "data directory %s is locked by %s: stop it or choose another data directory",
			dir, lockHolder(path))
	}
	text := fmt.Sprintf("%d %s\n", os.Getpid(), time.Now().UTC().Format(time.RFC3339))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return nil, errors.Join(openError(err, path), lock.Unlock())
	}
	return lock, nil
}

// lockHolder describes the process that holds a lock, from the content of the file.
func lockHolder(path string) string {
	text, err := os.ReadFile(path)
	pid, since, found := strings.Cut(strings.TrimSpace(string(text)), " ")
	if err != nil || !found {
		return "another process"
	}
	return fmt.Sprintf("process %s (holdfast, since %s)", pid, since)
}
