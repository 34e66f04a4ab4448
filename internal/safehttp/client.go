package safehttp

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

const (
	defaultTimeout = 15 * time.Second

	checkTimeout  = 2 * time.Second  // for the DNS lookup at registration
	lookupTimeout = 5 * time.Second  // for the DNS lookup of an attempt
	dialTimeout   = 5 * time.Second  // for a connect, and for a TLS handshake
	headerTimeout = 10 * time.Second // from the request to the response headers, by default
	idleTimeout   = 30 * time.Second // of idle connections; addresses are checked only at the connect
	localAge      = 5 * time.Second  // how long the addresses of this host are cached

	maxHeader = 64 << 10 // bytes of all headers of a response, including 1xx responses
	maxBody   = 4 << 10  // bytes of a response body that Post reads
	maxDials  = 2        // addresses of one lookup that are tried
)

// Resolver resolves host names. net.Resolver implements it.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Dialer connects to an address and port. net.Dialer implements it.
type Dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// ClientConfig configures a Client. Zero fields take the documented default.
type ClientConfig struct {
	// Policy decides which addresses requests may go to.
	Policy Policy
	// Resolver resolves the host names of URLs. Default: Go's own resolver, which does not
	// apply search domains except to allowed hosts.
	Resolver Resolver
	// Dialer connects. Default: a net.Dialer that checks the address again.
	Dialer Dialer
	// EgressProxy is an HTTP proxy ("http://user:password@proxy:3128") for all connections. It
	// gets a CONNECT to the address that was checked. Default: none. The proxy variables of
	// the environment are ignored.
	EgressProxy *url.URL
	// RootCAs are the trusted authorities. Default: the authorities of the system.
	RootCAs *x509.CertPool
	// Timeout is the maximum duration of a request without a deadline in its context. Default
	// 15 s. The response headers must arrive within 10 s of the request, or within Timeout if
	// that is above 15 s.
	Timeout time.Duration
	// MaxConnsPerHost is the maximum number of connections to a host and port. Further requests
	// wait. Default: no limit.
	MaxConnsPerHost int
	// MaxPerAddress is the maximum number of concurrent requests to one public address, for all
	// host names together. An IPv6 network of 64 bits counts as one address. Addresses that
	// AllowNets or AllowHosts of the policy allow have no limit. Further requests fail with
	// OutcomeBusy. Default: no limit.
	MaxPerAddress int
	// IdlePerHost is the maximum number of idle connections to a host and port, which are kept
	// for up to 30 s. Default 64.
	IdlePerHost int
}

// Client makes requests that its policy allows. It is safe for concurrent use.
type Client struct {
	policy    Policy
	resolver  Resolver
	complete  bool // lookups apply no search domains
	dialer    Dialer
	proxy     *proxy
	timeout   time.Duration
	transport *http.Transport
	places    places
}

// New returns a client, or an error that lists all problems of cfg.
func New(cfg ClientConfig) (*Client, error) {
	err := cfg.Policy.validate()
	p, proxyErr := newProxy(cfg.EgressProxy)
	if err = errors.Join(err, proxyErr); err != nil {
		return nil, fmt.Errorf("safehttp config: %w", err)
	}
	c := &Client{policy: cfg.Policy, resolver: cfg.Resolver, dialer: cfg.Dialer, proxy: p, timeout: cmp.Or(cfg.Timeout, defaultTimeout), places: places{most: cfg.MaxPerAddress}}
	c.policy.Local = remember(cfg.Policy.local, localAge)
	if c.resolver == nil {
		c.resolver, c.complete = &net.Resolver{PreferGo: true}, true
	}
	if c.dialer == nil {
		d := &net.Dialer{}
		if p == nil {
			d.ControlContext = c.control
		}
		c.dialer = d
	}
	c.transport = &http.Transport{
		Proxy:                  nil,
		DialContext:            c.dialPinned,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: cfg.RootCAs, ClientSessionCache: tls.NewLRUClientSessionCache(1024)},
		TLSHandshakeTimeout:    dialTimeout,
		ResponseHeaderTimeout:  headTimeout(c.timeout),
		MaxResponseHeaderBytes: maxHeader,
		MaxConnsPerHost:        cfg.MaxConnsPerHost,
		MaxIdleConnsPerHost:    cmp.Or(cfg.IdlePerHost, 64),
		MaxIdleConns:           1024,
		IdleConnTimeout:        idleTimeout,
		DisableCompression:     true,
	}
	return c, nil
}

