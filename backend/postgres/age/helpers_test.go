//go:build services

package age

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/backend/postgres"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

var bg = context.Background()

func TestMain(m *testing.M) {
	if arg := os.Getenv(graphChildVariable); arg != "" {
		fmt.Fprintln(os.Stderr, writeGraphs(arg))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// freshConfig returns a configuration with a new schema, which Open creates.
func freshConfig(t storetest.T, makesCopies bool) Config {
	t.Helper()
	url := pgtest.URL(t)
	cfg := postgres.Config{URL: url, Schema: pgtest.Schema(t, url), Migrate: true, RetryDelay: 20 * time.Millisecond, PoolMin: -1, PoolMax: 5}
	return Config{Postgres: cfg, Copy: makesCopies}
}

// configs has the configurations of stores, to open them again.
var configs sync.Map

// open opens a store and closes it at the end of the test.
func open(t storetest.T, cfg Config) *Store {
	t.Helper()
	s, err := Open(bg, cfg)
	if err != nil {
		t.Fatalf("Open() = %v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	configs.Store(s, cfg)
	return s
}

// reopen closes a store and opens its data again.
func reopen(t storetest.T, s store.Store) store.Store {
	if err := s.Close(); err != nil {
		t.Fatalf("Close() = %v", err)
	}
	cfg, _ := configs.Load(s)
	return open(t, cfg.(Config))
}

// connect returns a connection that is closed at the end of the test.
func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(bg, url)
	must(t, err)
	t.Cleanup(func() { _ = c.Close(bg) })
	return c
}

func administer(t testing.TB, url string, texts ...string) {
	t.Helper()
	c, err := pgx.Connect(bg, url)
	must(t, err)
	defer func() { _ = c.Close(bg) }()
	for _, text := range texts {
		_, err := c.Exec(bg, text)
		for err != nil && strings.Contains(err.Error(), "tuple concurrently updated") { // by another test's rights to the same database
			_, err = c.Exec(bg, text)
		}
		must(t, err)
	}
}

// proxy forwards TCP connections to the server, and cuts them.
type proxy struct {
	target string

	mu        sync.Mutex
	remaining int // bytes of answers until all connections are cut, if armed
	armed     bool
	conns     map[net.Conn]bool
	cuts      int
}

// newProxy starts a proxy in front of a database and returns its URL.
func newProxy(t *testing.T, database string) (*proxy, string) {
	t.Helper()
	u, err := url.Parse(database)
	must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p := &proxy{target: u.Host, conns: make(map[net.Conn]bool)}
	u.Host = l.Addr().String()
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		p.cut()
		p.mu.Unlock()
		wg.Wait()
	})
	return p, u.String()
}

// cutAfter forwards n more bytes of answers and then cuts all connections.
func (p *proxy) cutAfter(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remaining, p.armed = n, true
}

// disarm cancels cutAfter.
func (p *proxy) disarm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = false
}

// cut closes the connections of the clients. The caller holds mu.
func (p *proxy) cut() {
	for c := range p.conns {
		_ = c.Close()
	}
	clear(p.conns)
}

func (p *proxy) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	p.mu.Lock()
	p.conns[client] = true
	p.mu.Unlock()
	var wg sync.WaitGroup
	wg.Go(func() { // the server receives everything that the client has sent
		buf := make([]byte, 64<<10)
		for {
			n, err := client.Read(buf)
			if _, failed := server.Write(buf[:n]); failed != nil {
				return
			}
			if err != nil {
				_ = server.(*net.TCPConn).CloseWrite()
				return
			}
		}
	})
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		_, _ = client.Write(buf[:p.pass(n)]) // it may have been cut
		if p.mu.Lock(); p.armed && p.remaining == 0 {
			p.armed = false
			p.cuts++
			p.cut()
		}
		p.mu.Unlock()
		if err != nil {
			break
		}
	}
	_ = client.Close()
	wg.Wait()
	_ = server.Close()
}

// pass returns how many of n bytes to forward.
func (p *proxy) pass(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.armed {
		n = min(n, p.remaining)
		p.remaining -= n
	}
	return n
}
