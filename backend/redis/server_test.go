//go:build services

package redis

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/internal/testport"
)

// server is a redis-server that a test starts on a private port.
type server struct {
	t    testing.TB
	port int
	dir  string
	args []string
	mu   sync.Mutex
	cmd  *exec.Cmd
}

// freePort returns a port that is free, as is the one 10,000 above it, which a node of a cluster
// uses too.
func freePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		port, err := testport.New()
		if err != nil {
			t.Fatal(err)
		}
		if bus, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port+10_000)); err == nil {
			bus.Close()
			return port
		}
	}
	t.Fatal("found no free port")
	return 0
}

// startServer starts an empty server with settings such as "--appendonly", "yes".
func startServer(t testing.TB, args ...string) *server {
	t.Helper()
	s := &server{t: t, port: freePort(t), dir: t.TempDir(), args: args}
	s.start()
	t.Cleanup(s.kill)
	return s
}

func (s *server) addr() string { return fmt.Sprint("127.0.0.1:", s.port) }
func (s *server) url() string  { return "redis://" + s.addr() }

// start starts the server and waits until it has loaded its data.
func (s *server) start() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cmd = exec.Command(pgtest.Program(s.t, "redis-server"), append([]string{
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--logfile", "server.log", "--enable-debug-command", "local",
	}, s.args...)...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatalf("start redis-server: %v", err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if s.ready() {
			return
		}
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(filepath.Join(s.dir, "server.log"))
			s.t.Fatalf("redis-server does not respond: %s", log)
		}
	}
}

// ready reports whether the server answers a ping, also with an error about a password.
func (s *server) ready() bool {
	c, err := net.DialTimeout("tcp", s.addr(), time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	reply := make([]byte, 64)
	n, _ := c.Read(reply)
	return strings.HasPrefix(string(reply[:n]), "+PONG") || strings.HasPrefix(string(reply[:n]), "-NOAUTH")
}

// kill ends the server with SIGKILL.
func (s *server) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// signal sends a signal to the server.
func (s *server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatalf("signal %v: %v", sig, err)
	}
}

// client returns a client for the server.
func (s *server) client(t testing.TB) *goredis.Client {
	c := goredis.NewClient(&goredis.Options{Addr: s.addr(), Protocol: 2, DisableIdentity: true})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// startCluster starts a cluster of three masters.
func startCluster(t testing.TB) (servers []*server) {
	t.Helper()
	const nodes, slots = 3, 16_384
	var clients []*goredis.Client
	for i := range nodes {
		s := startServer(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000")
		servers = append(servers, s)
		clients = append(clients, s.client(t))
		must(t, clients[i].ClusterAddSlotsRange(t.Context(), i*slots/nodes, (i+1)*slots/nodes-1).Err())
		must(t, clients[0].ClusterMeet(t.Context(), "127.0.0.1", strconv.Itoa(s.port)).Err())
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		ready := 0
		for _, c := range clients {
			info, _ := c.ClusterInfo(t.Context()).Result()
			if strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprint("cluster_known_nodes:", nodes)) {
				ready++
			}
		}
		if ready == nodes {
			return servers
		}
		if time.Now().After(deadline) {
			t.Fatal("the cluster does not become ready")
		}
	}
}

func clusterURL(servers []*server) string {
	var addrs []string
	for _, s := range servers {
		addrs = append(addrs, s.addr())
	}
	return "redis://" + strings.Join(addrs, ",")
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var prefixes atomic.Int64

// opener is the part of a test that opens a store.
type opener interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(f func())
}

// open opens a store with a prefix of its own, unless cfg has one.
func open(t opener, cfg Config) *Store {
	t.Helper()
	if cfg.Prefix == "" {
		cfg.Prefix = fmt.Sprintf("test%d:", prefixes.Add(1))
	}
	s, err := Open(bg, cfg)
	if err != nil {
		t.Fatalf("Open() = %v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}