// headTimeout returns the maximum time until the response headers arrive. See
// ClientConfig.Timeout.
func headTimeout(timeout time.Duration) time.Duration {
	if timeout > defaultTimeout {
		return timeout
	}
	return headerTimeout
}

// CloseIdleConnections closes connections without a request in progress.
func (c *Client) CloseIdleConnections() { c.transport.CloseIdleConnections() }

// Check returns an error if a URL must not be registered. The error is a *Refusal, unless the
// addresses of this host could not be read. Check resolves the name and checks its addresses,
// but ignores a name that does not resolve within two seconds.
func (c *Client) Check(ctx context.Context, rawURL string) error {
	e, err := c.policy.examine(rawURL)
	if err != nil || e.name == "" {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	answers, err := c.lookup(ctx, e)
	if err != nil {
		return nil // no answer is no reason to refuse
	}
	_, err = c.checkAnswers(e, answers)
	return err
}

// lookup makes one DNS lookup of the name of e.
func (c *Client) lookup(ctx context.Context, e *endpoint) ([]netip.Addr, error) {
	name := e.name
	if c.complete && !c.policy.allowsHost(e.host) {
		name += "."
	}
	answers, err := c.resolver.LookupNetIP(ctx, "ip", name)
	if err == nil && len(answers) == 0 {
		err = &net.DNSError{Err: "no addresses", Name: e.name, IsNotFound: true}
	}
	return answers, err
}

// checkAnswers returns the addresses to try, or an error if the policy rejects any of the
// answers: only an attacker mixes allowed addresses with others.
func (c *Client) checkAnswers(e *endpoint, answers []netip.Addr) ([]netip.AddrPort, error) {
	targets := make([]netip.AddrPort, len(answers))
	for i, addr := range answers {
		targets[i] = netip.AddrPortFrom(addr.Unmap(), e.port)
		if err := c.policy.CheckAddr(e.host, targets[i]); err != nil {
			return nil, err
		}
	}
	for i, t := range targets {
		if t.Addr().Is4() != targets[0].Addr().Is4() {
			targets[1], targets[i] = t, targets[1]
			break
		}
	}
	return targets[:min(len(targets), maxDials)], nil
}

// resolve returns the addresses that an attempt may use.
func (c *Client) resolve(ctx context.Context, e *endpoint) ([]netip.AddrPort, error) {
	answers := []netip.Addr{e.addr}
	if e.name != "" {
		lookupCtx, cancel := context.WithTimeout(ctx, lookupTimeout)
		defer cancel()
		var err error
		if answers, err = c.lookup(lookupCtx, e); err != nil {
			return nil, failed(ctx, OutcomeDNS, netip.AddrPort{}, err)
		}
	}
	targets, err := c.checkAnswers(e, answers)
	if err != nil {
		return nil, refused(err)
	}
	return targets, nil
}

// Request is a POST request.
type Request struct {
	URL *url.URL // as returned by CheckURL; Post checks it again
	// Header and Body must not be changed, not even after Post has returned: a connection may
	// still be sending them.
	Header http.Header
	Body   []byte
}

// Response is the response to a request, without its body.
type Response struct {
	Status int // 200 to 599; redirects are not followed
	// RetryAfter is the delay that the response requests, at most one day, or 0.
	RetryAfter time.Duration
	// Address is the address that the request was sent to.
	Address netip.AddrPort
}

// Post makes one attempt: at most one DNS lookup and one request, and follows no redirect. It
// reads and discards up to 4 KiB of the response body. It returns when ctx is done at the
// latest; if the body is incomplete then, the outcome is OutcomeTimeout. A body that is
// truncated before that is no error. Errors are of type *Error.
func (c *Client) Post(ctx context.Context, r Request) (Response, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	if r.URL == nil {
		return Response{}, refused(&Refusal{Rule: "syntax", Text: "is not a URL"})
	}
	resp, to, err := c.do(ctx, http.MethodPost, r.URL.String(), r.Header, r.Body)
	if err != nil {
		return Response{}, err
	}
	defer resp.Body.Close()
	// Reading one byte more than the limit reaches the end of a body of that size, so that
	// the connection can be reused.
	if _, err := io.CopyN(io.Discard, resp.Body, maxBody+1); err != nil && ctx.Err() != nil {
		return Response{}, failed(ctx, OutcomeProtocol, to, err)
	}
	return Response{Status: resp.StatusCode, RetryAfter: retryAfter(resp.Header, time.Now()), Address: to}, nil
}

// Exchange is Post that returns the response body, of at most limit bytes. If the body is longer or
// incomplete, it returns an error.
func (c *Client) Exchange(ctx context.Context, r Request, limit int64) (Response, []byte, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	if r.URL == nil {
		return Response{}, nil, refused(&Refusal{Rule: "syntax", Text: "is not a URL"})
	}
	resp, to, err := c.do(ctx, http.MethodPost, r.URL.String(), r.Header, r.Body)
	if err != nil {
		return Response{}, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return Response{}, nil, failed(ctx, OutcomeProtocol, to, err)
	}
	if int64(len(body)) > limit {
		return Response{}, nil, &Error{Outcome: OutcomeTooLarge, Address: to, Err: fmt.Errorf("more than %d bytes", limit)}
	}
	return Response{Status: resp.StatusCode, RetryAfter: retryAfter(resp.Header, time.Now()), Address: to}, body, nil
}

// Fetch gets a file of at most limit bytes. The response must have status 200; redirects are not
// followed. Fetch returns when ctx is done at the latest. The caller must not change header
// afterwards. Before Fetch allocates memory for content, it calls grow with the number of bytes,
// and returns its error. Other errors are of type *Error.
func (c *Client) Fetch(ctx context.Context, rawURL string, header http.Header, limit int64, grow func(ctx context.Context, bytes int64) error) (data []byte, contentType string, err error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	resp, to, err := c.do(ctx, http.MethodGet, rawURL, header, nil)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, "", &Error{Outcome: OutcomeStatus, Address: to, Status: resp.StatusCode, Err: fmt.Errorf("status %d, want 200", resp.StatusCode)}
	}
	if coding := resp.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return nil, "", &Error{Outcome: OutcomeProtocol, Address: to, Err: fmt.Errorf("content encoding %.40q, which was not asked for", coding)}
	}
	tooLarge := &Error{Outcome: OutcomeTooLarge, Address: to, Err: fmt.Errorf("more than %d bytes", limit)}
	if resp.ContentLength > limit {
		return nil, "", tooLarge
	}
	f := fetching{body: resp.Body, grow: func(bytes int64) error { return grow(ctx, bytes) }}
	data, err = f.read(resp.ContentLength, min(limit, math.MaxInt64-1)+1)
	switch {
	case f.refused:
		return nil, "", err
	case err != nil:
		return nil, "", failed(ctx, OutcomeProtocol, to, err)
	}
	if int64(len(data)) > limit {
		return nil, "", tooLarge
	}
	return data, resp.Header.Get("Content-Type"), nil
}

