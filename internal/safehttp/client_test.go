package safehttp

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

var discard = log.New(io.Discard, "", 0)

func TestPostSendsTheRequestToTheAddress(t *testing.T) {
	t.Parallel()
	var got struct{ host, body, header, path, agent string }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got.host, got.body, got.header, got.path, got.agent = r.Host, string(body), r.Header.Get("X-Test"), r.RequestURI, r.Header.Get("Accept-Encoding")
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer server.Close()
	to := netip.MustParseAddrPort(server.Listener.Addr().String())
	port := strconv.Itoa(int(to.Port()))
	c := newClient(t, ClientConfig{Policy: loopback, Resolver: fixed("127.0.0.1")})
	resp, err := c.Post(t.Context(), Request{URL: parse(t, "http://Hooks.example.com.:"+port+"/a%2Fb?q=1"), Header: http.Header{"X-Test": {"yes"}}, Body: []byte("body")})
	if want := (Response{Status: 429, RetryAfter: 7 * time.Second, Address: to}); err != nil || resp != want {
		t.Errorf("Post = %+v, %v, want %+v", resp, err, want)
	}
	if want := [...]string{"hooks.example.com:" + port, "body", "yes", "/a%2Fb?q=1", ""}; [...]string{got.host, got.body, got.header, got.path, got.agent} != want {
		t.Errorf("the server got %+v, want %q", got, want)
	}
}

func TestAnswersOfTheResolver(t *testing.T) {
	t.Parallel()
	many := slices.Repeat(list(public), 64)
	for _, c := range []struct {
		name    string
		answers []netip.Addr
		outcome string
		dials   []string
	}{
		{"one", list(public), OutcomeConnect, []string{"93.184.216.34:80"}},
		{"mapped", list("::ffff:93.184.216.34"), OutcomeConnect, []string{"93.184.216.34:80"}},
		{"mapped private", list("::ffff:10.0.0.1"), OutcomeRefused, nil},
		{"zone", list("fe80::1%eth0"), OutcomeRefused, nil},
		{"public with a zone", list("2606:4700:4700::1111%eth0"), OutcomeRefused, nil},
		{"mixed", list(public, "10.0.0.1"), OutcomeRefused, nil},
		{"mixed the other way", list("10.0.0.1", public), OutcomeRefused, nil},
		{"mixed families", list("::1", public), OutcomeRefused, nil},
		{"invalid", []netip.Addr{{}}, OutcomeRefused, nil},
		{"64 answers", many, OutcomeConnect, []string{"93.184.216.34:80", "93.184.216.34:80"}},
		{"64 answers, the last one private", append(slices.Clone(many), list("127.0.0.1")...), OutcomeRefused, nil},
		{"the other family is second", list("2606:4700:4700::1111", "2606:4700:4700::1001", public), OutcomeConnect, []string{"[2606:4700:4700::1111]:80", "93.184.216.34:80"}},
		{"none", nil, OutcomeDNS, nil},
	} {
		names, dialer := turns(c.answers), &recorder{}
		client := newClient(t, ClientConfig{Resolver: names, Dialer: dialer})
		_, err := client.Post(t.Context(), Request{URL: parse(t, "http://a.example/")})
		if outcome(err) != c.outcome || !slices.Equal(dialer.seen(), c.dials) || names.calls.Load() != 1 {
			t.Errorf("%s: Post = %v with connects to %v after %d look-ups, want %s, %v, 1", c.name, err, dialer.seen(), names.calls.Load(), c.outcome, c.dials)
		}
	}
}

// Invariant 18: webhooks are taken while DNS is down.
func TestCheckAcceptsNamesThatDoNotResolve(t *testing.T) {
	t.Parallel()
	broken := &resolver{answer: func(string, int64) ([]netip.Addr, error) {
		return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
	}}
	c := newClient(t, ClientConfig{Resolver: broken, Dialer: &recorder{}})
	if err := c.Check(t.Context(), "http://a.example/"); err != nil {
		t.Errorf("Check: %v", err)
	}
	if _, err := c.Post(t.Context(), Request{URL: parse(t, "http://a.example/")}); outcome(err) != OutcomeDNS {
		t.Errorf("Post = %v, want outcome dns", err)
	}
}

