package safehttp

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"sync/atomic"
	"syscall"
	"time"
)

// attempt is one request, with the addresses that it may connect to. dialPinned gets it from the
// context and ignores the address that net/http passes.
type attempt struct {
	host     string
	targets  []netip.AddrPort
	deadline time.Time

	called atomic.Pointer[netip.AddrPort] // the address tried last, or the address of the reused connection
	tls    atomic.Bool                    // the TLS handshake failed
}

type attemptKey struct{}

// pinned is a connection to a checked address.
type pinned struct {
	net.Conn
	to netip.AddrPort
}

// dialError is an error of a connect.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }

var errNotPinned = errors.New("dial without an address that was checked")

// address returns the address that the request was sent to, or the zero value.
func (a *attempt) address() netip.AddrPort {
	if to := a.called.Load(); to != nil {
		return *to
	}
	return netip.AddrPort{}
}

func (a *attempt) gotConn(info httptrace.GotConnInfo) {
	conn := info.Conn
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	if p, ok := conn.(*pinned); ok {
		a.called.Store(&p.to)
	}
}

func (a *attempt) handshakeDone(_ tls.ConnectionState, err error) { a.tls.Store(err != nil) }

// dialPinned connects to one of the addresses of the attempt in ctx.
func (c *Client) dialPinned(ctx context.Context, _, _ string) (net.Conn, error) {
	a, ok := ctx.Value(attemptKey{}).(*attempt)
	if !ok {
		return nil, &dialError{errNotPinned}
	}
	if !a.deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, a.deadline)
		defer cancel()
	}
	err := errNotPinned
	for _, to := range a.targets {
		a.called.Store(&to)
		var conn net.Conn
		if conn, err = c.dialOne(ctx, a.host, to); err == nil {
			return &pinned{conn, to}, nil
		}
		var refusal *Refusal
		if errors.As(err, &refusal) || ctx.Err() != nil {
			break
		}
	}
	return nil, &dialError{err}
}

func (c *Client) dialOne(ctx context.Context, host string, to netip.AddrPort) (net.Conn, error) {
	if err := c.policy.CheckAddr(host, to); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if c.proxy != nil {
		return c.proxy.connect(ctx, c.dialer, to)
	}
	return c.dialer.DialContext(ctx, "tcp", to.String())
}

// control checks an address immediately before the connect.
func (c *Client) control(ctx context.Context, network, address string, _ syscall.RawConn) error {
	if network != "tcp4" && network != "tcp6" {
		return &Refusal{Rule: "address", Text: "host is not allowed", Detail: "network " + network}
	}
	a, ok := ctx.Value(attemptKey{}).(*attempt)
	if !ok {
		return errNotPinned
	}
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	return c.policy.CheckAddr(a.host, to)
}

// ParseProxy returns the URL of [ClientConfig.EgressProxy], nil for "". The error does not contain the
// text, which may have a password.
func ParseProxy(text string) (*url.URL, error) {
	if text == "" {
		return nil, nil
	}
	u, err := url.Parse(text)
	if err == nil {
		_, err = newProxy(u)
	}
	if err != nil {
		return nil, errors.New("want http://host:port or http://user:password@host:port")
	}
	return u, nil
}

// proxy is an HTTP proxy that makes the connections.
type proxy struct {
	address string
	auth    string // the value of Proxy-Authorization, or empty
}

func newProxy(u *url.URL) (*proxy, error) {
	if u == nil {
		return nil, nil
	}
	if u.Scheme != "http" || u.Hostname() == "" || u.Port() == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("EgressProxy: want http://host:port, optionally with user:password@")
	}
	p := &proxy{address: u.Host}
	if u.User != nil {
		password, _ := u.User.Password()
		p.auth = "Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password))
	}
	return p, nil
}

// connect connects to an address through the proxy. The proxy gets no name to resolve.
func (p *proxy) connect(ctx context.Context, d Dialer, to netip.AddrPort) (net.Conn, error) {
	conn, err := d.DialContext(ctx, "tcp", p.address)
	if err != nil {
		return nil, fmt.Errorf("egress proxy: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) }) //nolint:errcheck // the connection is broken then
	err = p.handshake(conn, to)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close() //nolint:errcheck // err says more
		return nil, fmt.Errorf("egress proxy: %w", err)
	}
	return conn, nil
}

func (p *proxy) handshake(conn net.Conn, to netip.AddrPort) error {
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: to.String()}, Host: to.String(), Header: http.Header{"User-Agent": nil}}
	if p.auth != "" {
		req.Header.Set("Proxy-Authorization", p.auth)
	}
	if err := req.Write(conn); err != nil {
		return err
	}
	buffered := bufio.NewReader(io.LimitReader(conn, maxHeader))
	// The body is the tunnel, and closing it would read from it.
	resp, err := http.ReadResponse(buffered, req) //nolint:bodyclose // see above
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	if buffered.Buffered() > 0 {
		return errors.New("it sent data before the tunnel was used")
	}
	return nil
}
