package server

import (
	"net/http"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/server/internal/exchange"
)

// Authenticator identifies the callers of requests. The server calls it before it reads the body.
// It must be safe for concurrent use.
type Authenticator interface {
	// Authenticate returns the principal of a request. If its ID is not valid ([a2a.Principal]), the request
	// is rejected with 403. Methods that the principal's Scopes do not cover are rejected. An [a2a.Error] determines the HTTP status and
	// the message; its code is usually unauthenticated (401). Other errors are internal (500).
	Authenticate(r *http.Request) (a2a.Principal, error)
	// Challenge returns the header WWW-Authenticate for a request that is not authenticated.
	Challenge(r *http.Request) string
	// Security returns the members securitySchemes and security of the agent card.
	Security() (schemes map[string]a2a.SecurityScheme, requirements []map[string][]string)
}

// authenticate sets the principal of the request, or rejects the request.
func (s *Server) authenticate(x *exchange.Exchange) bool {
	status, err := s.identify(x)
	if err != nil {
		s.refuse(x, status, err)
	}
	return err == nil
}

// identify sets the principal of the request, or returns the error and its HTTP status.
func (s *Server) identify(x *exchange.Exchange) (status int, err error) {
	authenticator := s.cfg.Security.Authenticator
	if authenticator == nil {
		x.Principal = a2a.Principal{ID: a2a.Anonymous}
		return http.StatusOK, nil
	}
	p, err := authenticator.Authenticate(x.Request)
	if err == nil {
		err = p.Check()
	}
	if err == nil {
		x.Principal = p
		return http.StatusOK, nil
	}
	if status = a2a.CodeOf(err).HTTPStatus(); status == http.StatusUnauthorized {
		x.Header().Set("WWW-Authenticate", authenticator.Challenge(x.Request))
	}
	return status, err
}
