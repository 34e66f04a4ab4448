package exchange

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	v10 "github.com/holdfast-dev/holdfast/a2a/v10"
	"github.com/holdfast-dev/holdfast/internal/memory"
	"github.com/holdfast-dev/holdfast/rpc"
)

// Exchange is one request and its response. It wraps the [http.ResponseWriter] to record the
// status for the access log.
type Exchange struct {
	http.ResponseWriter
	Request *http.Request
	// Origin is the address of the agent as the client sees it.
	Origin rpc.Origin
	// ID is the request ID.
	ID        string
	Principal a2a.Principal
	// Verify, if not nil, is the second step of the authentication, which needs the body of the request.
	// The transport must call VerifyBody before it decodes the body.
	Verify func(body []byte) error
	Log    *slog.Logger
	// WriteTimeout is the maximum time to send a response.
	WriteTimeout time.Duration
	// Body is the memory of the request's content.
	Body memory.Hold
	// Status is the HTTP status, 0 until the response has started.
	Status int
	// PathValue returns a variable of the request's path, "" if it has no such variable. It is
	// nil for routes without variables.
	PathValue func(name string) string
	// Extensions are the active extensions of the protocol.
	Extensions []string
	// Extended makes results have the members of extensions, if the codec omits them by default.
	Extended bool
	// Call is the latest call of the request, for logs. It may be nil.
	Call *rpc.Call
}

// WriteHeader implements [http.ResponseWriter].
func (x *Exchange) WriteHeader(status int) {
	if x.Status == 0 && status >= 200 {
		x.Status = status
	}
	x.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (x *Exchange) Write(p []byte) (int, error) {
	if x.Status == 0 {
		x.Status = http.StatusOK
	}
	return x.ResponseWriter.Write(p)
}

// Unwrap returns the underlying writer for [http.ResponseController].
func (x *Exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// Called returns the method and the task of the latest call, for logs. Both may be "".
func (x *Exchange) Called() (method, task string) {
	if x.Call == nil || x.Call.Method == nil {
		return "", ""
	}
	return x.Call.Method.Name, x.Call.TaskID
}

// JSONType is the value of the header Content-Type of JSON responses.
var JSONType = []string{"application/json"}

// Respond writes a complete JSON response. A Content-Type that is set remains.
func (x *Exchange) Respond(status int, body []byte) {
	h := x.Header()
	if len(h["Content-Type"]) == 0 {
		h["Content-Type"] = JSONType
	}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	x.WriteHeader(status)
	_, _ = x.Write(body) // fails only if the client has disconnected
}

// RespondCacheable writes a complete JSON response that the given caches, "public" or "private",
// may keep for five minutes. It responds 304 to a conditional request if the response has not
// changed. modified may be zero.
func (x *Exchange) RespondCacheable(caches string, modified time.Time, body []byte) {
	h := x.Header()
	if len(h["Content-Type"]) == 0 {
		h["Content-Type"] = JSONType
	}
	sum := sha256.Sum256(append([]byte(h["Content-Type"][0]), body...))
	if caches == "private" { // the request selects the type of a response over HTTP+JSON
		h.Add("Vary", "Accept")
	}
	h.Set("Cache-Control", caches+", max-age=300")
	h.Set("ETag", `"`+hex.EncodeToString(sum[:12])+`"`)
	http.ServeContent(x, x.Request, "", modified, bytes.NewReader(body))
}

// ClearDeadlines removes the deadlines of the connection, for requests that may wait.
func (x *Exchange) ClearDeadlines() {
	c := http.NewResponseController(x.ResponseWriter)
	_ = c.SetReadDeadline(time.Time{}) // fails if there is no connection, as in tests
	_ = c.SetWriteDeadline(time.Time{})
}

// SetWriteDeadline sets the deadline for the following write to WriteTimeout.
func (x *Exchange) SetWriteDeadline() {
	_ = http.NewResponseController(x.ResponseWriter).SetWriteDeadline(time.Now().Add(x.WriteTimeout))
}

// PublicError returns the error to send to the caller, and logs internal details.
func (x *Exchange) PublicError(err error) *a2a.Error {
	if err == ErrPanicked { //nolint:errorlint // run returned this value and has logged the panic
		return ErrPanicked
	}
	public, internal := rpc.ErrorOf(err)
	if internal {
		log := x.Log.Error
		if public.Code.Retryable() {
			log = x.Log.Warn
		}
		method, task := x.Called()
		log("request failed", "request", x.ID, "method", method, "task", task, "error", err)
	}
	return public
}

// LogPanic logs the value of a panic.
func (x *Exchange) LogPanic(p any) {
	method, _ := x.Called()
	x.Log.Error("request panicked", "request", x.ID, "method", method, "panic", p, "stack", string(debug.Stack()))
}

// Version returns the protocol version that the client announces in the header A2A-Version or
// the query parameter of the same name; "" if it announces none.
func (x *Exchange) Version() string {
	version := strings.Join(slices.Compact(slices.Clone(x.Request.Header["A2a-Version"])), ", ") // several different headers are not a valid version
	if version == "" && strings.Contains(x.Request.URL.RawQuery, "A2A-Version") {
		version = x.Request.URL.Query().Get("A2A-Version")
	}
	return strings.TrimSpace(version)
}

// VerifyBody completes the authentication of the request, and so sets its Principal. body is nil if the request
// has none.
func (x *Exchange) VerifyBody(body []byte) error {
	verify := x.Verify
	if verify == nil {
		return nil
	}
	x.Verify = nil
	return verify(body)
}

// Prepare sets the properties of a call that the headers of the request determine, and decodes its
// params. name is the method's name in the codec of the call. params must be empty, valid JSON, or
// in the form of an [rpc.BinaryCodec]. The caller may reuse params afterwards.
func (x *Exchange) Prepare(c *rpc.Call, name string, params []byte) error {
	if x.Verify != nil {
		return a2a.Errorf(a2a.CodeInternal, "internal error") // the transport has not called VerifyBody
	}
	h := x.Request.Header
	c.Principal, c.Owner, c.Extensions = x.Principal, h.Get(OwnerHeader), x.Extensions
	if x.Extended {
		if codec, ok := c.Codec.(v10.Codec); ok {
			codec.Extensions = true
			c.Codec = codec
		}
	}
	c.Origin, c.RequestID = x.Origin, x.ID
	c.LastEventID = h.Get("Last-Event-Id")
	c.FileLinks = strings.EqualFold(h.Get(FilesHeader), "links")
	if c.IdempotencyKey = h.Get("Idempotency-Key"); c.IdempotencyKey != "" && !c.Method.Idempotent {
		c.RequestHash = requestHash(c.Codec, name, params)
	}
	return c.Prepare(params)
}

// requestHash identifies the content of a request with an idempotency key: its method and params,
// without differences that have no meaning, such as white space.
func requestHash(codec rpc.Codec, name string, params []byte) [32]byte {
	text := bytes.NewBuffer(make([]byte, 0, len(name)+1+len(params)))
	text.WriteString(name)
	text.WriteByte('\n')
	if binary, ok := codec.(rpc.BinaryCodec); ok {
		text.Write(binary.Canonical(name, params))
	} else {
		_ = json.Compact(text, params) // the params are valid JSON
	}
	return sha256.Sum256(text.Bytes())
}

// ErrPanicked is the error of a call that panicked.
var ErrPanicked = a2a.Errorf(a2a.CodeInternal, "internal error")

// run executes a call and recovers from a panic.
func (x *Exchange) run(ctx context.Context, c *rpc.Call) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			x.LogPanic(p)
			err = ErrPanicked
		}
	}()
	return c.Run(ctx)
}
