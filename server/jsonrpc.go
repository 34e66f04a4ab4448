package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/rpc"
)

// serveRPC responds to a JSON-RPC request or batch. The HTTP status is 200 for JSON-RPC errors.
// Transport errors and a stopping server have other statuses.
func (x *exchange) serveRPC() {
	if err := checkContentType(x.r.Header.Get("Content-Type")); err != nil {
		x.refuse(http.StatusUnsupportedMediaType, err)
		return
	}
	if coding := x.r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		x.refuse(http.StatusUnsupportedMediaType, a2a.Errorf(a2a.CodeContentType, "Content-Encoding is %s, want none", a2a.Quote(coding)))
		return
	}
	x.activateExtensions()
	x.requestMemory = x.s.cfg.Memory.Hold(x.principal.ID)
	x.responseMemory = x.s.cfg.Memory.Hold(x.principal.ID)
	defer func() {
		x.requestMemory.Release()
		x.responseMemory.Release()
	}()
	body, err := x.readBody()
	switch {
	case err == nil && rpc.IsBatch(body.b):
		x.serveBatch(body)
	case err == nil:
		x.serveSingle(body)
	case a2a.CodeOf(err) == a2a.CodeTooLarge:
		x.w.Header().Set("Connection", "close")
		x.refuse(http.StatusRequestEntityTooLarge, err)
		x.discard()
	case a2a.CodeOf(err) == a2a.CodeExhausted:
		x.w.Header().Set("Connection", "close")
		x.refuse(http.StatusTooManyRequests, err)
	default:
		x.w.Header().Set("Connection", "close")
		x.refuse(http.StatusBadRequest, err)
	}
}

func (x *exchange) serveSingle(body *buffer) {
	c := x.newCall()
	err := x.prepare(c, body.b)
	c.ID = bytes.Clone(c.ID)
	body.free()
	switch {
	case err != nil:
		x.respondRPC(c, nil, err)
	case c.Method.Streaming:
		x.serveStream(c)
	case c.Method.Idempotent:
		x.serveRead(c)
	default:
		x.clearDeadlines()
		result, err := x.run(x.r.Context(), c)
		if err == nil {
			if err := x.reserveEncoding(result); err != nil {
				x.refuseExhausted(c, err)
				return
			}
		}
		x.respondRPC(c, result, err)
	}
}

// serveRead responds to a call that only reads.
func (x *exchange) serveRead(c *rpc.Call) {
	var failed error
	out, err := x.readReserved(func() *buffer {
		var result any
		out := newBuffer()
		if result, failed = x.run(x.r.Context(), c); failed == nil {
			out.b = x.appendSizedResponse(out.b, c, result)
		}
		return out
	})
	if err != nil {
		x.refuseExhausted(c, err)
		return
	}
	defer out.free()
	if failed != nil {
		x.respondRPC(c, nil, failed)
		return
	}
	x.setWriteDeadline()
	x.respond(http.StatusOK, out.b)
}

// refuseExhausted rejects a call because there is no free memory for its response.
func (x *exchange) refuseExhausted(c *rpc.Call, err error) {
	x.w.Header().Set("Retry-After", "1")
	x.refuseRPC(http.StatusTooManyRequests, c, err)
}

func (x *exchange) newCall() *rpc.Call {
	c := x.s.table.Call()
	c.Principal, c.OnStored, c.ReserveMemory = x.principal, x.requestMemory.Release, x.reserveContent
	return &c
}

// prepare parses a request, looks up its method and decodes its params. Of the request's text
// only the id is needed afterwards.
func (x *exchange) prepare(c *rpc.Call, text []byte) error {
	req, err := rpc.Parse(text)
	c.ID = req.ID
	if err != nil {
		return err
	}
	if err = x.s.table.Lookup(c, &req); err != nil {
		return err
	}
	x.method = c.Method.Name
	h := x.r.Header
	c.LastEventID = h.Get("Last-Event-Id")
	if c.IdempotencyKey = h.Get("Idempotency-Key"); c.IdempotencyKey != "" && !c.Method.Idempotent {
		c.RequestHash = requestHash(&req)
	}
	return c.Prepare(req.Params)
}

// requestHash identifies the content of a request with an idempotency key: its method and
// params without insignificant white space.
func requestHash(req *rpc.Request) [32]byte {
	text := bytes.NewBuffer(make([]byte, 0, len(req.Method)+1+len(req.Params)))
	text.WriteString(req.Method)
	text.WriteByte('\n')
	_ = json.Compact(text, req.Params) // the params are valid JSON
	return sha256.Sum256(text.Bytes())
}

