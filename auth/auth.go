package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/auth/did"
	"github.com/holdfast-dev/holdfast/store"
)

// Scheme verifies the credentials of one kind. It must be safe for concurrent use.
type Scheme interface {
	// Declare returns the security schemes of the agent card that the credentials satisfy, by their names.
	Declare() map[string]a2a.SecurityScheme
	// Challenge returns the challenge of the header WWW-Authenticate (RFC 9110 section 11.6.1) for a request without
	// valid credentials.
	Challenge() Challenge
	// Authenticate verifies the credentials of a request and returns the name of the security scheme that they
	// satisfy. The name is "" if the request has no credentials of this kind, or none that the Scheme knows. The
	// principal's Credential is a hash of the credential; [Auth] adds the name and a colon before it.
	Authenticate(r *http.Request) (name string, p a2a.Principal, err error)
}

// Challenge is a challenge of the header WWW-Authenticate.
type Challenge struct {
	// Scheme is the name of the authentication scheme, such as Bearer.
	Scheme string
	// Params are its parameters besides realm, in pairs of name and value.
	Params []string
}

// Rechecker is a Scheme with credentials that can be revoked while a stream is open.
type Rechecker interface {
	Scheme
	// Recheck returns an error if the credentials of a principal are no longer valid. It returns nil for
	// principals of other schemes.
	Recheck(ctx context.Context, p a2a.Principal) error
}

// Config configures an [Auth]. Zero fields have the documented default.
type Config struct {
	// Schemes verify credentials. At least one of Schemes and DIDs is required. If a request satisfies several
	// schemes of a requirement, the first one of Schemes identifies the caller; the others add facts.
	Schemes []Scheme
	// DIDs verifies requests that DIDs have signed as Bindu's agents do. Its security scheme in requirements is
	// [SchemeDID]. Default: such signatures are ignored.
	DIDs *DIDs
	// Require lists the accepted combinations of security schemes, as the member security of an agent card does: a
	// request must satisfy all schemes of one object, with the scopes. An empty object accepts requests without
	// credentials, as the anonymous principal. Default: any one scheme is enough.
	Require []map[string][]string
	// Roles determines the trust levels and permissions of principals. Default: they are not checked, and nobody may
	// act for another owner.
	Roles *Roles
	// Disabled reports principals that must not have access. Default: none.
	Disabled Disabled
	// Limits are the limits of calls. Default: none for principals.
	Limits Limits
	// Records stores the acts of operators for other owners. Required with Roles.
	Records store.Records
	// URL is the address of the agent for clients. Default: the address of the request.
	URL string
	// Now returns the time. Default: time.Now.
	Now func() time.Time
	// Logger receives messages for operators. Default: discards them.
	Logger *slog.Logger
}

// Disabled knows the principals that must not have access.
type Disabled interface {
	// Disabled reports whether the principal with an id is disabled.
	Disabled(ctx context.Context, id string) (bool, error)
}

// Auth identifies callers and decides what they may do. It implements the Authenticator, BodyAuthenticator, Rechecker
// and Authorizer of package server. It is safe for concurrent use.
type Auth struct {
	cfg     Config
	schemes []scheme
	declare map[string]a2a.SecurityScheme
	require []map[string][]string

	roles                    atomic.Pointer[Roles] // nil without roles
	calls, failures, denials limiters
}

// scheme is a Scheme with what New knows of it.
type scheme struct {
	Scheme
	bearer bool // its credentials are bearer tokens
}

