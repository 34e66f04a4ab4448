package issuer

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/config"
)

// Config configures an [Issuer]. Name, URL and Audiences are required.
type Config struct {
	// Name is the first part of the ids of principals: 1 to 64 letters, digits, dots, hyphens and underscores, but
	// not "did". Changing it gives all callers new principals.
	Name string
	// URL is the issuer's identifier, exactly as in the tokens' claim iss. It is an https URL without query, or an
	// http URL of a loopback host.
	URL string
	// Audiences are the values of the claim aud that stand for this server. A token must have at least one of them.
	Audiences []string
	// Algorithms are the accepted signature algorithms of RFC 7518 and RFC 8037 with public keys. Default: ES256,
	// ES384, EdDSA, PS256, RS256.
	Algorithms []string
	// Provider is the product that issues the tokens. It determines the claims with roles, and sets PlainTypes for
	// keycloak, azure_ad, okta and auth0. Default: no roles.
	Provider a2a.IdentityProvider
	// RoleClaims are the claims with roles, for the provider custom: dotted paths such as realm_access.roles. The
	// part <aud> stands for each of Audiences that the token has. A claim with the whole path as its name takes
	// precedence.
	RoleClaims []string
	// PlainTypes accepts tokens of the type JWT or without a type, unless they are evidently ID tokens.
	PlainTypes bool
	// IDTokens also accepts ID tokens. They prove who a user is, not that the user lets the client call this server.
	IDTokens bool
	// DIDs makes a client id that is a DID the principal. The caller must verify the DID's signature of the request.
	DIDs bool
	// Unscoped grants all scopes to a token without a claim for scopes. Then roles are the only limit.
	Unscoped bool
	// Introspection verifies opaque tokens, and JWTs that no issuer of the [Set] has issued: the endpoint receives all of
	// these, also tokens for other issuers with introspection. Default: such tokens are refused.
	Introspection *Introspection
	// HTTP makes the requests to the issuer. Its redirect policy is replaced. Default: a client with http.DefaultTransport.
	HTTP *http.Client
	// Now returns the time. Default: time.Now.
	Now func() time.Time
	// Logger logs failed and recovered requests to the issuer. Default: no logs.
	Logger *slog.Logger
}

// Introspection configures token introspection (RFC 7662).
type Introspection struct {
	// URL is the endpoint, under the rules of Config.URL. Default: introspection_endpoint of the issuer's metadata.
	URL string
	// ClientID and ClientSecret authenticate this server by HTTP Basic (RFC 6749 section 2.3.1). An endpoint that is
	// only reachable from this server, such as Hydra's, needs neither.
	ClientID, ClientSecret string
}

// String returns a description without the secret, for logs.
func (c Introspection) String() string { return "introspection at " + c.URL + " as " + c.ClientID }

// GoString returns a description without the secret, for logs.
func (c Introspection) GoString() string { return c.String() }

// LogValue returns a description without the secret, for logs.
func (c Introspection) LogValue() slog.Value { return slog.StringValue(c.String()) }

var (
	names = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

	defaultAlgorithms = []string{"ES256", "ES384", "EdDSA", "PS256", "RS256"}

	// roleClaims are the claims with the roles of a provider, from the documentation of the products.
	roleClaims = map[a2a.IdentityProvider][]string{
		a2a.ProviderKeycloak: {"realm_access.roles", "resource_access.<aud>.roles"},
		a2a.ProviderAzureAD:  {"roles"},
		a2a.ProviderOkta:     {"groups"},
		a2a.ProviderAuth0:    {"permissions"},
		a2a.ProviderHydra:    {"ext.roles"},
	}
	plainTypes = []a2a.IdentityProvider{a2a.ProviderKeycloak, a2a.ProviderAzureAD, a2a.ProviderOkta, a2a.ProviderAuth0}
)

// check sets the defaults and returns an error that lists all problems.
func (c *Config) check() error {
	e := &config.Error{Of: "issuer"}
	e.Reject(!names.MatchString(c.Name) || c.Name == "did", "Name", c.Name, `1 to 64 letters, digits, ".", "-" or "_", and not did`)
	u, err := checkURL(c.URL, true)
	e.Add("URL", err)
	e.Reject(err == nil && (u.RawQuery != "" || u.ForceQuery), "URL", c.URL, "a URL without a query")
	e.Require(len(c.Audiences) == 0, "Audiences")
	e.Reject(slices.Contains(c.Audiences, ""), "Audiences", nil, "must not contain an empty text")
	if len(c.Algorithms) == 0 {
		c.Algorithms = defaultAlgorithms
	}
	for _, a := range c.Algorithms {
		e.Reject(fits[jose.SignatureAlgorithm(a)] == nil, "Algorithms", a, "a signature algorithm with a public key, such as ES256")
	}
	e.Reject(c.Provider != "" && !slices.Contains(c.Provider.EnumValues(), string(c.Provider)), "Provider", string(c.Provider),
		"one of %s", strings.Join(c.Provider.EnumValues(), ", "))
	e.Reject((c.Provider == a2a.ProviderCustom) != (len(c.RoleClaims) > 0), "RoleClaims", nil, "must be set for the provider custom, and only for it")
	if c.Provider != a2a.ProviderCustom {
		c.RoleClaims = roleClaims[c.Provider]
	}
	c.PlainTypes = c.PlainTypes || slices.Contains(plainTypes, c.Provider)
	if in := c.Introspection; in != nil {
		if in.URL != "" {
			_, err := checkURL(in.URL, true)
			e.Add("Introspection.URL", err)
		}
		e.Reject((in.ClientID == "") != (in.ClientSecret == ""), "Introspection", nil, "must have both ClientID and ClientSecret, or neither")
	}
	client := *cmp.Or(c.HTTP, &http.Client{})
	client.CheckRedirect = checkRedirect
	c.HTTP = &client
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return e.OrNil()
}

// checkURL returns a URL that is https, or if loopback is true, http with a loopback host.
func checkURL(raw string, loopback bool) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "":
		return nil, fmt.Errorf("%q is not an absolute URL without user and fragment", raw)
	case u.Scheme == "https", u.Scheme == "http" && loopback && isLoopback(u):
		return u, nil
	}
	return nil, fmt.Errorf("%q is not https", raw)
}

func isLoopback(u *url.URL) bool {
	addr, err := netip.ParseAddr(u.Hostname())
	return err == nil && addr.IsLoopback() || u.Hostname() == "localhost"
}
