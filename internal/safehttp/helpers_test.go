package safehttp

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// envProxy counts connections to the proxy that the environment of all tests names.
var envProxy atomic.Int64

func TestMain(m *testing.M) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			envProxy.Add(1)
			conn.Close()
		}
	}()
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"} {
		os.Setenv(name, "http://"+listener.Addr().String())
	}
	os.Unsetenv("NO_PROXY")
	os.Unsetenv("no_proxy")
	os.Exit(m.Run())
}

// public is what names resolve to that are of no interest.
const public = "93.184.216.34"

// loopback is a policy that lets tests call their own servers.
var loopback = Policy{AllowNets: prefixes("127.0.0.0/8")}

func newClient(t testing.TB, cfg ClientConfig) *Client {
	t.Helper()
	c, err := New(cfg)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func parse(t testing.TB, raw string) *url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatalf("url.Parse(%q): %v", raw, err)
	}
	return u
}

// resolver answers as answer says and counts look-ups.
type resolver struct {
	answer func(host string, n int64) ([]netip.Addr, error)
	calls  atomic.Int64
}

func (r *resolver) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	return r.answer(host, r.calls.Add(1))
}

// fixed resolves every name to the same addresses.
func fixed(addrs ...string) *resolver {
	return &resolver{answer: func(string, int64) ([]netip.Addr, error) { return list(addrs...), nil }}
}

// turns gives another answer each time; the last one stays.
func turns(answers ...[]netip.Addr) *resolver {
	return &resolver{answer: func(_ string, n int64) ([]netip.Addr, error) { return answers[min(int(n), len(answers))-1], nil }}
}

func list(addrs ...string) []netip.Addr {
	var all []netip.Addr
	for _, a := range addrs {
		all = append(all, netip.MustParseAddr(a))
	}
	return all
}

var errNoRoute = errors.New("no route in this test")

// recorder is a dialer that notes addresses. All connections go to real, if it is set.
type recorder struct {
	real  string
	mu    sync.Mutex
	dials []string
}

func (d *recorder) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	d.mu.Lock()
	d.dials = append(d.dials, address)
	d.mu.Unlock()
	if d.real == "" {
		return nil, errNoRoute
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, network, d.real)
}

func (d *recorder) seen() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.dials...)
}

// authority issues certificates for tests.
type authority struct {
	pool *x509.CertPool
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &authority{pool, cert, key}
}

func (a *authority) issue(t testing.TB, name string, notAfter time.Time) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: notAfter, DNSNames: []string{name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	if ip := net.ParseIP(name); ip != nil {
		template.DNSNames, template.IPAddresses = nil, []net.IP{ip}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// serveTLS starts a server that says it is name.
func (a *authority) serveTLS(t testing.TB, name string, edit func(*tls.Config), h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = discard
	s.TLS = &tls.Config{Certificates: []tls.Certificate{a.issue(t, name, time.Now().Add(time.Hour))}}
	if edit != nil {
		edit(s.TLS)
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// serveRaw starts a server that reads the head of a request and then leaves the
// connection to speak.
func serveRaw(t testing.TB, speak func(net.Conn)) netip.AddrPort {
	t.Helper()
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
			open.Go(func() {
				defer conn.Close()
				head := bufio.NewReader(conn)
				for {
					line, err := head.ReadString('\n')
					if err != nil {
						return
					}
					if strings.TrimSpace(line) == "" {
						break
					}
				}
				speak(conn)
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		open.Wait()
	})
	return netip.MustParseAddrPort(listener.Addr().String())
}

// outcome returns the outcome of an error, or "".
func outcome(err error) string {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Outcome
	}
	return ""
}

// rule returns the rule of a refusal, or "".
func rule(err error) string {
	if r := (*Refusal)(nil); errors.As(err, &r) {
		return r.Rule
	}
	return ""
}
