package did_test

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/auth/did"
	"github.com/holdfast-dev/holdfast/internal/safehttp"
)

// source is a KeySource by a function that counts its calls.
type source struct {
	calls atomic.Int64
	find  func(ctx context.Context, id string) (ed25519.PublicKey, error)
}

func (s *source) PublicKey(ctx context.Context, id string) (ed25519.PublicKey, error) {
	s.calls.Add(1)
	return s.find(ctx, id)
}

func newResolver(t testing.TB, cfg did.ResolverConfig) *did.Resolver {
	t.Helper()
	r, err := did.NewResolver(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestResolverFindsKeys(t *testing.T) {
	t.Parallel()
	pinned, found, own := newKey(1).Public().(ed25519.PublicKey), newKey(2).Public().(ed25519.PublicKey), newKey(3).Public().(ed25519.PublicKey)
	derived := "did:bindu:a:b:"
	b, err := did.NewBindu("a", "b", own)
	if err != nil {
		t.Fatal(err)
	}
	hydra := &source{find: func(_ context.Context, id string) (ed25519.PublicKey, error) {
		if id == derived+"1" || id == b.String() {
			return found, nil
		}
		return nil, a2a.Errorf(a2a.CodeNotFound, "no such client")
	}}
	full := newResolver(t, did.ResolverConfig{Pinned: map[string]ed25519.PublicKey{"did:bindu:test": pinned, "did:web:agent.example": pinned, "did:key:z" + zeroBase58: pinned}, Source: hydra})
	bare := newResolver(t, did.ResolverConfig{})
	for _, test := range []struct {
		resolver *did.Resolver
		id       string
		offered  ed25519.PublicKey
		want     ed25519.PublicKey // nil: an error
	}{
		{bare, zeroDID, nil, zeroPublic},
		{bare, zeroDID, own, zeroPublic},
		{bare, "did:key:z" + zeroBase58, nil, nil},
		{full, "did:key:z" + zeroBase58, nil, pinned},
		{full, "did:bindu:test", own, pinned},
		{full, "did:web:agent.example", nil, pinned},
		{bare, "did:web:agent.example", nil, nil},
		{bare, b.String(), own, own},
		{bare, b.String(), found, nil},
		{bare, b.String(), nil, nil},
		{full, b.String(), own, own},
		{full, b.String(), nil, found},
		{full, derived + "1", own, found},
		{full, derived + "2", own, nil},
		{full, "did:example:1", nil, nil},
		{full, "did:bindu:test#key-1", nil, nil},
		{full, "", nil, nil},
	} {
		got, err := test.resolver.Resolve(t.Context(), test.id, test.offered)
		if test.want == nil {
			if err == nil || reason(err) != did.ReasonKeyUnavailable || a2a.CodeOf(err) != a2a.CodeInvalidSignature {
				t.Errorf("Resolve(%s) = %+v, %v with code %s, want %s with reason %s", test.id, got, err, a2a.CodeOf(err), a2a.CodeInvalidSignature, did.ReasonKeyUnavailable)
			}
			continue
		}
		if err != nil || got.ID != test.id || len(got.Keys) != 1 || !test.want.Equal(got.Keys[0].Public) || !got.Keys[0].Authentication {
			t.Errorf("Resolve(%s) = %+v, %v, want the key %x", test.id, got, err, test.want)
		}
	}
	if got, err := bare.Resolve(t.Context(), p256DID, nil); err != nil || !p256Key(t).Equal(got.Keys[0].Public) || got.Key(p256DID+"#"+strings.TrimPrefix(p256DID, "did:key:")) == nil {
		t.Errorf("Resolve(%s) = %+v, %v, want its key with its fragment", p256DID, got, err)
	}
}

func TestNewResolverReportsAllProblems(t *testing.T) {
	t.Parallel()
	_, err := did.NewResolver(did.ResolverConfig{Pinned: map[string]ed25519.PublicKey{"bot": zeroPublic, "did:bindu:test": zeroPublic[1:], zeroDID: newKey(1).Public().(ed25519.PublicKey)}})
	for _, want := range []string{`"bot" is not a DID`, "did:bindu:test has 31 bytes", zeroDID + " is not the key"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("NewResolver() = %v, want %q", err, want)
		}
	}
}

func TestResolverCachesResults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("connection refused")
		s := &source{find: func(context.Context, string) (ed25519.PublicKey, error) { return nil, down }}
		r := newResolver(t, did.ResolverConfig{Source: s})
		check := func(when string, calls int64, code a2a.Code) {
			t.Helper()
			_, err := r.Resolve(t.Context(), "did:bindu:test", nil)
			if got := s.calls.Load(); got != calls || (err == nil) != (code == "") || err != nil && (a2a.CodeOf(err) != code || reason(err) != did.ReasonKeyUnavailable) {
				t.Errorf("%s: Resolve() = %v after %d calls, want code %q after %d", when, err, got, code, calls)
			}
			if e, ok := errors.AsType[*a2a.Error](err); ok && strings.Contains(e.Message, down.Error()) {
				t.Errorf("%s: message %q, want it without the cause", when, e.Message)
			}
		}
		check("first failure", 1, a2a.CodeUnavailable)
		time.Sleep(10*time.Second - time.Nanosecond)
		check("cached failure", 1, a2a.CodeUnavailable)
		time.Sleep(time.Nanosecond)
		s.find = func(context.Context, string) (ed25519.PublicKey, error) { return zeroPublic, nil }
		check("expired failure", 2, "")
		time.Sleep(5*time.Minute - time.Nanosecond)
		check("cached document", 2, "")
		time.Sleep(time.Nanosecond)
		s.find = func(context.Context, string) (ed25519.PublicKey, error) { return zeroPublic[1:], nil }
		check("expired document", 3, a2a.CodeInvalidSignature)
	})
}

func TestResolverAsksOnceAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := &source{find: func(ctx context.Context, _ string) (ed25519.PublicKey, error) {
			<-release
			return zeroPublic, ctx.Err()
		}}
		r := newResolver(t, did.ResolverConfig{Source: s})
		results := make(chan error, 10)
		first, cancelFirst := context.WithCancel(t.Context())
		resolve := func(ctx context.Context) {
			_, err := r.Resolve(ctx, "did:bindu:test", nil)
			results <- err
		}
		go resolve(first)
		synctest.Wait()
		impatient, cancelImpatient := context.WithCancel(t.Context())
		go resolve(impatient)
		for range 8 {
			go resolve(t.Context())
		}
		synctest.Wait()
		cancelImpatient()
		if err := <-results; a2a.CodeOf(err) != a2a.CodeUnavailable || !errors.Is(err, context.Canceled) {
			t.Errorf("Resolve() of a caller that left = %v, want %s", err, a2a.CodeUnavailable)
		}
		cancelFirst() // others wait for its result
		close(release)
		for range 9 {
			if err := <-results; err != nil {
				t.Errorf("Resolve() = %v", err)
			}
		}
		if got := s.calls.Load(); got != 1 {
			t.Errorf("the source got %d calls, want 1", got)
		}
	})
}

func TestResolverEndsSlowLookups(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newResolver(t, did.ResolverConfig{Source: &source{find: func(ctx context.Context, _ string) (ed25519.PublicKey, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}})
		started := time.Now()
		_, err := r.Resolve(t.Context(), "did:bindu:test", nil)
		if took := time.Since(started); took != 5*time.Second || a2a.CodeOf(err) != a2a.CodeUnavailable {
			t.Errorf("Resolve() = %v after %s, want %s after 5s", err, took, a2a.CodeUnavailable)
		}
	})
}

// A source that panics does not block later callers.
func TestResolverSurvivesPanics(t *testing.T) {
	t.Parallel()
	r := newResolver(t, did.ResolverConfig{Source: &source{find: func(context.Context, string) (ed25519.PublicKey, error) { panic("defect") }}})
	func() {
		defer func() {
			if p := recover(); p != "defect" {
				t.Errorf("Resolve() panics with %v, want defect", p)
			}
		}()
		_, _ = r.Resolve(t.Context(), "did:bindu:test", nil)
	}()
	if _, err := r.Resolve(t.Context(), "did:bindu:test", nil); a2a.CodeOf(err) != a2a.CodeUnavailable {
		t.Errorf("Resolve() after a panic = %v, want %s", err, a2a.CodeUnavailable)
	}
}

func TestResolverIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit = 1024
		release := make(chan struct{})
		s := &source{find: func(context.Context, string) (ed25519.PublicKey, error) {
			<-release
			return zeroPublic, nil
		}}
		r := newResolver(t, did.ResolverConfig{Source: s})
		var group sync.WaitGroup
		for i := range limit {
			group.Go(func() {
				if _, err := r.Resolve(t.Context(), fmt.Sprint("did:bindu:", i), nil); err != nil {
					t.Errorf("Resolve() = %v", err)
				}
			})
		}
		synctest.Wait()
		if _, err := r.Resolve(t.Context(), "did:bindu:more", nil); a2a.CodeOf(err) != a2a.CodeUnavailable || s.calls.Load() != limit {
			t.Errorf("Resolve() beside %d lookups = %v, want %s", s.calls.Load(), err, a2a.CodeUnavailable)
		}
		close(release)
		group.Wait()
		for i := range limit {
			if _, err := r.Resolve(t.Context(), fmt.Sprint("did:bindu:more:", i), nil); err != nil {
				t.Errorf("Resolve() = %v", err)
			}
		}
		if got := did.Cached(r); got != limit {
			t.Errorf("the resolver caches %d results, want %d", got, limit)
		}
		time.Sleep(time.Hour)
		if _, err := r.Resolve(t.Context(), "did:bindu:later", nil); err != nil {
			t.Errorf("Resolve() = %v", err)
		}
		if got := did.Cached(r); got != 1 {
			t.Errorf("the resolver caches %d results after an hour, want 1", got)
		}
	})
}

