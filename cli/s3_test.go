//go:build services

package cli_test

import (
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/internal/testport"
)

const s3Secret = "hunter2/secret"

// startService starts a server, waits until it accepts connections, and returns a function that
// kills it.
func startService(t *testing.T, addr string, cmd *exec.Cmd) (kill func()) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	t.Cleanup(kill)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
			return kill
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not accept connections: %v", cmd.Path, err)
		}
	}
}

// startGateway starts an S3 server with the bucket files, and returns its address, the directory of
// its objects, and a function that kills it.
func startGateway(t *testing.T) (addr, dir string, kill func()) {
	t.Helper()
	addr, dir = testport.Addr(t), t.TempDir()
	for _, name := range []string{"data/files", "meta"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(pgtest.Program(t, "versitygw"), "--port", addr, "--quiet", "posix", "--sidecar", filepath.Join(dir, "meta"), filepath.Join(dir, "data"))
	cmd.Env, cmd.Dir = append(os.Environ(), "ROOT_ACCESS_KEY=key", "ROOT_SECRET_KEY="+s3Secret), dir
	return addr, filepath.Join(dir, "data/files"), startService(t, addr, cmd)
}

// objects returns the number of files below a directory.
func objects(t *testing.T, dir string) (n int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestBlobsInS3(t *testing.T) {
	t.Parallel()
	addr, dir, kill := startGateway(t)
	data := t.TempDir()
	createStore(t, data)
	query := "?endpoint=" + addr + "&insecure=true&region=us-east-1"
	environ := []string{"HOLDFAST_DATA=" + data, "STORE_BLOB=s3://key:hunter2%2Fsecret@files/agent" + query}
	holdfast := func(want int, environ []string, args ...string) string {
		t.Helper()
		code, out, stderr := run(t, strings.Repeat("x", 300<<10), environ, args...)
		if code != want {
			t.Errorf("%q = %d, %s, want %d", args, code, stderr, want)
		}
		if strings.Contains(out+stderr, "hunter2") {
			t.Errorf("%q shows the secret key: %s%s", args, out, stderr)
		}
		return strings.TrimSuffix(out, "\n") + stderr
	}
	ref := strings.TrimSpace(holdfast(0, environ, "blobs", "put", "-", "--name", "large"))
	if n := objects(t, filepath.Join(dir, "agent")); n != 1 {
		t.Errorf("the bucket has %d objects below the prefix, want 1", n)
	}
	if got := holdfast(0, environ, "blobs", "get", ref); got != strings.Repeat("x", 300<<10) {
		t.Errorf("blobs get returned %d bytes", len(got))
	}
	holdfast(0, environ, "config", "--check")
	if shown := holdfast(0, environ, "config"); !strings.Contains(shown, "s3://key:***@files/agent?endpoint="+addr) {
		t.Errorf("config = %s, want the URL with the key masked", shown)
	}
	// With the refs in the bucket, an agent with another main storage has the blobs too.
	bucket, other := environ[1]+"&refs=bucket", t.TempDir()
	createStore(t, other)
	ref = strings.TrimSpace(holdfast(0, []string{environ[0], bucket}, "blobs", "put", "-"))
	if got := holdfast(0, []string{"HOLDFAST_DATA=" + other, bucket}, "blobs", "get", ref); got != strings.Repeat("x", 300<<10) {
		t.Errorf("blobs get with the refs in the bucket returned %d bytes", len(got))
	}
	for name, tt := range map[string]struct{ url, want string }{
		"wrong key":    {"s3://key:hunter2@files/agent" + query, "denies access"},
		"wrong bucket": {"s3://key:hunter2%2Fsecret@nowhere/agent" + query, "bucket nowhere does not exist"},
	} {
		got := holdfast(7, []string{environ[0], "STORE_BLOB=" + tt.url}, "serve", "--addr", "127.0.0.1:0")
		if !strings.Contains(got, "the environment variable STORE_BLOB is s3://key:***@") || !strings.Contains(got, tt.want) {
			t.Errorf("serve with a %s: %s, want the variable and %q", name, got, tt.want)
		}
	}
	kill()
	started := time.Now()
	got := holdfast(7, environ, "serve", "--addr", "127.0.0.1:0")
	if !strings.Contains(got, "the environment variable STORE_BLOB is s3://key:***@") || time.Since(started) > 30*time.Second {
		t.Errorf("serve without the S3 server, after %s: %s", time.Since(started), got)
	}
}
