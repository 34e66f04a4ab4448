package rest

import (
	"mime"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/rpc"
	"github.com/holdfast-dev/holdfast/server/internal/exchange"
)

// Transport is the name of the binding on agent cards.
const Transport = "HTTP+JSON"

// Codec is the codec of a protocol version over HTTP+JSON. It names methods as a codec of the
// table does.
type Codec interface {
	rpc.Codec
	// Path returns the path of a method, or "" if it has none. Its variables are params.
	Path(m *a2a.Method) string
	// Members returns the kinds of the members of a params type by the names in which the codec
	// accepts them, in camelCase.
	Members(params reflect.Type) map[string]reflect.Kind
	// HTTPStatus returns the HTTP status of an error.
	HTTPStatus(c a2a.Code) int
	// AppendHTTPError appends the body of an error response to dst.
	AppendHTTPError(dst []byte, status int, e *a2a.Error, requestID string) []byte
}

// Handler serves requests of the HTTP+JSON binding of one protocol version. All fields except
// Base, Tenants and Challenge are required. It is safe for concurrent use after the call of Routes.
type Handler struct {
	Table *rpc.Table
	Codec Codec
	// Base is a second path under which all routes are served, such as "/rest". It is "" if there is
	// none.
	Base string
	// Tenants means that every path may follow the name of a tenant. The name has no effect, as in
	// params.
	Tenants bool
	Bodies  *exchange.Bodies
	Replies *exchange.Replies
	// Challenge returns the header WWW-Authenticate of a request. It is nil without authentication.
	Challenge func(x *exchange.Exchange) string

	roots []string // the first segments of the routes
}

// authorize returns an error for an anonymous request of the extended agent card. For other
// methods, an authenticator may accept requests without credentials.
func (h *Handler) authorize(x *exchange.Exchange, m *a2a.Method) error {
	if m.Name != a2a.MethodExtendedCard || x.Principal.ID != a2a.Anonymous || h.Challenge == nil {
		return nil
	}
	x.Header().Set("WWW-Authenticate", h.Challenge(x))
	return a2a.Errorf(a2a.CodeUnauthenticated, "the extended agent card requires credentials")
}

// serve responds to a request for a method.
func (h *Handler) serve(x *exchange.Exchange, e *endpoint) {
	c := &call{Call: h.Table.Call(x.Version()), codec: h.Codec, x: x}
	x.Call = &c.Call
	r := x.Request
	setContentType(x)
	err := h.Table.Select(&c.Call, e.name)
	c.Codec = h.Codec
	if err == nil {
		err = h.authorize(x, c.Method)
	}
	if err != nil {
		c.Fail(err)
		return
	}
	if c.Method.Streaming && r.Method == http.MethodHead {
		x.Header().Set("Allow", "GET, POST")
		h.Refuse(x, http.StatusMethodNotAllowed, a2a.Errorf(a2a.CodeInvalidRequest, "%s is a stream and does not allow HEAD", a2a.Quote(r.URL.Path)))
		return
	}
	body := exchange.NewBuffer()
	if r.Method == http.MethodPost || r.Method == http.MethodPatch {
		body.Free()
		if body, err = h.Bodies.Read(x); err != nil {
			h.Refuse(x, a2a.CodeOf(err).HTTPStatus(), err)
			x.Discard(err)
			return
		}
		defer x.Body.Release()
		c.OnStored = x.Body.Release
	}
	if err := x.VerifyBody(body.B); err != nil {
		body.Free()
		h.Refuse(x, x.Refused(err), err)
		return
	}
	params, err := e.params(x, body.B)
	if err == nil {
		err = x.Prepare(&c.Call, e.name, params)
	}
	body.Free()
	if err != nil {
		c.Fail(err)
		return
	}
	h.Replies.Serve(x, &c.Call, c)
}

// Refuse responds with an HTTP status and an error, without a call.
func (h *Handler) Refuse(x *exchange.Exchange, status int, err error) {
	setContentType(x)
	x.Respond(status, h.Codec.AppendHTTPError(nil, status, x.PublicError(err), x.ID))
}

// call is a call with responses that have no envelope, see [exchange.Format].
type call struct {
	rpc.Call       // its codec may have the members of extensions
	codec    Codec // of errors
	x        *exchange.Exchange
}

// AppendResult appends a result to dst.
func (c *call) AppendResult(dst []byte, result any) ([]byte, error) {
	return c.Codec.AppendResult(dst, c.Method, result)
}

// AppendEvent appends an item of a stream to dst.
func (c *call) AppendEvent(dst []byte, e a2a.Event) ([]byte, error) {
	return c.Codec.AppendEvent(dst, e)
}

// AppendError appends an error to dst.
func (c *call) AppendError(dst []byte, e *a2a.Error, requestID string) []byte {
	return c.codec.AppendHTTPError(dst, c.codec.HTTPStatus(e.Code), e, requestID)
}

// ErrorEvent returns the type of an event with an error. Official clients do not find the error in
// other events.
func (c *call) ErrorEvent() string { return "error" }

// Fail responds with an error.
func (c *call) Fail(err error) {
	public := c.x.PublicError(err)
	if public.Code.Retryable() {
		c.x.Header().Set("Retry-After", "1")
	}
	c.x.SetWriteDeadline()
	c.x.Respond(c.codec.HTTPStatus(public.Code), c.AppendError(nil, public, c.x.ID))
}

// setContentType selects the media type of a response.
func setContentType(x *exchange.Exchange) {
	if prefersA2A(x.Request.Header["Accept"]) {
		x.Header()["Content-Type"] = a2aType
	}
}

var a2aType = []string{"application/a2a+json"}

// prefersA2A reports whether a client prefers application/a2a+json to application/json.
func prefersA2A(accept []string) bool {
	own, plain := 0.0, 0.0
	for _, header := range accept {
		for item := range strings.SplitSeq(header, ",") {
			kind, params, err := mime.ParseMediaType(item)
			if err != nil {
				continue
			}
			q, err := strconv.ParseFloat(params["q"], 64)
			if err != nil {
				q = 1
			}
			switch kind {
			case "application/a2a+json":
				own = q
			case "application/json":
				if plain = q; own == 0 {
					plain += 0.0001 // listed first
				}
			}
		}
	}
	return own > 0 && own >= plain
}