// names resolves all names to the loopback address.
type names struct{}

func (names) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

// webAgent starts a server for example.com, which serve answers for its did:web. It returns the did:web and a client that may
// call the server.
func webAgent(t testing.TB, serve func(w http.ResponseWriter, path, id string)) (string, *safehttp.Client) {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serve(w, r.URL.Path, "did:web:"+strings.Replace(r.Host, ":", "%3A", 1))
	}))
	t.Cleanup(s.Close)
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	policy := safehttp.Policy{AllowHosts: []string{"example.com:" + port}, RequireHTTPS: true}
	client, err := safehttp.New(safehttp.ClientConfig{Policy: policy, Resolver: names{}, RootCAs: roots})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	return "did:web:example.com%3A" + port, client
}

func TestResolverFetchesDocuments(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	id, client := webAgent(t, func(w http.ResponseWriter, path, id string) {
		calls.Add(1)
		at := map[string]string{"/.well-known/did.json": id, "/a/b/did.json": id + ":a:b"}[path]
		fmt.Fprintf(w, `{"id":%q,"authentication":[{"id":"#k","type":"Multikey","publicKeyMultibase":%q}]}`, at, strings.TrimPrefix(zeroDID, "did:key:"))
	})
	r := newResolver(t, did.ResolverConfig{HTTP: client})
	for _, id := range []string{id, id + ":a:b", id} {
		got, err := r.Resolve(t.Context(), id, nil)
		if err != nil || got.ID != id || got.Key(id+"#k") == nil || !zeroPublic.Equal(got.Key(id+"#k").Public) {
			t.Errorf("Resolve(%s) = %+v, %v, want its key", id, got, err)
		}
	}
	if got := calls.Load(); got != 2 {
		t.Errorf("the agent got %d requests, want 2", got)
	}
}

func TestAttack16WebDIDs(t *testing.T) {
	t.Parallel()
	document := func(id string) string {
		return fmt.Sprintf(`{"id":%q,"authentication":[{"id":"#k","type":"Multikey","publicKeyMultibase":%q}]}`, id, strings.TrimPrefix(zeroDID, "did:key:"))
	}
	for name, test := range map[string]struct {
		serve func(w http.ResponseWriter, id string)
		code  a2a.Code
	}{
		"another id":        {func(w http.ResponseWriter, _ string) { fmt.Fprint(w, document("did:web:other.example")) }, a2a.CodeInvalidSignature},
		"a path of its own": {func(w http.ResponseWriter, id string) { fmt.Fprint(w, document(id+":a")) }, a2a.CodeInvalidSignature},
		"1 MB":              {func(w http.ResponseWriter, id string) { fmt.Fprint(w, document(id), strings.Repeat(" ", 1<<20)) }, a2a.CodeInvalidSignature},
		"a redirect": {func(w http.ResponseWriter, id string) {
			w.Header().Set("Location", "/moved/did.json")
			w.WriteHeader(http.StatusFound)
			fmt.Fprint(w, document(id))
		}, a2a.CodeInvalidSignature},
		"not found": {func(w http.ResponseWriter, id string) {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, document(id))
		}, a2a.CodeInvalidSignature},
		"an error": {func(w http.ResponseWriter, id string) {
			w.WriteHeader(http.StatusBadGateway)
			fmt.Fprint(w, document(id))
		}, a2a.CodeUnavailable},
		"no JSON": {func(w http.ResponseWriter, _ string) { fmt.Fprint(w, "<html>") }, a2a.CodeInvalidSignature},
	} {
		var calls atomic.Int64
		id, client := webAgent(t, func(w http.ResponseWriter, _, id string) {
			calls.Add(1)
			test.serve(w, id)
		})
		r := newResolver(t, did.ResolverConfig{HTTP: client})
		for range 2 {
			if got, err := r.Resolve(t.Context(), id, nil); a2a.CodeOf(err) != test.code || reason(err) != did.ReasonKeyUnavailable || calls.Load() != 1 {
				t.Errorf("%s: Resolve() = %+v, %v with code %s after %d requests, want %s after one", name, got, err, a2a.CodeOf(err), calls.Load(), test.code)
			}
		}
	}
	// The client allows only example.com: these names, which resolve to the loopback address, and other ports are rejected.
	_, client := webAgent(t, func(http.ResponseWriter, string, string) { t.Error("a request was sent") })
	r := newResolver(t, did.ResolverConfig{HTTP: client})
	for _, id := range []string{"did:web:localhost", "did:web:127.0.0.1", "did:web:inside.example", "did:web:example.com%3A22", "did:web:metadata.google.internal", "did:web:a.example:..:secret"} {
		if got, err := r.Resolve(t.Context(), id, nil); reason(err) != did.ReasonKeyUnavailable || a2a.CodeOf(err) != a2a.CodeInvalidSignature {
			t.Errorf("Resolve(%s) = %+v, %v, want code %s", id, got, err, a2a.CodeInvalidSignature)
		}
	}
}
