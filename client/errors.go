package client

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"github.com/holdfast-dev/holdfast/a2a"
)

// statusError returns the error for a response that is not JSON-RPC.
func statusError(resp *http.Response) *a2a.Error {
	code, hint := a2a.CodeInvalidAgentResponse, "is that the URL of an A2A agent?"
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		code, hint = a2a.CodeUnauthenticated, "a token is missing or not valid"
	case http.StatusForbidden:
		code, hint = a2a.CodeDenied, "the token does not allow this"
	case http.StatusRequestEntityTooLarge:
		code, hint = a2a.CodeTooLarge, "the message is larger than the agent accepts"
	case http.StatusTooManyRequests:
		code, hint = a2a.CodeExhausted, "try again later"
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		code, hint = a2a.CodeUnavailable, "the agent is not available; try again later"
	case http.StatusInternalServerError:
		code, hint = a2a.CodeInternal, "internal error of the agent"
	}
	e := a2a.Errorf(code, "%s answers %s: %s", resp.Request.URL.Host, resp.Status, hint)
	if location, err := resp.Location(); err == nil && resp.StatusCode/100 == 3 {
		e.Message = resp.Request.URL.Host + " answers " + resp.Status + ": the agent has moved to " + location.Redacted()
	}
	e.Data = map[string]any{"httpStatus": float64(resp.StatusCode)}
	return e
}

// networkError returns the error for a request without a response.
func networkError(req *http.Request, err error) error {
	if ctxErr := contextError(req.Context(), err); ctxErr != nil {
		return ctxErr
	}
	var outer *url.Error
	if errors.As(err, &outer) {
		err = outer.Err // the outer error repeats method and URL
	}
	var dns *net.DNSError
	text := "cannot reach %s"
	switch {
	case req.URL.Scheme == "https" && strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return a2a.Errorf(a2a.CodeInvalidAgentResponse, "%s does not support HTTPS: use http:// in its URL", req.URL.Host)
	case errors.Is(err, syscall.ECONNREFUSED):
		text = "nothing listens at %s"
	case errors.As(err, &dns):
		text = "cannot find the host of %s"
	}
	return a2a.Wrap(a2a.CodeUnavailable, err, text, req.URL.Host)
}

// connectionLost returns the error for an incomplete response.
func connectionLost(ctx context.Context, err error) error {
	if ctxErr := contextError(ctx, err); ctxErr != nil {
		return ctxErr
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return a2a.Wrap(a2a.CodeUnavailable, err, "the connection was lost before the end of the response")
}

// contextError returns the error for a call that its context ended, or nil if
// the context is not done.
func contextError(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return nil
	}
	return a2a.Wrap(a2a.CodeUnavailable, errors.Join(context.Cause(ctx), err), "the call was canceled")
}

func tooLarge(what string, limit int) *a2a.Error {
	return a2a.Errorf(a2a.CodeTooLarge, "a %s of the agent is larger than %d bytes", what, limit)
}
