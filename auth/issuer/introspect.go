package issuer

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

const (
	callTimeout = 5 * time.Second // of an introspection, with the time until it may start
	maxCalls    = 32              // introspections at a time
	maxAnswer   = 64 << 10        // bytes of an answer
	acceptedFor = time.Minute     // in the cache
	refusedFor  = 5 * time.Second // in the cache
)

// privileged are scopes that are confirmed by the issuer for each request, so that a revoked token ends at once.
var privileged = []a2a.Scope{"admin", "agent:execute", "payment:capture", "key:rotate"}

// answer is the outcome of an introspection: a principal, or why the token was refused.
type answer struct {
	principal a2a.Principal
	err       error
}

// calls are the introspections in progress, one for each token.
type calls struct {
	mu      sync.Mutex
	byToken map[[sha256.Size]byte]*flight[a2a.Principal]
	slots   chan struct{} // has one element for each call
}

// introspect returns the principal of a token that the issuer confirms. Concurrent calls with a token share one request.
func (i *Issuer) introspect(ctx context.Context, token string, hash [sha256.Size]byte) (a2a.Principal, error) {
	if a, ok := i.answers.get(hash, i.cfg.Now()); ok {
		return a.principal, a.err
	}
	c := &i.calls
	c.mu.Lock()
	if f := c.byToken[hash]; f != nil {
		c.mu.Unlock()
		p, err := f.wait(ctx)
		if refusal := new(a2a.Error); err != nil && !errors.As(err, &refusal) {
			err = i.unavailable(err)
		}
		return p, err
	}
	f := &flight[a2a.Principal]{done: make(chan struct{})}
	c.byToken[hash] = f
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.byToken, hash)
		c.mu.Unlock()
		close(f.done)
	}()
	f.value, f.err = i.confirm(context.WithoutCancel(ctx), token, hash) // others wait for it
	return f.value, f.err
}

// confirm asks the issuer for a token's claims and checks them. It caches the outcome.
func (i *Issuer) confirm(ctx context.Context, token string, hash [sha256.Size]byte) (p a2a.Principal, err error) {
	c, err := i.ask(ctx, token)
	if err != nil {
		return p, i.unavailable(err)
	}
	now := i.cfg.Now()
	if p, err = i.introspected(c, now, hash); err != nil {
		i.answers.put(hash, answer{err: err}, now.Add(refusedFor))
		return p, err
	}
	isPrivileged := func(s a2a.Scope) bool { return slices.Contains(privileged, s) }
	if p.Scopes != nil && !slices.ContainsFunc(p.Scopes, isPrivileged) {
		until := now.Add(acceptedFor)
		if p.Expires.Before(until) {
			until = p.Expires
		}
		i.answers.put(hash, answer{principal: p}, until)
	}
	return p, nil
}

// introspected returns the principal of an introspection answer (RFC 7662 section 2.2). iss and aud are checked if
// the answer has them; an empty aud counts as absent.
func (i *Issuer) introspected(c claims, now time.Time, hash [sha256.Size]byte) (a2a.Principal, error) {
	switch iss := c["iss"]; {
	case c["active"] != true:
		return a2a.Principal{}, invalid("the token is not active")
	case iss != nil && iss != i.cfg.URL:
		return a2a.Principal{}, a2a.Refusef(a2a.CodeUnauthenticated, "issuer", "the token has another issuer")
	}
	if err := checkUse(c); err != nil {
		return a2a.Principal{}, err
	}
	audiences, err := i.checkClaims(c, now, false)
	if err != nil {
		return a2a.Principal{}, err
	}
	return i.principal(c, audiences, hash)
}

// ask requests the claims of a token (RFC 7662 section 2.1). An answer without a boolean active is an error.
func (i *Issuer) ask(ctx context.Context, token string) (claims, error) {
	m, _ := i.Metadata()
	in := i.cfg.Introspection
	endpoint := cmp.Or(in.URL, m.introspection)
	if endpoint == "" {
		return nil, errors.New("the introspection endpoint is not known")
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	select {
	case i.calls.slots <- struct{}{}:
		defer func() { <-i.calls.slots }()
	case <-ctx.Done():
		return nil, errors.New("too many introspections at a time")
	}
	form := url.Values{"token": {token}, "token_type_hint": {"access_token"}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if in.ClientID != "" {
		r.SetBasicAuth(url.QueryEscape(in.ClientID), url.QueryEscape(in.ClientSecret))
	}
	raw, _, err := i.do(r, maxAnswer)
	if err != nil {
		return nil, err
	}
	var c claims
	if err := wire.UnmarshalStrict(raw, &c); err != nil {
		return nil, fmt.Errorf("%s: the introspection answer is not a JSON object with unique members", endpoint)
	}
	if _, ok := c["active"].(bool); !ok {
		return nil, fmt.Errorf("%s: the introspection answer has no boolean member active", endpoint)
	}
	return c, nil
}
