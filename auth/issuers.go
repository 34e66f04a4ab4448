package auth

import (
	"net/http"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/auth/issuer"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/server"
)

// Issuers are access tokens of OAuth 2.0 and OpenID Connect issuers as a [Scheme]. The name of an issuer is the name of
// its security scheme.
type Issuers struct {
	// Set verifies the tokens. Required. The caller starts and closes it.
	Set *issuer.Set
	// Flows are the OAuth 2.0 flows of issuers by their names. An issuer without flows is declared as OpenID Connect.
	Flows map[string]a2a.OAuthFlows
}

// Declare implements [Scheme].
func (s Issuers) Declare() map[string]a2a.SecurityScheme {
	declared := make(map[string]a2a.SecurityScheme)
	for _, i := range s.Set.Issuers() {
		if flows, ok := s.Flows[i.Name()]; ok {
			declared[i.Name()] = a2a.OAuth2SecurityScheme{Flows: flows}
		} else {
			declared[i.Name()] = a2a.OpenIDConnectSecurityScheme{URL: strings.TrimSuffix(i.URL(), "/") + "/.well-known/openid-configuration"}
		}
	}
	return declared
}

// Challenge implements [Scheme].
func (Issuers) Challenge() Challenge {
	return Challenge{Scheme: "Bearer", Params: []string{"scope", string(a2a.ScopeRead) + " " + string(a2a.ScopeWrite)}}
}

// Authenticate implements [Scheme].
func (s Issuers) Authenticate(r *http.Request) (string, a2a.Principal, error) {
	token := bearerToken(r)
	if token == "" {
		return "", a2a.Principal{}, nil
	}
	p, err := s.Set.Verify(r.Context(), token)
	return p.Issuer, p, err
}

// metadataPath is the path of the metadata of RFC 9728.
const metadataPath = "/.well-known/oauth-protected-resource"

// resourceMetadata are the members of RFC 9728 section 2.
type resourceMetadata struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers,omitempty"`
	Scopes   []string `json:"scopes_supported,omitempty"`
	Methods  []string `json:"bearer_methods_supported,omitempty"`
	Name     string   `json:"resource_name,omitempty"`
}

// Routes returns the public paths that describe the authentication: the metadata of the agent as a protected resource
// (RFC 9728). name is the name of the agent.
func (a *Auth) Routes(name string) []server.Route {
	m := resourceMetadata{Scopes: []string{string(a2a.ScopeRead), string(a2a.ScopeWrite)}, Methods: []string{"header"}, Name: name}
	bearer := false
	for _, s := range a.schemes {
		bearer = bearer || s.bearer
		if s, ok := s.Scheme.(Issuers); ok {
			for _, i := range s.Set.Issuers() {
				m.Servers = append(m.Servers, i.URL())
			}
		}
	}
	if !bearer {
		return nil
	}
	return []server.Route{{Method: http.MethodGet, Path: metadataPath, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown := m
		shown.Resource = a.resource(r)
		body, err := wire.Marshal(shown)
		if err != nil {
			http.Error(w, "internal error", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "public, max-age=300")
		_, _ = w.Write(append(body, '\n'))
	})}}
}

// resource returns the URL of the agent as a protected resource.
func (a *Auth) resource(r *http.Request) string {
	if a.cfg.URL != "" {
		return a.cfg.URL
	}
	return server.Origin(r).URL()
}