type resolverFunc func(ctx context.Context) ([]netip.Addr, error)

func (f resolverFunc) LookupNetIP(ctx context.Context, _, _ string) ([]netip.Addr, error) {
	return f(ctx)
}

func TestLookupsAreBounded(t *testing.T) {
	t.Parallel()
	var within time.Duration
	c := newClient(t, ClientConfig{Resolver: resolverFunc(func(ctx context.Context) ([]netip.Addr, error) {
		deadline, _ := ctx.Deadline()
		within = time.Until(deadline)
		return nil, context.DeadlineExceeded
	})})
	if err := c.Check(t.Context(), "http://a.example/"); err != nil || within > checkTimeout {
		t.Errorf("Check = %v with %s for the look-up, want none and at most %s", err, within, checkTimeout)
	}
	if _, err := c.Post(t.Context(), Request{URL: parse(t, "http://a.example/")}); outcome(err) != OutcomeDNS || within > lookupTimeout || within < checkTimeout {
		t.Errorf("Post = %v with %s for the look-up, want outcome dns and at most %s", err, within, lookupTimeout)
	}
	hang := newClient(t, ClientConfig{Resolver: resolverFunc(func(ctx context.Context) ([]netip.Addr, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := hang.Post(ctx, Request{URL: parse(t, "http://a.example/")}); outcome(err) != OutcomeTimeout {
		t.Errorf("Post = %v, want outcome timeout", err)
	}
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.URL.RawQuery)
		_, _ = w.Write(make([]byte, n))
	}))
	defer server.Close()
	for size, connects := range map[int]int{0: 1, 10: 1, maxBody: 1, 2 * maxBody: 3, 1 << 20: 3} {
		names, dialer := fixed(public), &recorder{real: server.Listener.Addr().String()}
		c := newClient(t, ClientConfig{Resolver: names, Dialer: dialer})
		for range 3 {
			resp, err := c.Post(t.Context(), Request{URL: parse(t, "http://a.example/?"+strconv.Itoa(size)), Body: []byte("x")})
			if err != nil || resp.Status != 200 || resp.Address.String() != public+":80" {
				t.Fatalf("Post = %+v, %v, want 200 from %s", resp, err, public)
			}
		}
		if got := len(dialer.seen()); got != connects || names.calls.Load() != 3 {
			t.Errorf("3 answers of %d bytes: %d connects, %d look-ups, want %d and 3", size, got, names.calls.Load(), connects)
		}
	}
}

// A connection that was checked when it was made does not outlive a look-up that refuses
// its host.
func TestIdleConnectionsDoNotOutliveARefusal(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	defer server.Close()
	c := newClient(t, ClientConfig{Resolver: turns(list(public), list("10.0.0.1")), Dialer: &recorder{real: server.Listener.Addr().String()}})
	r := Request{URL: parse(t, "http://a.example/")}
	if _, err := c.Post(t.Context(), r); err != nil {
		t.Fatalf("Post: %v", err)
	}
	if _, err := c.Post(t.Context(), r); outcome(err) != OutcomeRefused || requests.Load() != 1 {
		t.Errorf("second Post = %v after %d requests, want it refused and not sent", err, requests.Load())
	}
}

