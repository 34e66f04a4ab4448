package issuer_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/auth/issuer"
	"github.com/holdfast-dev/holdfast/internal/await"
)

const audience = "https://agent.example"

// signers are private keys by the algorithm that they sign with.
var signers = sync.OnceValue(func() map[string]crypto.Signer {
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	p256, err256 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	p384, err384 := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	rs, errRSA := rsa.GenerateKey(rand.Reader, 2048)
	if err := errors.Join(err, err256, err384, errRSA); err != nil {
		panic(err)
	}
	return map[string]crypto.Signer{"EdDSA": ed, "ES256": p256, "ES384": p384, "RS256": rs, "PS256": rs}
})

// public returns the public key of an algorithm with the lower-case algorithm as its id.
func public(algorithm string) jose.JSONWebKey {
	return jose.JSONWebKey{Key: signers()[algorithm].Public(), KeyID: strings.ToLower(algorithm), Algorithm: algorithm, Use: "sig"}
}

// keySet returns a JWK Set.
func keySet(t testing.TB, keys ...jose.JSONWebKey) string {
	t.Helper()
	if keys == nil {
		keys = []jose.JSONWebKey{}
	}
	raw, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func allKeys(t testing.TB) string {
	return keySet(t, public("EdDSA"), public("ES256"), public("ES384"), public("RS256"), public("PS256"))
}

func encode(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// sign returns a JWT with any header and claims, signed with an algorithm by a key. It shares no code with the product.
func sign(t testing.TB, algorithm string, key any, header, claims string) string {
	t.Helper()
	input := encode(header) + "." + encode(claims)
	digest, hash := crypto.SHA256.New(), crypto.SHA256
	if algorithm == "ES384" {
		digest, hash = crypto.SHA384.New(), crypto.SHA384
	}
	digest.Write([]byte(input))
	var signature []byte
	var err error
	switch key := key.(type) {
	case nil:
	case []byte:
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(input))
		signature = mac.Sum(nil)
	case ed25519.PrivateKey:
		signature = ed25519.Sign(key, []byte(input))
	case *ecdsa.PrivateKey:
		r, s, e := ecdsa.Sign(rand.Reader, key, digest.Sum(nil))
		size := (key.Curve.Params().BitSize + 7) / 8
		signature, err = append(r.FillBytes(make([]byte, size)), s.FillBytes(make([]byte, size))...), e
	case *rsa.PrivateKey:
		if algorithm == "PS256" {
			signature, err = rsa.SignPSS(rand.Reader, key, hash, digest.Sum(nil), &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash})
		} else {
			signature, err = rsa.SignPKCS1v15(nil, key, hash, digest.Sum(nil))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return input + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// token returns an access token signed with EdDSA. Members replace or add to valid claims; nil removes a claim.
func (p *provider) token(t testing.TB, members map[string]any) string {
	t.Helper()
	return p.tokenOf(t, "EdDSA", "at+jwt", members)
}

func (p *provider) tokenOf(t testing.TB, algorithm, typ string, members map[string]any) string {
	t.Helper()
	header := fmt.Sprintf(`{"alg":%q,"kid":%q,"typ":%q}`, algorithm, strings.ToLower(algorithm), typ)
	return sign(t, algorithm, signers()[algorithm], header, p.claims(t, members))
}

func (p *provider) claims(t testing.TB, members map[string]any) string {
	t.Helper()
	c := map[string]any{"iss": p.URL, "aud": audience, "sub": "alice", "client_id": "app", "scope": "agent:read agent:write", "exp": p.now().Unix() + 600, "iat": p.now().Unix()}
	for name, value := range members {
		if c[name] = value; value == nil {
			delete(c, name)
		}
	}
	raw, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// clock is a time that tests advance.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// provider is an issuer on 127.0.0.1. Its answers may be replaced while it runs.
type provider struct {
	URL   string
	clock *clock
	now   func() time.Time // the clock's, or in a synctest bubble time.Now

	mu      sync.Mutex
	answers map[string]http.HandlerFunc
	calls   map[string]int
}

const (
	discoveryPath  = "/.well-known/openid-configuration"
	metadataPath   = "/.well-known/oauth-authorization-server"
	keysPath       = "/keys"
	introspectPath = "/introspect"
)

func text(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }
}

func newProvider(t testing.TB) *provider {
	t.Helper()
	p := &provider{clock: &clock{now: time.Unix(1_800_000_000, 0)}}
	p.now = p.clock.Now
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	p.serve(t, server.URL)
	return p
}

// serve sets the answers of a provider with a URL.
func (p *provider) serve(t testing.TB, url string) {
	t.Helper()
	p.URL, p.answers, p.calls = url, make(map[string]http.HandlerFunc), make(map[string]int)
	p.set(discoveryPath, text(fmt.Sprintf(`{"issuer":%[1]q,"jwks_uri":"%[1]s/keys","introspection_endpoint":"%[1]s/introspect"}`, p.URL)))
	p.set(keysPath, text(allKeys(t)))
}

// newBubbleProvider returns a provider that is called without connections and uses time.Now, for synctest bubbles.
func newBubbleProvider(t testing.TB) *provider {
	t.Helper()
	p := &provider{now: time.Now}
	p.serve(t, "https://issuer.example")
	return p
}

// RoundTrip implements http.RoundTripper.
func (p *provider) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	recorder := httptest.NewRecorder()
	p.ServeHTTP(recorder, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	response := recorder.Result()
	response.Request = r
	return response, nil
}

// bubbleIssuer returns an issuer that has made its first fetch.
func (p *provider) bubbleIssuer(t testing.TB, change func(*issuer.Config)) *issuer.Issuer {
	t.Helper()
	cfg := issuer.Config{Name: "N", URL: p.URL, Audiences: []string{audience}, HTTP: &http.Client{Transport: p}}
	if change != nil {
		change(&cfg)
	}
	i, err := issuer.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	i.Start(t.Context())
	t.Cleanup(i.Close)
	synctest.Wait()
	return i
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.calls[r.URL.Path]++
	answer := p.answers[r.URL.Path]
	p.mu.Unlock()
	if answer == nil {
		http.NotFound(w, r)
		return
	}
	answer(w, r)
}

// set replaces the answer at a path.
func (p *provider) set(path string, answer http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers[path] = answer
}

// count returns the number of requests for a path.
func (p *provider) count(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[path]
}

// issuer returns an issuer that has fetched the keys. change may change its settings.
func (p *provider) issuer(t testing.TB, change func(*issuer.Config)) *issuer.Issuer {
	t.Helper()
	cfg := issuer.Config{Name: "N", URL: p.URL, Audiences: []string{audience}, Now: p.clock.Now}
	if change != nil {
		change(&cfg)
	}
	i, err := issuer.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	i.Start(context.Background())
	t.Cleanup(i.Close)
	ready := p.tokenOf(t, append(cfg.Algorithms, "EdDSA")[0], "at+jwt", nil)
	await.Success(t, func() error {
		if _, err := i.Verify(t.Context(), ready); a2a.CodeOf(err) == a2a.CodeUnavailable {
			return err
		}
		return nil
	})
	return i
}

// reason returns code and reason of an error, "" for nil.
func reason(err error) string {
	if err == nil {
		return ""
	}
	var e *a2a.Error
	if !errors.As(err, &e) {
		return "no a2a.Error: " + err.Error()
	}
	return fmt.Sprintf("%s %v", e.Code, e.Data["reason"])
}

// Codes and reasons of refused tokens.
const (
	invalidToken = "unauthenticated invalid_token"
	badIssuer    = "unauthenticated issuer"
	badAudience  = "unauthenticated audience"
	badType      = "unauthenticated type"
	expired      = "credentials_expired expired"
	notYetValid  = "credentials_expired not_yet_valid"
	badSignature = "invalid_signature signature"
	badProof     = "invalid_signature proof"
	unavailable  = "unavailable issuer_unavailable"
)

// verifier is an issuer or a set of issuers.
type verifier interface {
	Verify(ctx context.Context, token string) (a2a.Principal, error)
}

// wantReason verifies a token and checks the reason of the error, and that a refused token has no principal.
func wantReason(t testing.TB, v verifier, label, token, want string) {
	t.Helper()
	p, err := v.Verify(t.Context(), token)
	if got := reason(err); got != want || (p.ID != "") != (want == "") {
		t.Errorf("%s: Verify() = %q, %v (%s), want %q", label, p.ID, err, got, want)
	}
	if err != nil && len(token) > 40 && strings.Contains(err.Error(), token[len(token)-40:]) {
		t.Errorf("%s: Verify() = %v, which has a part of the token", label, err)
	}
}

func newEd25519(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// ed25519JWK returns the JWK of a key with the id "own".
func ed25519JWK(t testing.TB, key ed25519.PrivateKey) string {
	t.Helper()
	raw, err := json.Marshal(jose.JSONWebKey{Key: key.Public(), KeyID: "own"})
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func newRSA(t testing.TB, bits int) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// lines is a log that several goroutines write.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
