package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/auth/did"
	"github.com/holdfast-dev/holdfast/auth/issuer"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/store"
)

// identityFlags determine how callers prove who they are, and what they may do.
type identityFlags struct {
	Issuers   []string `name:"issuer" placeholder:"[NAME=]URL" envvar:"" group:"Access:" help:"Issuer of access tokens: an OpenID Connect or OAuth 2.0 server (docs/identity.md). NAME, oidc by default, is the first part of the ids of principals. Repeatable."`
	Audiences []string `name:"audience" placeholder:"TEXT" envvar:"" group:"Access:" help:"Audience that the tokens of --issuer must name, usually the public URL of the agent. Repeatable."`
	Providers []string `name:"issuer-provider" placeholder:"[NAME=]PRODUCT" envvar:"" group:"Access:" help:"Product of an issuer, which determines where its tokens have roles: keycloak, azure_ad, okta, auth0 or hydra. Hydra's clients may be DIDs. Repeatable (default tokens have no roles)."`
	Roles     string   `name:"roles-file" placeholder:"FILE" envvar:"" group:"Access:" help:"Roles, their trust levels and permissions, a JSON file (docs/identity.md). SIGHUP reloads it (default every caller may call every method)."`
	DIDs      []string `name:"allowed-did" placeholder:"DID" envvar:"" group:"Access:" help:"DID that identifies a caller without a token, by its signature, as Bindu's agents sign. Repeatable."`
}

// defaultIssuer is the name of an issuer without a name.
const defaultIssuer = "oidc"

// access is how callers of serve are identified.
type access struct {
	auth    *auth.Auth     // nil if every client has access
	tokens  *server.Tokens // nil without tokens
	issuers *issuer.Set    // nil without issuers
	// providers has the providers of the issuers by their names.
	providers map[string]a2a.IdentityProvider
	records   *lateRecords
	dids      *auth.DIDs // nil if signatures of DIDs are not verified
}

// lateRecords are the records of the store that is opened after the settings are checked.
type lateRecords struct{ recordStore }

type recordStore interface{ store.Records }

// access checks the settings of the identity of callers, and sets them in cfg. The server's records are set when the
// store is open.
func (c *serveCmd) access(cfg *holdfast.Config) (s access, err error) {
	s.records = new(lateRecords)
	list, err := c.tokens()
	errs := []error{err}
	ac := auth.Config{Records: s.records, URL: cfg.Card.URL, Logger: cfg.Logger}
	if len(list) > 0 && err == nil {
		if s.tokens, err = server.NewTokens(list); err != nil {
			errs = append(errs, err)
		}
		ac.Schemes = append(ac.Schemes, auth.Tokens{Accepted: s.tokens})
	}
	issuers, err := c.issuers(cfg.Logger)
	errs = append(errs, err)
	s.providers = make(map[string]a2a.IdentityProvider)
	for _, i := range issuers {
		s.providers[i.Name] = i.Provider
	}
	if len(issuers) > 0 && err == nil {
		if s.issuers, err = newIssuers(issuers); err != nil {
			errs = append(errs, fmt.Errorf("--issuer: %w", err))
		} else {
			ac.Schemes = append(ac.Schemes, auth.Issuers{Set: s.issuers})
		}
	}
	if c.DIDs != nil || slices.ContainsFunc(issuers, func(i issuer.Config) bool { return i.DIDs }) {
		s.dids, err = c.dids()
		ac.DIDs = s.dids
		errs = append(errs, err)
	}
	if c.Roles != "" {
		ac.Roles, err = c.roles(s.providers)
		errs = append(errs, err)
		if err == nil {
			cfg.Card.AgentTrust = ac.Roles.Trust()
		}
	}
	if err := errors.Join(errs...); err != nil {
		return s, err
	}
	if len(ac.Schemes) == 0 && ac.DIDs == nil {
		if c.Roles != "" {
			return s, errors.New("--roles-file needs callers with credentials: --token, --tokens-file, --issuer or --allowed-did")
		}
		return s, nil
	}
	if s.auth, err = auth.New(ac); err != nil {
		return s, err
	}
	cfg.Security.Authenticator, cfg.Security.Authorizer, cfg.Security.Routes = s.auth, s.auth, s.auth.Routes(cfg.Name)
	return s, nil
}

