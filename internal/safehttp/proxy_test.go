package safehttp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// egress is a proxy that tunnels everything to one server.
type egress struct {
	url    *url.URL
	mu     sync.Mutex
	asked  []string // the targets of CONNECT
	auth   string
	answer string // instead of a tunnel
}

func newEgress(t *testing.T, server string) *egress {
	t.Helper()
	p := &egress{}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			open.Go(func() { p.tunnel(conn, server) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		open.Wait()
	})
	p.url = &url.URL{Scheme: "http", Host: listener.Addr().String()}
	return p
}

func (p *egress) tunnel(conn net.Conn, server string) {
	defer conn.Close()
	buffered := bufio.NewReader(conn)
	req, err := http.ReadRequest(buffered)
	if err != nil {
		return
	}
	p.mu.Lock()
	p.asked = append(p.asked, req.Method+" "+req.RequestURI+" "+req.Host)
	p.auth = req.Header.Get("Proxy-Authorization")
	answer := p.answer
	p.mu.Unlock()
	if answer != "" {
		_, _ = io.WriteString(conn, answer)
		_, _ = io.Copy(io.Discard, conn)
		return
	}
	target, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer target.Close()
	_, _ = io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n")
	go func() {
		_, _ = io.Copy(target, buffered)
		target.Close()
	}()
	_, _ = io.Copy(conn, target)
}

func TestEgressProxyIsGivenTheAddress(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	var hosts []string
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { hosts = append(hosts, r.Host) })
	secure := ca.serveTLS(t, "a.example", nil, handler)
	plain := httptest.NewServer(handler)
	defer plain.Close()
	for raw, server := range map[string]string{"https://a.example/x": secure.Listener.Addr().String(), "http://a.example:8080/x": plain.Listener.Addr().String()} {
		hosts = nil
		p := newEgress(t, server)
		p.url.User = url.UserPassword("user", "secret")
		c := newClient(t, ClientConfig{Resolver: fixed(public), EgressProxy: p.url, RootCAs: ca.pool})
		port := map[string]string{"https": "443", "http": "8080"}[parse(t, raw).Scheme]
		for range 2 {
			resp, err := c.Post(t.Context(), Request{URL: parse(t, raw), Body: []byte("x")})
			if err != nil || resp.Status != 200 || resp.Address.String() != public+":"+port {
				t.Errorf("Post(%s) = %+v, %v, want 200 from %s:%s", raw, resp, err, public, port)
			}
		}
		c.CloseIdleConnections()
		to := public + ":" + port
		if want := []string{"CONNECT " + to + " " + to}; !slices.Equal(p.asked, want) {
			t.Errorf("%s: the proxy was asked %q, want %q", raw, p.asked, want)
		}
		if want := "Basic dXNlcjpzZWNyZXQ="; p.auth != want {
			t.Errorf("%s: Proxy-Authorization %q, want %q", raw, p.auth, want)
		}
		if want := parse(t, raw).Host; !slices.Equal(hosts, []string{want, want}) {
			t.Errorf("%s: hosts %q, want %q twice", raw, hosts, want)
		}
	}
}

func TestRefusedURLsDoNotReachTheEgressProxy(t *testing.T) {
	t.Parallel()
	p := newEgress(t, "")
	c := newClient(t, ClientConfig{Resolver: fixed("10.0.0.1"), EgressProxy: p.url})
	for _, raw := range []string{"http://a.example/", "http://169.254.169.254/", "https://localhost/"} {
		if _, err := c.Post(t.Context(), Request{URL: parse(t, raw)}); outcome(err) != OutcomeRefused {
			t.Errorf("Post(%s) = %v, want it refused", raw, err)
		}
	}
	if len(p.asked) != 0 {
		t.Errorf("the proxy was asked %q, want nothing", p.asked)
	}
}

func TestEgressProxyThatDoesNotConnect(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n": OutcomeConnect,
		"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n":      OutcomeConnect,
		"what?\r\n\r\n":   OutcomeConnect,
		"HTTP/1.1 200 OK": OutcomeTimeout,
		"HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 1<<15): OutcomeConnect,
	} {
		p := newEgress(t, "")
		p.answer = answer
		c := newClient(t, ClientConfig{Resolver: fixed(public), EgressProxy: p.url})
		limit := time.Minute
		if want == OutcomeTimeout {
			limit = 200 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		_, err := c.Post(ctx, Request{URL: parse(t, "http://a.example/")})
		cancel()
		if outcome(err) != want {
			t.Errorf("proxy that answers %.40q: Post = %v, want outcome %s", answer, err, want)
		}
	}
	c := newClient(t, ClientConfig{Resolver: fixed(public), EgressProxy: parse(t, "http://u:secret@proxy.example:3128"), Dialer: &recorder{}})
	if _, err := c.Post(t.Context(), Request{URL: parse(t, "http://a.example/")}); outcome(err) != OutcomeConnect || !errors.Is(err, errNoRoute) || strings.Contains(fmt.Sprint(err), "secret") {
		t.Errorf("Post = %v, want outcome connect without the password", err)
	}
}

func TestNewChecksTheEgressProxy(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{"https://proxy:3128", "socks5://proxy:1080", "http://proxy", "http://:3128", "http://proxy:3128/path", "proxy:3128"} {
		if _, err := New(ClientConfig{EgressProxy: parse(t, raw)}); err == nil || !strings.Contains(err.Error(), "EgressProxy") {
			t.Errorf("New(EgressProxy %s) = %v, want an error that names it", raw, err)
		}
	}
}