func (c *Client) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, c.timeout)
}

// do makes one request. It returns the response with an unread body, and the address that the
// request was sent to.
func (c *Client) do(ctx context.Context, method, rawURL string, header http.Header, body []byte) (*http.Response, netip.AddrPort, error) {
	e, err := c.policy.examine(rawURL)
	if err == nil {
		err = checkHeader(header)
	}
	if err != nil {
		return nil, netip.AddrPort{}, refused(err)
	}
	targets, err := c.resolve(ctx, e)
	if err != nil {
		return nil, netip.AddrPort{}, err
	}
	targets, release := c.places.acquire(targets, func(addr netip.Addr) (netip.Addr, bool) { return c.policy.counted(e.host, addr) })
	if len(targets) == 0 {
		return nil, netip.AddrPort{}, &Error{Outcome: OutcomeBusy, Err: fmt.Errorf("%d requests to its address are under way", c.places.most)}
	}
	a := &attempt{host: e.host, targets: targets}
	a.deadline, _ = ctx.Deadline()
	if header == nil {
		header = http.Header{}
	}
	req := &http.Request{Method: method, URL: e.url, Host: e.url.Host, Header: header, Body: http.NoBody, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	if len(body) > 0 {
		req.ContentLength = int64(len(body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		req.Body, _ = req.GetBody()
	}
	// The trace has no Got1xxResponse, so net/http counts the headers of 1xx responses toward
	// MaxResponseHeaderBytes.
	traced := httptrace.WithClientTrace(context.WithValue(ctx, attemptKey{}, a), &httptrace.ClientTrace{GotConn: a.gotConn, TLSHandshakeDone: a.handshakeDone})
	resp, err := c.transport.RoundTrip(req.WithContext(traced))
	if err != nil {
		release()
		return nil, netip.AddrPort{}, a.failed(ctx, err)
	}
	resp.Body = &countedBody{resp.Body, release}
	if resp.StatusCode < 200 || resp.StatusCode > 599 {
		resp.Body.Close()
		return nil, netip.AddrPort{}, &Error{Outcome: OutcomeProtocol, Address: a.address(), Err: fmt.Errorf("status %d", resp.StatusCode)}
	}
	return resp, a.address(), nil
}
