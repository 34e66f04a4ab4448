package auth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/server"
)

// SchemeBearer is the name of the security scheme of static tokens.
const SchemeBearer = "bearer"

// Tokens are static bearer tokens as a [Scheme]. Their principals may have scopes and the names of roles.
type Tokens struct {
	// Accepted are the tokens. Required.
	Accepted *server.Tokens
}

// Declare implements [Scheme].
func (Tokens) Declare() map[string]a2a.SecurityScheme {
	return map[string]a2a.SecurityScheme{SchemeBearer: a2a.HTTPAuthSecurityScheme{Scheme: "bearer"}}
}

// Challenge implements [Scheme].
func (Tokens) Challenge() Challenge { return Challenge{Scheme: "Bearer"} }

// Authenticate implements [Scheme].
func (t Tokens) Authenticate(r *http.Request) (string, a2a.Principal, error) {
	token := bearerToken(r)
	if token == "" {
		return "", a2a.Principal{}, nil
	}
	p, ok := t.Accepted.Principal(token)
	if !ok {
		return "", p, nil
	}
	hash := sha256.Sum256([]byte(token))
	p.Credential = hex.EncodeToString(hash[:16])
	return SchemeBearer, p, nil
}

// Recheck implements [Rechecker].
func (t Tokens) Recheck(_ context.Context, p a2a.Principal) error {
	if hash, ok := strings.CutPrefix(p.Credential, SchemeBearer+":"); ok && !t.Accepted.Accepts(hash) {
		return a2a.Refusef(a2a.CodeUnauthenticated, "invalid_token", "the token is no longer accepted")
	}
	return nil
}

// bearerToken returns the bearer token of a request, "" if it has none.
func bearerToken(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.Trim(token, " ")
}
