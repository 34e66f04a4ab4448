package jsonrpc

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/rpc"
	"github.com/holdfast-dev/holdfast/server/internal/exchange"
)

// Handler serves JSON-RPC requests. All fields are required. It is safe for concurrent use.
type Handler struct {
	Table   *rpc.Table
	Bodies  *exchange.Bodies
	Replies *exchange.Replies
	// JSONErrors makes errors JSON responses also for clients that accept only events.
	JSONErrors bool
	// MaxBatch is the maximum number of requests in a batch, MaxBatchBytes the maximum total
	// size of their results, and BatchTimeout the maximum duration of a batch.
	MaxBatch      int
	MaxBatchBytes int64
	BatchTimeout  time.Duration

	refusedItems atomic.Int64
}

// Serve responds to a request or a batch.
func (h *Handler) Serve(x *exchange.Exchange) {
	body, err := h.Bodies.Read(x)
	if err != nil {
		h.Refuse(x, a2a.CodeOf(err).HTTPStatus(), err)
		x.Discard(err)
		return
	}
	defer x.Body.Release()
	if err := x.VerifyBody(body.B); err != nil {
		req, _ := rpc.Parse(body.B) // an error concerns other members than those needed
		h.refuse(x, x.Refused(err), err, req)
		body.Free()
		return
	}
	if rpc.IsBatch(body.B) {
		h.serveBatch(x, body)
		return
	}
	c := h.newCall(x)
	c.OnStored = x.Body.Release
	err = c.prepare(body.B)
	c.ID = bytes.Clone(c.ID)
	body.Free()
	switch {
	case err != nil:
		c.Fail(err)
	case c.notification():
		c.notify(x.Request.Context())
		x.WriteHeader(http.StatusNoContent)
	default:
		h.Replies.Serve(x, &c.Call, c)
	}
}

// Refuse responds with an HTTP status and an error, without a call. The response to a request
// without authorization has its id, and the form of its method's version.
func (h *Handler) Refuse(x *exchange.Exchange, status int, err error) {
	var req rpc.Request
	if (status == http.StatusUnauthorized || status == http.StatusForbidden) && x.Request.Method == http.MethodPost {
		req = readHead(x)
	}
	h.refuse(x, status, err, req)
}

func (h *Handler) refuse(x *exchange.Exchange, status int, err error, req rpc.Request) {
	c := h.Table.Call(x.Version())
	if c.ID = req.ID; req.Method != "" {
		_ = h.Table.Select(&c, req.Method) // an unknown method has the codec of the version
	}
	x.Respond(status, c.AppendError(nil, x.PublicError(err), x.ID))
}

// unauthenticated limits the body that is read for the head of a request, and headTimeout the
// time to receive it.
var unauthenticated = exchange.Bodies{Max: 64 << 10}

const headTimeout = time.Second

// readHead returns the id and the method of a request that is not authorized. Both are empty if
// the body is larger than the limit, arrives too slowly, is a batch or is not valid.
func readHead(x *exchange.Exchange) (req rpc.Request) {
	if x.Request.Header.Get("Expect") != "" {
		return req // the client sends the body only if the response requests it
	}
	_ = http.NewResponseController(x.ResponseWriter).SetReadDeadline(time.Now().Add(headTimeout)) // fails if there is no connection
	body, err := unauthenticated.Read(x)
	if err != nil {
		return req
	}
	defer body.Free()
	defer x.Body.Release()
	req, _ = rpc.Parse(body.B) // an error concerns other members than those returned
	return rpc.Request{ID: bytes.Clone(req.ID), Method: req.Method}
}

// call is a call with JSON-RPC responses, see [exchange.Format].
type call struct {
	rpc.Call
	h *Handler
	x *exchange.Exchange
}

func (h *Handler) newCall(x *exchange.Exchange) *call {
	c := &call{Call: h.Table.Call(x.Version()), h: h, x: x}
	x.Call = &c.Call
	return c
}

// prepare parses a request, looks up its method and decodes its params. Afterwards only the id in
// the request's text is needed.
func (c *call) prepare(text []byte) error {
	req, err := rpc.Parse(text)
	c.ID = req.ID
	if err != nil {
		return err
	}
	if err = c.h.Table.Lookup(&c.Call, &req); err != nil {
		return err
	}
	if err = c.x.Prepare(&c.Call, req.Method, req.Params); err == nil && c.notification() && c.Method.Streaming {
		err = a2a.Errorf(a2a.CodeInvalidRequest, "%s returns a stream: id is required", req.Method)
	}
	return err
}

// notification reports whether the request has no id. A notification that is executed gets no response, even if it
// fails (JSON-RPC 2.0 section 4.1). A notification that cannot be executed gets an error, as the official kit of A2A
// 0.3 requires.
func (c *call) notification() bool { return len(c.ID) == 0 }

// notify executes a notification. A read has no effect.
func (c *call) notify(ctx context.Context) {
	if c.Method.Idempotent {
		return
	}
	c.x.ClearDeadlines()
	reply := c.h.Replies.New(c.x, &c.Call, c)
	defer reply.Release()
	if response, err := reply.Run(ctx); err == nil {
		response.Free()
	}
}

// Fail responds with an error: as JSON, or as the only event of a stream if the client expects
// events.
func (c *call) Fail(err error) {
	out := exchange.NewBuffer()
	defer out.Free()
	h, events := c.x.Header(), c.wantsEvents() && !c.h.JSONErrors
	if events {
		out.B = append(out.B, "data: "...)
	}
	out.B = c.appendError(out.B, err)
	c.x.SetWriteDeadline()
	switch {
	case events:
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-store")
		c.x.WriteHeader(http.StatusOK)
		_, _ = c.x.Write(append(out.B, "\n\n"...)) // fails only if the client has disconnected
	case errors.Is(err, exchange.ErrPanicked):
		c.x.Respond(http.StatusInternalServerError, out.B)
	default:
		c.x.Respond(http.StatusOK, out.B)
	}
}

func (c *call) appendError(dst []byte, err error) []byte {
	return c.AppendError(dst, c.x.PublicError(err), c.x.ID)
}

// wantsEvents reports whether the client reads an error only as an event. For a streaming method,
// this is a client with an Accept header that names event streams, and not JSON before them;
// wildcards do not count, because clients add them by default. For other methods, it is a client
// that accepts nothing else.
func (c *call) wantsEvents() bool {
	var events, object, objectFirst, wildcard bool
	for _, header := range c.x.Request.Header["Accept"] {
		for kind := range strings.SplitSeq(header, ",") {
			kind, _, _ = strings.Cut(kind, ";")
			switch strings.ToLower(strings.TrimSpace(kind)) {
			case "text/event-stream":
				events = true
			case "application/json":
				object, objectFirst = true, objectFirst || !events
			case "application/*", "*/*":
				wildcard = true
			}
		}
	}
	if c.Method != nil && c.Method.Streaming {
		return events && !objectFirst
	}
	return events && !object && !wildcard
}
