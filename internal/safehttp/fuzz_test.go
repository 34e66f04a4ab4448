package safehttp

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"testing"
)

// FuzzCheckURL holds the policy to its purpose: a URL that it accepts leads to a public
// address, found by recording the dialed address; to the literal in it, if it has one; and
// nowhere else than net/http alone would go.
func FuzzCheckURL(f *testing.F) {
	for _, file := range []string{"ssrf_corpus.txt", "ssrf_allow.txt"} {
		urls, _ := corpus(f, file)
		for _, raw := range urls {
			f.Add(raw, []byte{93, 184, 216, 34}, []byte{169, 254, 169, 254})
			f.Add(raw, netip.MustParseAddr("2606:4700::1111").AsSlice(), netip.MustParseAddr("::ffff:10.0.0.1").AsSlice())
		}
	}
	f.Fuzz(func(t *testing.T, raw string, first, second []byte) {
		var answers []netip.Addr
		for _, b := range [][]byte{first, second} {
			if addr, ok := netip.AddrFromSlice(b); ok {
				answers = append(answers, addr)
			}
		}
		dialer := &recorder{}
		c := newClient(t, ClientConfig{Resolver: turns(answers), Dialer: dialer, Policy: Policy{Local: func() ([]netip.Addr, error) { return nil, nil }}})
		u, err := c.policy.CheckURL(raw)
		if err != nil {
			if rule(err) == "" {
				t.Errorf("CheckURL(%q) = %v, want a refusal", raw, err)
			}
			return
		}
		if again, err := c.policy.CheckURL(u.String()); err != nil || again.String() != u.String() {
			t.Errorf("CheckURL(%q) = %s, but of that it is %v, %v", raw, u, again, err)
		}
		_, err = c.Post(t.Context(), Request{URL: u})
		for _, d := range dialer.seen() {
			to := netip.MustParseAddrPort(d)
			if !isPublic(to.Addr()) || to.Port() == 0 || to.Port() < 1024 && to.Port() != 80 && to.Port() != 443 {
				t.Errorf("%q leads to %s", raw, to)
			}
			if literal, err := netip.ParseAddr(u.Hostname()); err == nil && literal.Unmap() != to.Addr() {
				t.Errorf("%q leads to %s, want %s", raw, to, literal)
			}
		}
		if (len(dialer.seen()) == 0) != (outcome(err) == OutcomeRefused || outcome(err) == OutcomeDNS) {
			t.Errorf("%q: %v and connects to %v", raw, err, dialer.seen())
		}
		checkAgainstBareClient(t, u)
	})
}

// checkAgainstBareClient compares the host of a URL with the one that net/http dials.
func checkAgainstBareClient(t *testing.T, u *url.URL) {
	t.Helper()
	var dialed string
	bare := &http.Transport{DialContext: func(_ context.Context, _, address string) (net.Conn, error) {
		dialed = address
		return nil, errNoRoute
	}}
	_, _ = bare.RoundTrip(&http.Request{Method: "GET", URL: u, Header: http.Header{}})
	host, _, _ := net.SplitHostPort(dialed)
	if host != u.Hostname() {
		t.Errorf("net/http dials %q for %s", dialed, u)
	}
}
