package server

import (
	"errors"
	"net/http"

	"github.com/holdfast-dev/holdfast/a2a"
)

// Authenticator identifies the callers of requests. The server calls it before it reads the body.
// It must be safe for concurrent use.
type Authenticator interface {
	// Authenticate returns the principal of a request, whose ID must not be empty. Methods that
	// the principal's Scopes do not cover are rejected. An [a2a.Error] determines the HTTP status and
	// the message; its code is usually unauthenticated (401). Other errors are internal (500).
	Authenticate(r *http.Request) (a2a.Principal, error)
	// Challenge returns the header WWW-Authenticate for a request that is not authenticated.
	Challenge(r *http.Request) string
	// Security returns the members securitySchemes and security of the agent card.
	Security() (schemes map[string]a2a.SecurityScheme, requirements []map[string][]string)
}

// authenticate sets the principal of the request, or rejects the request.
func (x *exchange) authenticate() bool {
	authenticator := x.s.cfg.Authenticator
	if authenticator == nil {
		x.principal = a2a.Principal{ID: a2a.Anonymous}
		return true
	}
	p, err := authenticator.Authenticate(x.r)
	if err == nil && p.ID == "" {
		err = errors.New("the authenticator returned a principal without an ID")
	}
	if err == nil {
		x.principal = p
		return true
	}
	status := a2a.CodeOf(err).HTTPStatus()
	if status == http.StatusUnauthorized {
		x.w.Header().Set("WWW-Authenticate", authenticator.Challenge(x.r))
	}
	x.refuse(status, err)
	return false
}
