package pgtest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// Program returns the path of a server program that scripts/prerequisites installs, such as redis-server.
func Program(t T, name string) string {
	t.Helper()
	os.Getenv(versionsVariable) // see variable
	cache, err := cacheDir()
	if err != nil {
		t.Fatalf("%v", err)
	}
	path := filepath.Join(cache, "bin", name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	path, err = exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is missing: run ./scripts/prerequisites (%v)", name, err)
	}
	return path
}

// cacheDir returns where scripts/services keeps what it makes.
func cacheDir() (string, error) {
	if cache := os.Getenv("HOLDFAST_SERVICES_CACHE"); cache != "" {
		return cache, nil
	}
	user, err := os.UserCacheDir()
	return filepath.Join(user, "holdfast"), err
}

// leash keeps the servers of services running: they end when it is closed, at the latest with this process.
var leash io.Closer

// services starts the servers of scripts/services for this process, and returns the variables that name them.
var services = sync.OnceValues(func() (map[string]string, error) {
	script, err := find("scripts/services")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(script, "run", "sh", "-c", `echo "$HOLDFAST_TEST_POSTGRES_URL $HOLDFAST_TEST_PGBOUNCER_URL"; cat >/dev/null`) //nolint:noctx // it runs as long as the process
	cmd.Stderr = os.Stderr
	if leash, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	urls := strings.Fields(line)
	if err != nil || len(urls) != 2 {
		return nil, errors.Join(fmt.Errorf("%s printed %q: %w", script, line, err), leash.Close(), cmd.Wait())
	}
	return map[string]string{URLVariable: urls[0], PoolerURLVariable: urls[1]}, nil
})

// find returns the path of a file of the repository, in a folder above the tests' package.
func find(name string) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("%s is in no folder above the test: set %s", name, URLVariable)
		}
		dir = parent
	}
}