func TestDialRefusesAddressesThatTheAttemptMayNotUse(t *testing.T) {
	t.Parallel()
	var accepted atomic.Int64
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			conn.Close()
		}
	}()
	here := netip.MustParseAddrPort(listener.Addr().String())
	c := newClient(t, ClientConfig{})
	if _, err := c.dialPinned(t.Context(), "tcp", here.String()); !errors.Is(err, errNotPinned) {
		t.Errorf("dial without an attempt = %v, want it to fail", err)
	}
	a := &attempt{targets: []netip.AddrPort{here}}
	ctx := context.WithValue(t.Context(), attemptKey{}, a)
	if _, err := c.dialPinned(ctx, "tcp", public+":80"); rule(err) != "address" {
		t.Errorf("dial of an attempt that may not = %v, want it refused", err)
	}
	for _, network := range []string{"tcp", "tcp4", "udp"} {
		if conn, err := c.dialer.DialContext(ctx, network, here.String()); rule(err) != "address" {
			t.Errorf("the default dialer connects to %v, %v, want it refused at the connect", conn, err)
		}
	}
	if _, err := c.dialer.DialContext(t.Context(), "tcp", here.String()); !errors.Is(err, errNotPinned) {
		t.Errorf("the default dialer without an attempt = %v, want it to fail", err)
	}
	for _, network := range []string{"unix", "udp4", "tcp"} {
		if err := c.control(ctx, network, public+":80", nil); rule(err) != "address" {
			t.Errorf("control(%s) = %v, want the network refused", network, err)
		}
	}
	if err := c.control(ctx, "tcp4", public+":80", nil); err != nil {
		t.Errorf("control: %v", err)
	}
	dialer := &recorder{real: here.String()}
	scripted := newClient(t, ClientConfig{Dialer: dialer})
	if _, err := scripted.dialPinned(ctx, "tcp", public+":80"); rule(err) != "address" || len(dialer.seen()) != 0 {
		t.Errorf("dial with another dialer = %v with connects to %v, want it refused", err, dialer.seen())
	}
	if n := accepted.Load(); n != 0 {
		t.Errorf("%d connections arrived, want none", n)
	}
}

// Invariant 14.
func TestProxiesOfTheEnvironmentAreNotAsked(t *testing.T) {
	for _, raw := range []string{"http://a.example/", "https://a.example/"} {
		before := envProxy.Load()
		dialer := &recorder{}
		c := newClient(t, ClientConfig{Resolver: fixed(public), Dialer: dialer})
		if _, err := c.Post(t.Context(), Request{URL: parse(t, raw)}); !errors.Is(err, errNoRoute) {
			t.Errorf("Post(%s) = %v, want a connect to the address", raw, err)
		}
		if _, _, err := c.Fetch(t.Context(), raw, nil, 1, granted); !errors.Is(err, errNoRoute) {
			t.Errorf("Fetch(%s) = %v, want a connect to the address", raw, err)
		}
		if d := dialer.seen(); len(d) != 2 || !strings.HasPrefix(d[0], public) || d[1] != d[0] || envProxy.Load() != before {
			t.Errorf("%s: connects to %v and %d to the proxy, want two and none", raw, d, envProxy.Load()-before)
		}
		// The environment would be obeyed by a client that asks it.
		bare := &http.Transport{Proxy: http.ProxyFromEnvironment}
		if _, err := bare.RoundTrip(&http.Request{Method: "GET", URL: parse(t, raw), Header: http.Header{}}); err == nil || envProxy.Load() == before {
			t.Errorf("%s: %v and no connection to the proxy: this test cannot fail", raw, err)
		}
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	ca, other := newAuthority(t), newAuthority(t)
	past := func(c *tls.Config) {
		c.Certificates = []tls.Certificate{ca.issue(t, "a.example", time.Now().Add(-time.Minute))}
	}
	for _, c := range []struct {
		name, url, cert string
		ca              *authority
		edit            func(*tls.Config)
		outcome         string
	}{
		{name: "name", url: "https://a.example/", cert: "a.example", ca: ca},
		{name: "name in another spelling", url: "https://A.Example.:443/", cert: "a.example", ca: ca},
		{name: "literal", url: "https://93.184.216.34/", cert: "93.184.216.34", ca: ca},
		{name: "certificate for the address", url: "https://a.example/", cert: "93.184.216.34", ca: ca, outcome: OutcomeTLS},
		{name: "certificate for another name", url: "https://a.example/", cert: "b.example", ca: ca, outcome: OutcomeTLS},
		{name: "authority nobody trusts", url: "https://a.example/", cert: "a.example", ca: other, outcome: OutcomeTLS},
		{name: "expired", url: "https://a.example/", cert: "a.example", ca: ca, edit: past, outcome: OutcomeTLS},
		{name: "TLS 1.1", url: "https://a.example/", cert: "a.example", ca: ca, edit: func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }, outcome: OutcomeTLS},
		{name: "TLS 1.2", url: "https://a.example/", cert: "a.example", ca: ca, edit: func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			server := c.ca.serveTLS(t, c.cert, c.edit, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				got = append(got, r.Host, r.TLS.ServerName, r.Proto)
			}))
			dialer := &recorder{real: server.Listener.Addr().String()}
			client := newClient(t, ClientConfig{Resolver: fixed(public), Dialer: dialer, RootCAs: ca.pool})
			resp, err := client.Post(t.Context(), Request{URL: parse(t, c.url)})
			if outcome(err) != c.outcome || (err == nil) != (c.outcome == "") {
				t.Errorf("Post = %+v, %v, want outcome %q", resp, err, c.outcome)
			}
			if d := dialer.seen(); !slices.Equal(d, []string{public + ":443"}) {
				t.Errorf("connects to %v, want one to %s", d, public)
			}
			server.Close()
			var want []string
			if c.outcome == "" {
				host := strings.ToLower(strings.Replace(parse(t, c.url).Host, ".:", ":", 1))
				sni := strings.TrimSuffix(host, ":443")
				if c.name == "literal" {
					sni = ""
				}
				want = []string{host, sni, "HTTP/1.1"}
			}
			if !slices.Equal(got, want) {
				t.Errorf("the server saw host, SNI and protocol %q, want %q", got, want)
			}
		})
	}
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	client := newClient(t, ClientConfig{Resolver: fixed(public), Dialer: &recorder{real: plain.Listener.Addr().String()}})
	if _, err := client.Post(t.Context(), Request{URL: parse(t, "https://a.example/")}); outcome(err) != OutcomeTLS {
		t.Errorf("Post to a server without TLS = %v, want outcome tls", err)
	}
}

