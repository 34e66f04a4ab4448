//go:build services

package s3

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/internal/testport"
)

// gateway is a server of S3 that a test starts on a private port: versitygw, which stores objects as
// files.
type gateway struct {
	t    testing.TB
	port int
	dir  string
	mu   sync.Mutex
	cmd  *exec.Cmd
}

const (
	testKey    = "test-access-key"
	testSecret = "test-secret-key"
	testBucket = "blobs"
)

// startGateway starts a server with an empty bucket.
func startGateway(t testing.TB) *gateway {
	t.Helper()
	port, err := testport.New()
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{t: t, port: port, dir: t.TempDir()}
	for _, dir := range []string{"data", "meta"} {
		if err := os.Mkdir(filepath.Join(g.dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	g.start()
	t.Cleanup(g.kill)
	client, err := minio.New(g.endpoint(), &minio.Options{Creds: credentials.NewStaticV4(testKey, testSecret, "")})
	if err == nil {
		err = client.MakeBucket(t.Context(), testBucket, minio.MakeBucketOptions{})
	}
	if err != nil {
		t.Fatalf("MakeBucket() = %v", err)
	}
	return g
}

func (g *gateway) endpoint() string { return fmt.Sprint("127.0.0.1:", g.port) }

// start starts the server and waits until it accepts connections.
func (g *gateway) start() {
	g.t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cmd = exec.Command(pgtest.Program(g.t, "versitygw"), "--port", g.endpoint(), "--quiet", "posix", "--sidecar", filepath.Join(g.dir, "meta"), filepath.Join(g.dir, "data"))
	g.cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+testKey, "ROOT_SECRET_KEY="+testSecret)
	g.cmd.Dir = g.dir
	if err := g.cmd.Start(); err != nil {
		g.t.Fatalf("start versitygw: %v", err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", g.endpoint())
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(deadline) {
			g.t.Fatalf("versitygw does not accept connections: %v", err)
		}
	}
}

// kill ends the server with SIGKILL.
func (g *gateway) kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cmd != nil {
		_ = g.cmd.Process.Kill()
		_ = g.cmd.Wait()
		g.cmd = nil
	}
}

// contents opens the contents below a prefix.
func (g *gateway) contents(ctx context.Context, prefix string) (*Contents, error) {
	return Open(ctx, Config{Endpoint: g.endpoint(), Insecure: true, Bucket: testBucket, Prefix: prefix, AccessKey: testKey, SecretKey: testSecret})
}