// New returns an Auth, or an error that lists the problems of cfg.
func New(cfg Config) (*Auth, error) {
	a := &Auth{cfg: cfg, declare: make(map[string]a2a.SecurityScheme), require: cfg.Require}
	var errs []error
	if a.cfg.Now == nil {
		a.cfg.Now = time.Now
	}
	if a.cfg.Logger == nil {
		a.cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if a.cfg.Limits.Failures.PerSecond == 0 {
		a.cfg.Limits.Failures = Rate{PerSecond: 10, Burst: 100}
	}
	if cfg.Roles != nil && cfg.Records == nil {
		errs = append(errs, errors.New("auth config: Records is required with Roles, to store the acts of operators"))
	}
	for _, s := range cfg.Schemes {
		a.schemes = append(a.schemes, scheme{s, s.Challenge().Scheme == "Bearer"})
		for name, declared := range s.Declare() {
			if _, twice := a.declare[name]; twice || name == SchemeDID {
				errs = append(errs, fmt.Errorf("auth config: two schemes have the name %s", a2a.Quote(name)))
			}
			a.declare[name] = declared
		}
	}
	known := slices.Sorted(maps.Keys(a.declare))
	if cfg.DIDs != nil {
		known = append(known, SchemeDID)
	}
	if len(known) == 0 {
		errs = append(errs, errors.New("auth config: at least one scheme is required"))
	}
	for i, r := range cfg.Require {
		for name := range r {
			if !slices.Contains(known, name) {
				errs = append(errs, fmt.Errorf("auth config: Require[%d] names the scheme %s, want one of %s", i, a2a.Quote(name), strings.Join(known, ", ")))
			}
		}
	}
	a.roles.Store(cfg.Roles)
	if len(a.require) == 0 {
		for _, name := range known {
			a.require = append(a.require, map[string][]string{name: {}})
		}
	}
	return a, errors.Join(errs...)
}

// SetRoles replaces [Config.Roles] for subsequent requests. It cannot turn roles on or off.
func (a *Auth) SetRoles(r *Roles) error {
	if r == nil || a.roles.Load() == nil {
		return errors.New("roles cannot be turned on or off while the server runs")
	}
	a.roles.Store(r)
	return nil
}

// Security returns the members securitySchemes and security of the agent card. A card cannot declare DID signatures;
// requirements with them are omitted, so that the card names no scheme which it does not describe.
func (a *Auth) Security() (map[string]a2a.SecurityScheme, []map[string][]string) {
	declared := slices.DeleteFunc(slices.Clone(a.require), func(r map[string][]string) bool { _, ok := r[SchemeDID]; return ok })
	return maps.Clone(a.declare), declared
}

// Challenge returns the header WWW-Authenticate of a response to a request without valid credentials. It names every
// scheme that a requirement names.
func (a *Auth) Challenge(r *http.Request) string {
	var all []string
	failed := len(r.Header["Authorization"]) > 0
	bearer := false
	for _, s := range slices.Backward(a.schemes) { // of the bearer tokens, issuers say most
		c := s.Challenge()
		params := append([]string{"realm", "holdfast"}, c.Params...)
		if s.bearer {
			if bearer {
				continue
			}
			bearer = true
			params = append(params, "resource_metadata", strings.TrimSuffix(a.resource(r), "/")+metadataPath) // RFC 9728 section 5.1
			if failed {                                                                                       // RFC 6750 section 3.1
				params = append(params, "error", "invalid_token")
			}
		}
		all = append(all, c.Scheme+" "+quotedPairs(params))
	}
	slices.Reverse(all)
	if a.cfg.DIDs != nil {
		all = append(all, `DID realm="holdfast"`)
	}
	return strings.Join(all, ", ")
}

// quotedPairs returns the parameters of a challenge.
func quotedPairs(params []string) string {
	var pairs []string
	for i := 0; i+1 < len(params); i += 2 {
		pairs = append(pairs, params[i]+`="`+strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(params[i+1])+`"`)
	}
	return strings.Join(pairs, ", ")
}

// Authenticate returns the principal of a request. If a DID has signed the request, only [Auth.AuthenticateBody] knows
// the caller: Authenticate then checks what it can, and returns the anonymous principal.
func (a *Auth) Authenticate(r *http.Request) (a2a.Principal, error) {
	if a.signed(r) {
		_, err := did.ParseRequestSignature(r.Header, "", a.cfg.Now())
		if err == nil {
			err = did.CheckSize(r.ContentLength)
		}
		return a2a.Principal{ID: a2a.Anonymous}, a.failed(r, refuseDID(err))
	}
	p, err := a.identify(r, nil)
	return p, a.failed(r, err)
}

// AuthenticateBody returns the principal of a request that a DID has signed, and p for all others.
func (a *Auth) AuthenticateBody(r *http.Request, p a2a.Principal, body []byte) (a2a.Principal, error) {
	if !a.signed(r) {
		return p, nil
	}
	p, err := a.identify(r, body)
	return p, a.failed(r, err)
}

// failed counts and logs a request that failed to authenticate with err, and returns the error for it; nil if err is nil.
func (a *Auth) failed(r *http.Request, err error) error {
	if err == nil {
		return nil
	}
	limited := a.limitFailure(r, err)
	if a2a.CodeOf(limited) != a2a.CodeExhausted {
		a.auditFailure(r, err)
	}
	return limited
}

func (a *Auth) signed(r *http.Request) bool { return a.cfg.DIDs != nil && did.Signed(r.Header) }

// proven is the result of one scheme for a request.
type proven struct {
	name      string
	principal a2a.Principal
}

// identify verifies all credentials of a request and returns its principal. body is nil unless the request is signed.
func (a *Auth) identify(r *http.Request, body []byte) (a2a.Principal, error) {
	if len(r.Header["Authorization"]) > 1 {
		return a2a.Principal{}, a2a.Refusef(a2a.CodeUnauthenticated, "invalid_token", "the request has several Authorization headers")
	}
	var found []proven
	bearer := false // the bearer token is known
	for _, s := range a.schemes {
		if bearer && s.bearer {
			continue
		}
		name, p, err := s.Authenticate(r)
		if err != nil {
			return a2a.Principal{}, err
		}
		if name != "" {
			p.Credential = name + ":" + p.Credential
			found = append(found, proven{name, p})
			bearer = bearer || s.bearer
		}
	}
	if len(r.Header["Authorization"]) > 0 && !slices.ContainsFunc(found, func(f proven) bool { return a.usesAuthorization(f.name) }) {
		return a2a.Principal{}, a2a.Refusef(a2a.CodeUnauthenticated, "invalid_token", "invalid credentials")
	}
	bound := "" // the DID for which a token was issued
	for _, f := range found {
		bound = cmp.Or(bound, f.principal.DID)
	}
	if bound != "" && a.cfg.DIDs == nil {
		return a2a.Principal{}, a2a.Refusef(a2a.CodeUnauthenticated, "signature", "the token was issued to a DID, and this agent verifies no signatures of DIDs")
	}
	if bound != "" || a.signed(r) {
		p, err := a.cfg.DIDs.verify(r, body, found, bound, a.cfg.Now())
		if err != nil {
			return a2a.Principal{}, err
		}
		p.Credential = SchemeDID + ":" + p.Credential
		found = append(found, proven{SchemeDID, p})
	}
	p, err := a.meet(found)
	if err != nil {
		return a2a.Principal{}, err
	}
	if err := a.enabled(r.Context(), p.ID); err != nil {
		return a2a.Principal{}, err
	}
	if roles := a.roles.Load(); roles != nil {
		roles.grant(&p)
	}
	return p, nil
}

// usesAuthorization reports whether the credentials of a security scheme are in the header Authorization.
func (a *Auth) usesAuthorization(name string) bool {
	switch a.declare[name].(type) {
	case a2a.HTTPAuthSecurityScheme, a2a.OAuth2SecurityScheme, a2a.OpenIDConnectSecurityScheme:
		return true
	default:
		return false
	}
}

// meet returns the principal that the satisfied schemes identify, if they meet a requirement.
func (a *Auth) meet(found []proven) (a2a.Principal, error) {
	var missing []string // schemes of the requirement that lacks the fewest
	var denied error
	for _, required := range a.require {
		var lacks []string
		for name := range required {
			if !slices.ContainsFunc(found, func(f proven) bool { return f.name == name }) {
				lacks = append(lacks, name)
			}
		}
		if len(lacks) > 0 {
			if missing == nil || len(lacks) < len(missing) {
				missing = lacks
			}
			continue
		}
		p, err := combine(found, required)
		if err == nil {
			return p, nil
		}
		denied = cmp.Or(denied, err)
	}
	if denied != nil {
		return a2a.Principal{}, denied
	}
	slices.Sort(missing)
	return a2a.Principal{}, a2a.Refusef(a2a.CodeUnauthenticated, "missing", "authentication is required: the request lacks credentials of %s", strings.Join(missing, " and "))
}

// combine returns the principal of the schemes that a requirement names, or an error if it lacks a scope.
func combine(found []proven, required map[string][]string) (a2a.Principal, error) {
	p := a2a.Principal{ID: a2a.Anonymous}
	for _, f := range found {
		needed, named := required[f.name]
		if !named && (f.name != SchemeDID || f.principal.DID != p.ID) { // the signature of the principal that a token identifies is a proof
			continue
		}
		for _, scope := range needed {
			if !f.principal.May(a2a.Scope(scope)) {
				return p, a2a.Refusef(a2a.CodeDenied, "scope", "the credentials lack the scope %s", a2a.Quote(scope))
			}
		}
		p.Schemes = append(p.Schemes, f.name)
		if p.ID == a2a.Anonymous {
			f.principal.Schemes = p.Schemes
			p = f.principal
			continue
		}
		p.DID, p.Proof = cmp.Or(p.DID, f.principal.DID), cmp.Or(p.Proof, f.principal.Proof)
		if e := f.principal.Expires; p.Expires.IsZero() || !e.IsZero() && e.Before(p.Expires) {
			p.Expires = e
		}
	}
	return p, nil
}

// enabled returns an error if a principal is disabled.
func (a *Auth) enabled(ctx context.Context, id string) error {
	if a.cfg.Disabled == nil {
		return nil
	}
	disabled, err := a.cfg.Disabled.Disabled(ctx, id)
	if err == nil && disabled {
		err = a2a.Refusef(a2a.CodeUnauthenticated, "disabled", "the principal is disabled")
	}
	return err
}

// Recheck returns an error if the principal's access has ended since it was authenticated.
func (a *Auth) Recheck(ctx context.Context, p a2a.Principal) error {
	if err := a.enabled(ctx, p.ID); err != nil {
		return err
	}
	for _, s := range a.schemes {
		if s, ok := s.Scheme.(Rechecker); ok {
			if err := s.Recheck(ctx, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// reasonOf returns the reason of an error, or its code.
func reasonOf(err error) string {
	var e *a2a.Error
	if errors.As(err, &e) {
		if reason, ok := e.Data["reason"].(string); ok {
			return reason
		}
	}
	return string(a2a.CodeOf(err))
}