// describe says how callers prove who they are.
func (s *access) describe() string {
	var ways []string
	if s.tokens != nil {
		ways = append(ways, "a bearer token")
	}
	if s.issuers != nil {
		for _, i := range s.issuers.Issuers() {
			ways = append(ways, "a token of "+i.URL())
		}
	}
	if s.dids != nil {
		ways = append(ways, "the signature of a DID")
	}
	return "with " + strings.Join(ways, ", or ")
}

// warnings returns texts about how a server with this access is exposed at an address.
func (s *access) warnings(cfg *holdfast.Config, addr net.Addr, encrypted bool) []string {
	behindProxy := strings.HasPrefix(cfg.Card.URL, "https://") || len(cfg.Security.TrustedProxies) > 0
	switch {
	case isLoopback(addr):
		return nil
	case s.auth == nil:
		return []string{"no token is required and other machines can reach this address: any client can use the agent and read its tasks; set --token or listen on 127.0.0.1"}
	case !encrypted && !behindProxy:
		return []string{"credentials arrive without encryption: set --tls-cert and --tls-key, or put a TLS proxy in front and set --url or --trusted-proxies"}
	}
	return nil
}

// start starts the issuers, and uses the records of a store. The caller must call stop.
func (s *access) start(ctx context.Context, st store.Store) (stop func()) {
	s.records.recordStore = st
	if s.dids != nil {
		s.dids.Replays = auth.NewReplays(st, st.Info().Exclusive, time.Now())
	}
	if s.issuers == nil {
		return func() {}
	}
	s.issuers.Start(ctx)
	return s.issuers.Close
}

// issuers returns the issuers of the settings.
func (f *identityFlags) issuers(log *slog.Logger) (list []issuer.Config, err error) {
	var errs []error
	for _, entry := range f.Issuers {
		name, url, named := strings.Cut(entry, "=")
		if !named || strings.Contains(name, "/") {
			name, url = defaultIssuer, entry
		}
		list = append(list, issuer.Config{Name: name, URL: url, Audiences: f.Audiences, Logger: log})
	}
	for _, entry := range f.Providers {
		name, product, named := strings.Cut(entry, "=")
		if !named {
			name, product = defaultIssuer, entry
		}
		i := slices.IndexFunc(list, func(c issuer.Config) bool { return c.Name == name })
		if i < 0 {
			errs = append(errs, fmt.Errorf("--issuer-provider: no --issuer has the name %s", a2a.Quote(name)))
			continue
		}
		list[i].Provider = a2a.IdentityProvider(product)
		list[i].DIDs = list[i].Provider == a2a.ProviderHydra
		if product == string(a2a.ProviderCustom) {
			errs = append(errs, errors.New("--issuer-provider: custom is for programs that configure the paths of the roles"))
		}
	}
	if len(list) > 0 && len(f.Audiences) == 0 {
		errs = append(errs, errors.New("--issuer needs --audience, the audience of tokens for this agent"))
	}
	if len(list) == 0 && len(f.Audiences) > 0 {
		errs = append(errs, errors.New("--audience needs --issuer"))
	}
	return list, errors.Join(errs...)
}

func newIssuers(list []issuer.Config) (*issuer.Set, error) {
	var all []*issuer.Issuer
	var errs []error
	for _, cfg := range list {
		i, err := issuer.New(cfg)
		errs = append(errs, err)
		all = append(all, i)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return issuer.NewSet(all...)
}

// dids returns the verification of DID signatures. Its Replays need the store.
func (f *identityFlags) dids() (*auth.DIDs, error) {
	for _, id := range f.DIDs {
		if err := did.Check(id); err != nil {
			return nil, fmt.Errorf("--allowed-did: %s: %w", a2a.Quote(id), err)
		}
	}
	resolver, err := did.NewResolver(did.ResolverConfig{})
	if err != nil {
		return nil, err
	}
	return &auth.DIDs{Resolver: resolver, Allowed: f.DIDs}, nil
}

// roles reads the roles file.
func (f *identityFlags) roles(providers map[string]a2a.IdentityProvider) (*auth.Roles, error) {
	text, err := os.ReadFile(f.Roles)
	if err != nil {
		return nil, fmt.Errorf("--roles-file: %w", err)
	}
	roles, err := auth.ParseRoles(text, providers)
	if err != nil {
		return nil, fmt.Errorf("--roles-file: %s: %w", f.Roles, err)
	}
	return roles, nil
}
