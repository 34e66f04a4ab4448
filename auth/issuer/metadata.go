package issuer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/wire"
)

const (
	maxDocument  = 1 << 20          // bytes of metadata or keys
	fetchTimeout = 10 * time.Second // of one request for them
	maxRedirects = 3
)

// Metadata are what an issuer publishes about itself, for the security schemes of an agent card. Endpoints are URLs as
// [Config.URL], "" if the issuer has none.
type Metadata struct {
	// URL is the URL of the metadata.
	URL string
	// OIDC reports whether they are an OpenID Connect discovery document.
	OIDC bool
	// AuthorizationEndpoint and TokenEndpoint are of RFC 6749, DeviceEndpoint of RFC 8628, RegistrationEndpoint of RFC 7591.
	AuthorizationEndpoint, TokenEndpoint, DeviceEndpoint, RegistrationEndpoint string
	// Scopes are the scopes that the issuer announces, GrantTypes the grant types; nil if it announces none.
	Scopes, GrantTypes []string

	keys, introspection string
}

// document are the members of RFC 8414 section 2 and OpenID Connect Discovery 1.0 section 3 that are used.
type document struct {
	Issuer        string   `json:"issuer" wire:"required"`
	Keys          string   `json:"jwks_uri" wire:"required"`
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	Device        string   `json:"device_authorization_endpoint"`
	Registration  string   `json:"registration_endpoint"`
	Introspection string   `json:"introspection_endpoint"`
	Scopes        []string `json:"scopes_supported"`
	GrantTypes    []string `json:"grant_types_supported"`
}

// discover fetches the metadata: by OpenID Connect Discovery 1.0 section 4, else by RFC 8414 section 3.
func (i *Issuer) discover(ctx context.Context) (*Metadata, error) {
	u, _ := url.Parse(i.cfg.URL) // New has checked it
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	base := u.Scheme + "://" + u.Host
	m, err := i.discoverAt(ctx, base+path+"/.well-known/openid-configuration")
	if err == nil {
		m.OIDC = true
		return m, nil
	}
	m, other := i.discoverAt(ctx, base+"/.well-known/oauth-authorization-server"+path)
	if other != nil {
		return nil, errors.Join(err, other)
	}
	return m, nil
}

// discoverAt fetches and checks the metadata at a URL.
func (i *Issuer) discoverAt(ctx context.Context, location string) (*Metadata, error) {
	raw, _, err := i.get(ctx, location)
	if err != nil {
		return nil, err
	}
	var d document
	if err := wire.UnmarshalStrict(raw, &d); err != nil {
		return nil, fmt.Errorf("%s: %w", location, err)
	}
	if d.Issuer != i.cfg.URL {
		return nil, fmt.Errorf("%s: the issuer is %q, want %q", location, d.Issuer, i.cfg.URL)
	}
	endpoint := func(raw string) string {
		if _, err := checkURL(raw, strings.HasPrefix(i.cfg.URL, "http:")); err != nil {
			return ""
		}
		return raw
	}
	m := &Metadata{
		URL: location, Scopes: d.Scopes, GrantTypes: d.GrantTypes,
		AuthorizationEndpoint: endpoint(d.Authorization), TokenEndpoint: endpoint(d.Token),
		DeviceEndpoint: endpoint(d.Device), RegistrationEndpoint: endpoint(d.Registration),
		keys: endpoint(d.Keys), introspection: endpoint(d.Introspection),
	}
	if m.keys == "" {
		return nil, fmt.Errorf("%s: jwks_uri is %q, want an https URL", location, d.Keys)
	}
	return m, nil
}

// get returns a document and its max-age (RFC 9111 section 5.2.2.1), 0 if it has none.
func (i *Issuer) get(ctx context.Context, location string) (body []byte, age time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, location, nil)
	if err != nil {
		return nil, 0, err
	}
	body, header, err := i.do(r, maxDocument)
	for directive := range strings.SplitSeq(header.Get("Cache-Control"), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		if seconds, err := strconv.ParseUint(value, 10, 31); err == nil && strings.EqualFold(name, "max-age") {
			age = time.Duration(seconds) * time.Second
		}
	}
	return body, age, err
}

// do sends a request and returns the body of an answer with status 200 and at most limit bytes.
func (i *Issuer) do(r *http.Request, limit int64) ([]byte, http.Header, error) {
	r.Header.Set("Accept", "application/json")
	response, err := i.cfg.HTTP.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("%s %s: status %d, want 200", r.Method, r.URL, response.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	if err == nil && int64(len(body)) > limit {
		err = fmt.Errorf("%s %s: more than %d bytes", r.Method, r.URL, limit)
	}
	return body, response.Header, err
}

// checkRedirect follows redirects of GET to the same host and scheme only.
func checkRedirect(r *http.Request, via []*http.Request) error {
	first := via[0]
	if first.Method != http.MethodGet || r.URL.Host != first.URL.Host || r.URL.Scheme != first.URL.Scheme || len(via) > maxRedirects {
		return errors.New("redirects to other hosts, of POST requests and more than 3 are not followed")
	}
	return nil
}
