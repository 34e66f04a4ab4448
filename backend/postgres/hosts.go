package postgres

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-dev/holdfast/internal/runtime"
)

const (
	// A server is probed if a request has had no answer for hangAfter and the server answered no other request in this
	// time. A server that does not answer a probe within probeTimeout hangs. It is probed again every probeInterval.
	hangAfter     = 3 * time.Second
	probeTimeout  = 2 * time.Second
	probeInterval = time.Second
)

// hosts watches the servers of a URL that names several. A server that hangs, such as one on a suspended machine, answers
// nothing and closes no connection, so each call and each new connection would wait for its time limit while another server
// is the primary. hosts closes all connections to a server that hangs, and omits it from new ones until it answers a probe.
type hosts struct {
	log     *slog.Logger
	started time.Time
	servers []*server

	mu    sync.Mutex
	names map[string][]string // the hosts of the URL that an address was resolved from
}

// server is one server of a URL.
type server struct {
	hosts *hosts
	host  string
	port  uint16
	probe *pgx.ConnConfig
	hangs atomic.Bool
	// answeredAt is when a connection last received something, as hosts.now.
	answeredAt atomic.Int64

	mu    sync.Mutex
	conns map[*watchedConn]struct{}
}

// watchedConn is a connection to a server.
type watchedConn struct {
	net.Conn
	server *server
	// askedAt is when the first request without an answer was sent, as hosts.now; 0 if there is none.
	askedAt atomic.Int64
}

// watchHosts makes the connections of cc watch their servers. It returns nil if there is only one server.
func watchHosts(cc *pgx.ConnConfig, log *slog.Logger) *hosts {
	h := &hosts{log: log, started: time.Now(), names: make(map[string][]string)}
	for _, f := range fallbacks(cc) {
		if network, _ := pgconn.NetworkAddress(f.Host, f.Port); network != "tcp" || h.serverOf(f) != nil {
			continue
		}
		probe := cc.Copy()
		probe.Host, probe.Port, probe.TLSConfig, probe.Fallbacks = f.Host, f.Port, f.TLSConfig, nil
		probe.ConnectTimeout, probe.ValidateConnect, probe.AfterConnect = probeTimeout, nil, nil
		h.servers = append(h.servers, &server{hosts: h, host: f.Host, port: f.Port, probe: probe, conns: make(map[*watchedConn]struct{})})
	}
	if len(h.servers) < 2 {
		return nil
	}
	dial, lookup := cc.DialFunc, cc.LookupFunc
	cc.LookupFunc = func(ctx context.Context, host string) ([]string, error) {
		addrs, err := lookup(ctx, host)
		h.resolved(host, addrs)
		return addrs, err
	}
	cc.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return h.watch(c, addr), nil
	}
	return h
}

// fallbacks returns the servers that cc tries in turn.
func fallbacks(cc *pgx.ConnConfig) []*pgconn.FallbackConfig {
	return append([]*pgconn.FallbackConfig{{Host: cc.Host, Port: cc.Port, TLSConfig: cc.TLSConfig}}, cc.Fallbacks...)
}

// now returns the time since the start, from a monotonic clock. It is never 0.
func (h *hosts) now() int64 { return int64(time.Since(h.started)) + 1 }

func (h *hosts) serverOf(f *pgconn.FallbackConfig) *server {
	i := slices.IndexFunc(h.servers, func(s *server) bool { return s.host == f.Host && s.port == f.Port })
	if i < 0 {
		return nil
	}
	return h.servers[i]
}

// resolved records the addresses of a host.
func (h *hosts) resolved(host string, addrs []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, addr := range addrs {
		if !slices.Contains(h.names[addr], host) {
			h.names[addr] = append(h.names[addr], host)
		}
	}
}

// watch returns a connection that was made to an address, watched if the address is a server's.
func (h *hosts) watch(c net.Conn, addr string) net.Conn {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return c
	}
	h.mu.Lock()
	names := append([]string{host}, h.names[host]...)
	h.mu.Unlock()
	for _, s := range h.servers {
		if strconv.Itoa(int(s.port)) == port && slices.Contains(names, s.host) {
			w := &watchedConn{Conn: c, server: s}
			s.mu.Lock()
			s.conns[w] = struct{}{}
			s.mu.Unlock()
			return w
		}
	}
	return c
}

// omitHanging removes the servers that hang from those that cc tries, unless all hang.
func (h *hosts) omitHanging(cc *pgx.ConnConfig) {
	if h == nil {
		return
	}
	rest := slices.DeleteFunc(fallbacks(cc), func(f *pgconn.FallbackConfig) bool {
		s := h.serverOf(f)
		return s != nil && s.hangs.Load()
	})
	if len(rest) > 0 {
		cc.Host, cc.Port, cc.TLSConfig, cc.Fallbacks = rest[0].Host, rest[0].Port, rest[0].TLSConfig, rest[1:]
	}
}

// run probes the server while it seems to hang, until ctx is done.
func (s *server) run(ctx context.Context) {
	for runtime.Sleep(ctx, probeInterval) == nil {
		hung := s.hangs.Load()
		if !hung && !s.suspicious() {
			continue
		}
		switch err := s.answers(ctx); {
		case ctx.Err() != nil:
			return
		case err == nil && hung:
			s.hangs.Store(false)
			s.hosts.log.Info("a server of the database answers again", "host", s.host, "port", s.port)
		case err != nil && !hung:
			s.hangs.Store(true)
			s.hosts.log.Warn("a server of the database hangs: its connections are closed, and others are asked", "host", s.host, "port", s.port, "error", err)
			s.closeAll()
		}
	}
}

// suspicious reports whether the server has left a request without an answer for hangAfter, and answered no other one.
func (s *server) suspicious() bool {
	since := s.hosts.now() - int64(hangAfter)
	if s.answeredAt.Load() > since {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if asked := c.askedAt.Load(); asked != 0 && asked <= since {
			return true
		}
	}
	return false
}

// answers returns an error if the server does not answer a new connection. An answer may be an error.
func (s *server) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	c, err := pgx.ConnectConfig(ctx, s.probe.Copy())
	if err == nil {
		_ = c.Close(ctx)
		return nil
	}
	var network net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &network) {
		return err
	}
	return nil
}

// closeAll closes the connections to the server, so that calls that wait for it fail.
func (s *server) closeAll() {
	s.mu.Lock()
	conns := make([]*watchedConn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	s.mu.Unlock()
	for _, c := range conns {
		_ = c.Conn.Close()
	}
}

// Write implements [net.Conn].
func (c *watchedConn) Write(p []byte) (int, error) {
	c.askedAt.CompareAndSwap(0, c.server.hosts.now())
	return c.Conn.Write(p)
}

// Read implements [net.Conn].
func (c *watchedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.askedAt.Store(0)
		c.server.answeredAt.Store(c.server.hosts.now())
	}
	return n, err
}

// Close implements [net.Conn].
func (c *watchedConn) Close() error {
	c.server.mu.Lock()
	delete(c.server.conns, c)
	c.server.mu.Unlock()
	return c.Conn.Close()
}
