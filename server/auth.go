package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
)

// tokens are the accepted bearer tokens. They are compared by hash, so that the duration
// does not depend on the token presented.
type tokens []hashedToken

type hashedToken struct {
	hash      [sha256.Size]byte
	principal a2a.Principal
}

func newTokens(list []Token) *tokens {
	var t tokens
	for _, token := range list {
		t = append(t, hashedToken{hash: sha256.Sum256([]byte(token.Token)), principal: token.Principal})
	}
	return &t
}

// SetTokens replaces the accepted tokens for subsequent requests. Open streams stay open. If
// any token is invalid, it returns an error that lists all problems and keeps the current
// tokens. It cannot turn authentication on or off, because the agent card declares it. It is
// safe for concurrent use.
func (s *Server) SetTokens(list []Token) error {
	errs := checkTokens(list)
	if len(list) == 0 != (len(s.cfg.Tokens) == 0) {
		errs = append(errs, errors.New("authentication cannot be turned on or off while the server runs"))
	}
	if len(errs) > 0 {
		return fmt.Errorf("server tokens: %w", errors.Join(errs...))
	}
	s.tokens.Store(newTokens(list))
	return nil
}

// principal returns the principal that a token authenticates.
func (t tokens) principal(token string) (a2a.Principal, bool) {
	hash := sha256.Sum256([]byte(token))
	found := -1
	for i := range t {
		if subtle.ConstantTimeCompare(hash[:], t[i].hash[:]) == 1 {
			found = i
		}
	}
	if found < 0 {
		return a2a.Principal{}, false
	}
	return t[found].principal, true
}

// authenticate sets the principal of the request, or rejects the request.
func (x *exchange) authenticate() bool {
	accepted := *x.s.tokens.Load()
	if len(accepted) == 0 {
		x.principal = a2a.Principal{ID: a2a.Anonymous}
		return true
	}
	credentials := x.r.Header.Values("Authorization")
	if len(credentials) == 1 {
		scheme, token, _ := strings.Cut(credentials[0], " ")
		if strings.EqualFold(scheme, "Bearer") {
			if p, ok := accepted.principal(strings.Trim(token, " ")); ok {
				x.principal = p
				return true
			}
		}
	}
	challenge, text := `Bearer realm="holdfast"`, "authentication is required: send Authorization: Bearer"
	if len(credentials) > 0 {
		challenge, text = challenge+`, error="invalid_token"`, "invalid credentials"
	}
	x.w.Header().Set("WWW-Authenticate", challenge)
	x.refuse(http.StatusUnauthorized, a2a.Errorf(a2a.CodeUnauthenticated, "%s", text))
	return false
}
