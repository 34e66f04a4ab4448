package server

import (
	"context"
	"errors"
	"net/http"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/rpc"
	"github.com/holdfast-dev/holdfast/server/internal/exchange"
)

// Authenticator identifies the callers of requests. The server calls it before it reads the body.
// It must be safe for concurrent use.
type Authenticator interface {
	// Authenticate returns the principal of a request. If its ID is not valid ([a2a.Principal]), the request
	// is rejected with 403. An [a2a.Error] determines the HTTP status and the message; its code is usually
	// unauthenticated (401). A [Refusal] determines the response further. Other errors are internal (500).
	Authenticate(r *http.Request) (a2a.Principal, error)
	// Challenge returns the header WWW-Authenticate for a request that is not authenticated.
	Challenge(r *http.Request) string
	// Security returns the members securitySchemes and security of the agent card.
	Security() (schemes map[string]a2a.SecurityScheme, requirements []map[string][]string)
}

// BodyAuthenticator is an Authenticator with a second step, for credentials that cover the body of the
// request, such as a signature.
type BodyAuthenticator interface {
	Authenticator
	// AuthenticateBody returns the principal of a request. p is the result of Authenticate, with an ID that
	// limits the memory of the body and nothing else: it is [a2a.Anonymous] if only the second step knows the
	// caller. The server calls AuthenticateBody once for each request, when the body has been received and
	// before it is decoded; body is empty for a request without one, and must be neither modified nor kept. Errors are as in
	// Authenticate.
	AuthenticateBody(r *http.Request, p a2a.Principal, body []byte) (a2a.Principal, error)
}

// Origin returns the address of the agent as the client of a request sees it: of a request that the server passes to
// [Authenticator.Challenge] or to a [Route].
func Origin(r *http.Request) rpc.Origin {
	origin, _ := r.Context().Value(originKey{}).(rpc.Origin)
	return origin
}

type originKey struct{}

// withOrigin returns the request of an exchange for functions that call Origin.
func withOrigin(x *exchange.Exchange) *http.Request {
	return x.Request.WithContext(context.WithValue(x.Request.Context(), originKey{}, x.Origin))
}

// Route is a path that the server serves to everybody, without credentials, such as the metadata of the agent's
// authentication.
type Route struct {
	// Method is an HTTP method, and Path a path without variables. GET includes HEAD.
	Method, Path string
	Handler      http.Handler
}

// Rechecker is an Authenticator that can end the access of a principal during a stream.
type Rechecker interface {
	Authenticator
	// Recheck returns the error that ends a stream, or nil if the principal may continue. An error that may pass
	// ([a2a.Code.Retryable]) ends no stream. The server calls Recheck every few seconds for each open stream.
	Recheck(ctx context.Context, p a2a.Principal) error
}

// Authorizer decides which calls an authenticated caller may make. It must be safe for concurrent use.
type Authorizer interface {
	// Authorize returns the error that rejects a call, or nil. The call's Method describes the operation; routes
	// that are no methods of the protocol, such as /health, have a Method too. If Owner is set, the caller asks to
	// act for another owner: Authorize rejects the call, or sets the call's Principal to one with this ID. The
	// code of an [a2a.Error] determines the HTTP status; it is usually permission_denied (403). A [Refusal]
	// determines the response further.
	Authorize(ctx context.Context, c *rpc.Call) error
}

// Refusal is the rejection of a caller by an [Authenticator] or an [Authorizer].
type Refusal = exchange.Refusal

// scopes is the default [Authorizer]: it requires the scope of the operation.
type scopes struct{}

// Authorize implements [Authorizer].
func (scopes) Authorize(_ context.Context, c *rpc.Call) error {
	switch {
	case c.Owner != "":
		return a2a.Refusef(a2a.CodeDenied, "owner", "%s: this agent has no operators who act for other owners", exchange.OwnerHeader)
	case !c.Principal.May(c.Method.Scope):
		e := a2a.Refusef(a2a.CodeDenied, "scope", "%s requires the scope %s", c.Operation(), c.Method.Scope)
		e.Data["operation"], e.Data["required"], e.Data["actual"] = c.Method.Name, c.Method.Scope, c.Principal.Scopes
		return e
	}
	return nil
}

// authorize is the interceptor that asks the Authorizer.
func (s *Server) authorize(_ *a2a.Method, next rpc.Handler) rpc.Handler {
	return func(ctx context.Context, c *rpc.Call) (any, error) {
		if !c.Authorized {
			if err := s.cfg.Security.Authorizer.Authorize(ctx, c); err != nil {
				return nil, refusal(err)
			}
			c.Authorized = true
		}
		return next(ctx, c)
	}
}

// refusal returns an error as a Refusal.
func refusal(err error) error {
	if errors.As(err, new(*Refusal)) {
		return err
	}
	return &Refusal{Err: err}
}

// authorizeRoute authorizes a request of a route that is no method of the protocol, or rejects it.
func (s *Server) authorizeRoute(x *exchange.Exchange, operation *a2a.Method) bool {
	c := &rpc.Call{Method: operation, Principal: x.Principal, RequestID: x.ID, Owner: x.Request.Header.Get(exchange.OwnerHeader)}
	err := s.cfg.Security.Authorizer.Authorize(x.Request.Context(), c)
	if err != nil {
		s.refuse(x, x.Refused(err), err)
		return false
	}
	x.Principal = c.Principal
	return true
}

// authenticate sets the principal of the request, or rejects the request.
func (s *Server) authenticate(x *exchange.Exchange) bool {
	err := s.identify(x)
	if err != nil {
		s.refuse(x, x.Refused(err), err)
	}
	return err == nil
}

// identify sets the principal of the request, or returns the error that rejects it. If the authentication has a second
// step and the request has a body, identify leaves this step to the transport.
func (s *Server) identify(x *exchange.Exchange) error {
	authenticator := s.cfg.Security.Authenticator
	if authenticator == nil {
		x.Principal = a2a.Principal{ID: a2a.Anonymous}
		return nil
	}
	p, err := authenticator.Authenticate(x.Request)
	if err = s.accept(x, p, err); err != nil {
		return err
	}
	second, ok := authenticator.(BodyAuthenticator)
	if !ok {
		return nil
	}
	x.Verify = func(body []byte) error {
		p, err := second.AuthenticateBody(x.Request, x.Principal, body)
		return s.accept(x, p, err)
	}
	if m := x.Request.Method; m == http.MethodPost || m == http.MethodPatch {
		return nil
	}
	return x.VerifyBody(nil)
}

// accept sets the principal that a step of the authentication has returned, or returns the error that rejects it.
func (s *Server) accept(x *exchange.Exchange, p a2a.Principal, err error) error {
	if err == nil {
		err = p.Check()
	}
	if err == nil {
		x.Principal = p
		return nil
	}
	if a2a.CodeOf(err).HTTPStatus() == http.StatusUnauthorized {
		x.Header().Set("WWW-Authenticate", s.cfg.Security.Authenticator.Challenge(withOrigin(x)))
	}
	return err
}
