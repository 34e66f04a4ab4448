package server

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/holdfast-dev/holdfast/a2a"
)

// Token is a bearer token and the principal that it authenticates.
type Token struct {
	Token     string
	Principal a2a.Principal
}

// String returns a description without the token, for logs.
func (t Token) String() string { return "token of " + t.Principal.ID }

// GoString returns a description without the token, for logs.
func (t Token) GoString() string { return t.String() }

// LogValue returns a description without the token, for logs.
func (t Token) LogValue() slog.Value { return slog.StringValue(t.String()) }

// Tokens is an [Authenticator] by bearer tokens. Create one with [NewTokens].
type Tokens struct{ accepted atomic.Pointer[[]hashedToken] }

// hashedToken is a token as it is compared: by hash, so that the duration does not depend on
// the token presented.
type hashedToken struct {
	hash      [sha256.Size]byte
	principal a2a.Principal
}

// NewTokens returns an authenticator for at least one token, or an error that lists all
// problems of the tokens.
func NewTokens(list []Token) (*Tokens, error) {
	t := new(Tokens)
	return t, t.Set(list)
}

// Set replaces the accepted tokens for subsequent requests. Open streams stay open. If any
// token is invalid, it returns an error that lists all problems and keeps the current tokens.
func (t *Tokens) Set(list []Token) error {
	if errs := checkTokens(list); len(errs) > 0 {
		return fmt.Errorf("server tokens: %w", errors.Join(errs...))
	}
	hashed := make([]hashedToken, len(list))
	for i, token := range list {
		hashed[i] = hashedToken{sha256.Sum256([]byte(token.Token)), token.Principal}
	}
	t.accepted.Store(&hashed)
	return nil
}

// Authenticate implements [Authenticator].
func (t *Tokens) Authenticate(r *http.Request) (a2a.Principal, error) {
	credentials := r.Header.Values("Authorization")
	if len(credentials) == 0 {
		return a2a.Principal{}, a2a.Refusef(a2a.CodeUnauthenticated, "missing", "authentication is required: send Authorization: Bearer")
	}
	scheme, token, _ := strings.Cut(credentials[0], " ")
	if len(credentials) == 1 && strings.EqualFold(scheme, "Bearer") {
		if p, ok := t.Principal(strings.Trim(token, " ")); ok {
			return p, nil
		}
	}
	return a2a.Principal{}, a2a.Refusef(a2a.CodeUnauthenticated, "invalid_token", "invalid credentials")
}

// Principal returns the principal that a token authenticates.
func (t *Tokens) Principal(token string) (a2a.Principal, bool) {
	hash := sha256.Sum256([]byte(token))
	accepted, found := *t.accepted.Load(), -1
	for i := range accepted {
		if subtle.ConstantTimeCompare(hash[:], accepted[i].hash[:]) == 1 {
			found = i
		}
	}
	if found < 0 {
		return a2a.Principal{}, false
	}
	return accepted[found].principal, true
}

// Accepts reports whether a token is accepted that has a SHA-256 with the given first 16 bytes, in hex.
func (t *Tokens) Accepts(hash string) bool {
	want, err := hex.DecodeString(hash)
	return err == nil && len(want) == 16 && slices.ContainsFunc(*t.accepted.Load(), func(a hashedToken) bool { return bytes.Equal(a.hash[:16], want) })
}

// Challenge implements [Authenticator].
func (t *Tokens) Challenge(r *http.Request) string {
	if len(r.Header.Values("Authorization")) > 0 {
		return `Bearer realm="holdfast", error="invalid_token"`
	}
	return `Bearer realm="holdfast"`
}

// Security implements [Authenticator].
func (t *Tokens) Security() (map[string]a2a.SecurityScheme, []map[string][]string) {
	return map[string]a2a.SecurityScheme{"bearer": a2a.HTTPAuthSecurityScheme{Scheme: "bearer"}}, []map[string][]string{{"bearer": {}}}
}

// checkTokens returns the problems of tokens. The errors do not contain the tokens.
func checkTokens(tokens []Token) (errs []error) {
	if len(tokens) == 0 {
		return []error{errors.New("at least one token is required")}
	}
	seen := make(map[string]int, len(tokens))
	for i, t := range tokens {
		if t.Token == "" || strings.ContainsFunc(t.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			errs = append(errs, fmt.Errorf("Tokens[%d]: the token must be non-empty printable ASCII without spaces", i))
		}
		if err := t.Principal.Check(); err != nil {
			errs = append(errs, fmt.Errorf("Tokens[%d]: %w", i, err))
		}
		if first, ok := seen[t.Token]; ok {
			errs = append(errs, fmt.Errorf("Tokens[%d] is the same token as Tokens[%d]", i, first))
		}
		seen[t.Token] = i
	}
	return errs
}
