package issuer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/holdfast-dev/holdfast/a2a"
)

// maxToken is the maximum length of a token in bytes.
const maxToken = 16 << 10

// maxCached is the maximum number of tokens in a cache.
const maxCached = 10_000

// Issuer verifies the access tokens of one issuer. Create one with [New], call Start once, and Close at the end.
type Issuer struct {
	cfg        Config
	algorithms []jose.SignatureAlgorithm
	metadata   atomic.Pointer[Metadata]
	keys       keyring
	verified   cache[verified]
	answers    cache[answer]
	calls      calls

	stop func()
	done sync.WaitGroup
}

// verified is the principal of a token, valid with the key set that verified its signature.
type verified struct {
	principal a2a.Principal
	set       *keySet
}

// New returns an issuer, or an error that lists all problems of cfg. It makes no requests.
func New(cfg Config) (*Issuer, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	i := &Issuer{cfg: cfg, stop: func() {}}
	i.calls.byToken = make(map[[sha256.Size]byte]*flight[a2a.Principal])
	i.calls.slots = make(chan struct{}, maxCalls)
	for _, a := range cfg.Algorithms {
		i.algorithms = append(i.algorithms, jose.SignatureAlgorithm(a))
	}
	return i, nil
}

// Name returns the issuer's name in ids of principals.
func (i *Issuer) Name() string { return i.cfg.Name }

// URL returns the issuer's identifier.
func (i *Issuer) URL() string { return i.cfg.URL }

// Metadata returns the issuer's metadata, or false while they could not be fetched. The slices must not be changed.
func (i *Issuer) Metadata() (Metadata, bool) {
	if m := i.metadata.Load(); m != nil {
		return *m, true
	}
	return Metadata{}, false
}

// Start fetches metadata and keys in the background until ctx is done or Close is called. It must be called once.
// Verify returns issuer_unavailable for JWTs until the issuer's keys arrive.
func (i *Issuer) Start(ctx context.Context) {
	ctx, i.stop = context.WithCancel(ctx)
	i.done.Go(func() { i.run(ctx) })
}

// Close stops the fetching and waits for its end. Tokens are verified with the last keys until these are 24 h old.
func (i *Issuer) Close() {
	i.stop()
	i.done.Wait()
}

// run refreshes metadata and keys. After a failure it tries again after 1 s, 2 s and so on up to a minute.
func (i *Issuer) run(ctx context.Context) {
	for failures := 0; ; {
		wait, err := i.refresh(ctx, true)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			wait = min(time.Second<<min(failures, 6), maxPause)
			failures++
			i.cfg.Logger.Warn("fetching the keys of an issuer failed", "issuer", i.cfg.Name, "failures", failures, "error", err)
		case failures > 0:
			i.cfg.Logger.Info("keys of the issuer fetched", "issuer", i.cfg.Name, "failures", failures)
			failures = 0
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// Verify returns the principal that a token authenticates. The principal's slices must not be changed, because all
// requests with the token share them. It waits for the issuer only if the token is opaque (at most 5 s) or its key is
// unknown (at most 10 s).
func (i *Issuer) Verify(ctx context.Context, token string) (a2a.Principal, error) {
	return verify(ctx, []*Issuer{i}, token)
}

// Set verifies the tokens of several issuers.
type Set struct{ issuers []*Issuer }

// NewSet returns a set of issuers with different names and URLs.
func NewSet(issuers ...*Issuer) (*Set, error) {
	for n, i := range issuers {
		for _, other := range issuers[:n] {
			if i.Name() == other.Name() || i.URL() == other.URL() {
				return nil, fmt.Errorf("issuers: %s and %s have the same name or URL", i.Name(), other.Name())
			}
		}
	}
	return &Set{issuers}, nil
}

// Issuers returns the issuers in the order of NewSet.
func (s *Set) Issuers() []*Issuer { return s.issuers }

// Start starts all issuers. See [Issuer.Start].
func (s *Set) Start(ctx context.Context) {
	for _, i := range s.issuers {
		i.Start(ctx)
	}
}

// Close closes all issuers.
func (s *Set) Close() {
	for _, i := range s.issuers {
		i.Close()
	}
}

// Verify returns the principal that a token authenticates. The claim iss of a JWT selects the issuer that verifies it.
// Other tokens are sent to each issuer with introspection until one accepts the token. See [Issuer.Verify].
func (s *Set) Verify(ctx context.Context, token string) (a2a.Principal, error) {
	return verify(ctx, s.issuers, token)
}

func verify(ctx context.Context, issuers []*Issuer, token string) (a2a.Principal, error) {
	switch {
	case token == "":
		return a2a.Principal{}, a2a.Refusef(a2a.CodeUnauthenticated, "missing", "authentication is required: send an access token")
	case len(token) > maxToken:
		return a2a.Principal{}, invalid("the token has more than %d bytes", maxToken)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return a2a.Principal{}, invalid("the token has characters that no token has")
	}
	hash := sha256.Sum256([]byte(token))
	for _, i := range issuers {
		if p, ok := i.known(hash); ok {
			return p, nil
		}
	}
	t, err := decode(token)
	if err == nil {
		for _, i := range issuers {
			if t.claims["iss"] == i.cfg.URL {
				return i.verifyJWT(ctx, t, hash)
			}
		}
		err = a2a.Refusef(a2a.CodeUnauthenticated, "issuer", "the token's issuer is not accepted here")
	}
	asked := false
	for _, i := range issuers {
		if i.cfg.Introspection == nil {
			continue
		}
		p, refusal := i.introspect(ctx, token, hash)
		if refusal == nil {
			return p, nil
		}
		if !asked || a2a.CodeOf(refusal) == a2a.CodeUnavailable {
			err = refusal
		}
		asked = true
	}
	return a2a.Principal{}, err
}

// known returns the principal of a token that was verified before, a JWT with the present keys.
func (i *Issuer) known(hash [sha256.Size]byte) (a2a.Principal, bool) {
	now := i.cfg.Now()
	if v, ok := i.verified.get(hash, now); ok && v.set == i.keys.current(now) {
		return v.principal, true
	}
	a, ok := i.answers.get(hash, now)
	return a.principal, ok && a.err == nil
}

// credential returns the hash of a token for logs.
func credential(hash [sha256.Size]byte) string { return hex.EncodeToString(hash[:16]) }

// invalid returns the error for a token that breaks a rule.
func invalid(format string, args ...any) *a2a.Error {
	return a2a.Refusef(a2a.CodeUnauthenticated, "invalid_token", format, args...)
}

// unavailable returns the error while an issuer does not answer correctly.
func (i *Issuer) unavailable(cause error) *a2a.Error {
	e := a2a.Refusef(a2a.CodeUnavailable, "issuer_unavailable", "the issuer %s is not available; retry later", i.cfg.Name)
	e.Err = cause
	return e
}