func TestSessionsAreResumed(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	var resumed []bool
	server := ca.serveTLS(t, "a.example", nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resumed = append(resumed, r.TLS.DidResume)
		_, _ = io.WriteString(w, "ok")
	}))
	c := newClient(t, ClientConfig{Resolver: fixed(public), Dialer: &recorder{real: server.Listener.Addr().String()}, RootCAs: ca.pool})
	for range 2 {
		if _, err := c.Post(t.Context(), Request{URL: parse(t, "https://a.example/")}); err != nil {
			t.Fatalf("Post: %v", err)
		}
		c.CloseIdleConnections()
	}
	server.Close()
	if !slices.Equal(resumed, []bool{false, true}) {
		t.Errorf("sessions resumed: %v, want the second", resumed)
	}
}

func TestPostRejectsInvalidRequests(t *testing.T) {
	t.Parallel()
	dialer := &recorder{}
	c := newClient(t, ClientConfig{Dialer: dialer})
	u := parse(t, "http://"+public+"/")
	for name, r := range map[string]Request{
		"no URL":          {},
		"line break":      {URL: u, Header: http.Header{"Authorization": {"a\r\nb"}}},
		"DEL":             {URL: u, Header: http.Header{"Authorization": {"a\x7f"}}},
		"NUL":             {URL: u, Header: http.Header{"Authorization": {"a\x00"}}},
		"name of a field": {URL: u, Header: http.Header{"a\rb": {"c"}}},
		"empty name":      {URL: u, Header: http.Header{"": {"c"}}},
		"query":           {URL: &url.URL{Scheme: "http", Host: public, RawQuery: "a b\r\nX: y"}},
		"opaque":          {URL: &url.URL{Scheme: "http", Host: public, Opaque: "//127.0.0.1/"}},
	} {
		if _, err := c.Post(t.Context(), r); outcome(err) != OutcomeRefused || rule(err) == "" {
			if name != "opaque" || len(dialer.seen()) != 0 {
				t.Errorf("%s: Post = %v, want it refused", name, err)
			}
		}
	}
	if d := dialer.seen(); len(d) != 0 {
		t.Errorf("connects to %v, want none", d)
	}
}

func TestPostEndsWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	to := serveRaw(t, func(conn net.Conn) {
		close(arrived)
		_, _ = conn.Read(make([]byte, 1))
	})
	c := newClient(t, ClientConfig{Policy: loopback})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	_, err := c.Post(ctx, Request{URL: parse(t, "http://"+to.String()+"/")})
	if e := (*Error)(nil); !errors.As(err, &e) || e.Outcome != OutcomeCanceled || e.Address != to {
		t.Errorf("Post = %v, want it canceled at %s", err, to)
	}
	hanging := hangingDialer{make(chan time.Duration, 1)}
	brief := newClient(t, ClientConfig{Resolver: fixed(public), Dialer: hanging, Timeout: time.Second})
	if _, err := brief.Post(t.Context(), Request{URL: parse(t, "http://a.example/")}); outcome(err) != OutcomeTimeout {
		t.Errorf("Post without a deadline = %v, want the default timeout", err)
	}
	if left := <-hanging.left; left > time.Second {
		t.Errorf("the connect had %s, want no more than the attempt", left)
	}
}

// hangingDialer records its time limit, and uses all of it.
type hangingDialer struct{ left chan time.Duration }

func (d hangingDialer) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	deadline, _ := ctx.Deadline()
	select {
	case d.left <- time.Until(deadline):
	default: // a second address
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestConnectRefused(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	to := listener.Addr().String()
	listener.Close()
	c := newClient(t, ClientConfig{Policy: loopback})
	_, err = c.Post(t.Context(), Request{URL: parse(t, "http://"+to+"/")})
	if e := (*Error)(nil); !errors.As(err, &e) || e.Outcome != OutcomeConnect || e.Address.String() != to {
		t.Errorf("Post = %v, want outcome connect and the address", err)
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	date := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	for _, c := range []struct {
		value, date string
		want        time.Duration
	}{
		{"", "", 0},
		{"0", "", 0},
		{"120", "", 2 * time.Minute},
		{" 120 ", "", 2 * time.Minute},
		{"-5", "", 0},
		{"1.5", "", 0},
		{"soon", "", 0},
		{"86401", "", maxRetryAfter},
		{"99999999999999999999999", "", maxRetryAfter},
		{date(time.Minute), "", time.Minute},
		{date(time.Minute), "nonsense", time.Minute},
		{date(-time.Minute), "", 0},
		{date(time.Hour), date(time.Hour - time.Second), time.Second},
		{date(-time.Hour), date(-2 * time.Hour), time.Hour},
		{date(1000 * time.Hour), "", maxRetryAfter},
	} {
		h := http.Header{"Retry-After": {c.value}, "Date": {c.date}}
		if got := retryAfter(h, now); got != c.want {
			t.Errorf("retryAfter(%q, date %q) = %s, want %s", c.value, c.date, got, c.want)
		}
	}
}

func TestOnlyAllowedHostsUseSearchDomains(t *testing.T) {
	t.Parallel()
	names := &resolver{}
	var asked []string
	names.answer = func(host string, _ int64) ([]netip.Addr, error) {
		asked = append(asked, host)
		return list("10.0.0.1"), nil
	}
	c := newClient(t, ClientConfig{Policy: Policy{AllowHosts: []string{"receiver:80"}}, Dialer: &recorder{}})
	if d, ok := c.resolver.(*net.Resolver); !ok || !d.PreferGo || !c.complete {
		t.Errorf("default resolver = %+v, want Go's own", c.resolver)
	}
	c.resolver = names
	for _, raw := range []string{"http://a.example/", "http://receiver/"} {
		_, _ = c.Post(t.Context(), Request{URL: parse(t, raw)})
	}
	if want := []string{"a.example.", "receiver"}; !slices.Equal(asked, want) {
		t.Errorf("asked for %q, want %q: search domains are for allowed hosts alone", asked, want)
	}
}
