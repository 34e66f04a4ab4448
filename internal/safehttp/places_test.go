package safehttp

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
)

func TestRequestsToOneAddressAreBounded(t *testing.T) {
	t.Parallel()
	const most = 3
	for _, x := range []struct {
		name   string
		answer func(n int) []netip.Addr // of the n-th name
		policy Policy
		busy   bool
	}{
		{"one address by many names", func(int) []netip.Addr { return list(public) }, Policy{}, true},
		{"one network of IPv6", func(n int) []netip.Addr {
			return []netip.Addr{netip.AddrFrom16([16]byte{0x26, 0x06, 0x28, 0, 2, 0x20, 0, 1, 15: byte(n)})}
		}, Policy{}, true},
		{"an address each", func(n int) []netip.Addr { return []netip.Addr{netip.AddrFrom4([4]byte{93, 184, 216, byte(n)})} }, Policy{}, false},
		{"an address each behind NAT64", func(n int) []netip.Addr {
			return []netip.Addr{netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 0, 0x64, 12: 93, 184, 216, byte(n)})}
		}, Policy{NAT64: prefixes("2001:db8:64::/96")}, false},
		{"a second address that is free", func(n int) []netip.Addr {
			return append(list(public), netip.AddrFrom4([4]byte{93, 184, 216, byte(n)}))
		}, Policy{}, false},
		{"an allowed network", func(int) []netip.Addr { return list(public) }, Policy{AllowNets: prefixes(public + "/32")}, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			started, release := make(chan struct{}, 2*most), make(chan struct{})
			server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				started <- struct{}{}
				<-release
			}))
			t.Cleanup(server.Close)
			names := &resolver{answer: func(_ string, n int64) ([]netip.Addr, error) { return x.answer(int(n)), nil }}
			dialer := &recorder{real: server.Listener.Addr().String()}
			c := newClient(t, ClientConfig{Policy: x.policy, Resolver: names, Dialer: dialer, MaxPerAddress: most})
			post := func(i int) error {
				_, err := c.Post(t.Context(), Request{URL: parse(t, "http://"+string(rune('a'+i))+".example/")})
				return err
			}
			done := make(chan error, most)
			for i := range most {
				go func() { done <- post(i) }()
				<-started
			}
			var late error
			if x.busy {
				late = post(most)
				if outcome(late) != OutcomeBusy {
					t.Errorf("Post with %d others in progress = %v, want outcome busy", most, late)
				}
				if n := len(dialer.seen()); n != most {
					t.Errorf("%d connects, want none for what is busy", n)
				}
			} else {
				go func() { done <- post(most) }()
				<-started
			}
			close(release)
			for range most {
				if err := <-done; err != nil {
					t.Errorf("Post = %v", err)
				}
			}
			if !x.busy {
				if err := <-done; err != nil {
					t.Errorf("Post = %v", err)
				}
			}
			for i := range 3 * most {
				if err := post(i); err != nil {
					t.Fatalf("Post after the others = %v, want the place given back", err)
				}
				<-started
			}
			c.places.mu.Lock()
			defer c.places.mu.Unlock()
			if len(c.places.taken) > 0 {
				t.Errorf("places %v are still taken", c.places.taken)
			}
		})
	}
}

// However a request ends, its place is free again.
func TestPlacesAreGivenBack(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/cut" {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(server.Close)
	server.Config.ErrorLog = discard
	real := server.Listener.Addr().String()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, x := range []struct {
		name, path, real string
		ctx              context.Context
	}{{"answered", "/", real, t.Context()}, {"cut off", "/cut", real, t.Context()}, {"no connection", "/", "", t.Context()}, {"canceled", "/", real, gone}} {
		c := newClient(t, ClientConfig{Resolver: fixed(public), Dialer: &recorder{real: x.real}, MaxPerAddress: 1})
		for range 3 {
			_, err := c.Post(x.ctx, Request{URL: parse(t, "http://a.example"+x.path)})
			_, _, fetchErr := c.Fetch(x.ctx, "http://a.example"+x.path, nil, 10, granted)
			if outcome(err) == OutcomeBusy || outcome(fetchErr) == OutcomeBusy {
				t.Errorf("%s: Post = %v, Fetch = %v, want the place given back", x.name, err, fetchErr)
			}
		}
	}
}