// errPanicked is the error of a call that panicked.
var errPanicked = a2a.Errorf(a2a.CodeInternal, "internal error")

// run executes a unary call and recovers from a panic.
func (x *exchange) run(ctx context.Context, c *rpc.Call) (result any, err error) {
	defer func() {
		if c.TaskID != "" {
			x.task = c.TaskID
		}
		if p := recover(); p != nil {
			x.logPanic(p)
			err = errPanicked
		}
	}()
	return c.Run(ctx)
}

// respondRPC responds to a single request.
func (x *exchange) respondRPC(c *rpc.Call, result any, err error) {
	if errors.Is(err, engine.ErrShutdown) {
		x.refuseStopping(c, err)
		return
	}
	out := newBuffer()
	defer out.free()
	if err != nil && x.acceptsOnlyEvents() {
		x.respondEvent(out, c, err)
		return
	}
	if err == nil {
		out.b = x.appendSizedResponse(out.b, c, result)
	} else {
		out.b = x.appendError(out.b, c, err)
	}
	status := http.StatusOK
	if errors.Is(err, errPanicked) {
		status = http.StatusInternalServerError
	}
	x.setWriteDeadline()
	x.respond(status, out.b)
}

// refuseStopping rejects work that a stopping server does not accept. The headers make load
// balancers and clients retry on another connection.
func (x *exchange) refuseStopping(c *rpc.Call, err error) {
	x.w.Header().Set("Retry-After", "1")
	x.w.Header().Set("Connection", "close")
	x.refuseRPC(http.StatusServiceUnavailable, c, err)
}

// acceptsOnlyEvents reports whether the client accepts only event streams. The official clients
// do when they request a stream, and they ignore an error in a JSON response.
func (x *exchange) acceptsOnlyEvents() bool {
	events := false
	for _, header := range x.r.Header["Accept"] {
		for kind := range strings.SplitSeq(header, ",") {
			kind, _, _ = strings.Cut(kind, ";")
			switch strings.ToLower(strings.TrimSpace(kind)) {
			case "text/event-stream":
				events = true
			case "application/json", "application/*", "*/*":
				return false
			}
		}
	}
	return events
}

// respondEvent responds with a stream whose only event is an error.
func (x *exchange) respondEvent(out *buffer, c *rpc.Call, err error) {
	out.b = append(x.appendError(append(out.b, "data: "...), c, err), "\n\n"...)
	x.setWriteDeadline()
	h := x.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	x.WriteHeader(http.StatusOK)
	_, _ = x.Write(out.b) // fails only if the client has disconnected
}

func (x *exchange) appendError(dst []byte, c *rpc.Call, err error) []byte {
	if err == errPanicked { //nolint:errorlint // run returned this value and has logged the panic
		return c.AppendError(dst, errPanicked, x.id)
	}
	return c.AppendError(dst, x.publicError(err), x.id)
}

// encodingError returns the error for a result that cannot be encoded, which is internal
// whatever the type of err.
func encodingError(err error) error { return a2a.Wrap(a2a.CodeInternal, err, "internal error") }

// checkContentType rejects content types other than JSON. An absent header is accepted.
func checkContentType(header string) error {
	if header == "" || header == "application/json" {
		return nil
	}
	kind, _, err := mime.ParseMediaType(header)
	if err == nil && (kind == "application/json" || strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json")) {
		return nil
	}
	return a2a.Errorf(a2a.CodeContentType, "Content-Type is %s, want application/json", a2a.Quote(header))
}

// activateExtensions returns the requested extensions that the card declares in the header
// X-A2A-Extensions (A2A 0.3). They are always active.
func (x *exchange) activateExtensions() {
	var active []string
	for _, header := range x.r.Header["X-A2a-Extensions"] {
		for uri := range strings.SplitSeq(header, ",") {
			uri = strings.TrimSpace(uri)
			declared := func(e a2a.AgentExtension) bool { return e.URI == uri }
			if slices.ContainsFunc(x.s.card.model.Capabilities.Extensions, declared) && !slices.Contains(active, uri) {
				active = append(active, uri)
			}
		}
	}
	if len(active) > 0 {
		x.w.Header().Set("X-A2A-Extensions", strings.Join(active, ", "))
	}
}
