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

// tokens are what callers may present, by hash, so that comparing takes the same
// time whatever is presented.
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

// SetTokens replaces the tokens that callers may present, for requests from now on;
// open streams stay open. It reports everything that is wrong with the new ones and
// keeps the old ones then. Whether tokens are required at all cannot change, since the
// agent card says so. Safe for concurrent use.
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

// principal returns whom a token stands for.
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

// authenticate finds out who asks, or refuses the request.
func (x *exchange) authenticate() bool {
	known := *x.s.tokens.Load()
	if len(known) == 0 {
		x.principal = a2a.Principal{ID: a2a.Anonymous}
		return true
	}
	given := x.r.Header.Values("Authorization")
	if len(given) == 1 {
		scheme, token, _ := strings.Cut(given[0], " ")
		if strings.EqualFold(scheme, "Bearer") {
			if p, ok := known.principal(strings.Trim(token, " ")); ok {
				x.principal = p
				return true
			}
		}
	}
	challenge, text := `Bearer realm="holdfast"`, "authentication is required: send Authorization: Bearer"
	if len(given) > 0 {
		challenge, text = challenge+`, error="invalid_token"`, "the credentials are not known here"
	}
	x.w.Header().Set("WWW-Authenticate", challenge)
	x.refuse(http.StatusUnauthorized, a2a.Errorf(a2a.CodeUnauthenticated, "%s", text))
	return false
}
