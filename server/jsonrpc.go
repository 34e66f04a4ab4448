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

// rpc answers a JSON-RPC request or batch. Errors of the protocol have HTTP
// status 200; those of the transport have their own, and so has a server that stops.
func (x *exchange) rpc() {
	if err := checkContentType(x.r.Header.Get("Content-Type")); err != nil {
		x.refuse(http.StatusUnsupportedMediaType, err)
		return
	}
	if coding := x.r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		x.refuse(http.StatusUnsupportedMediaType, a2a.Errorf(a2a.CodeContentType, "Content-Encoding is %s, want none", a2a.Quote(coding)))
		return
	}
	x.activateExtensions()
	x.held = x.s.cfg.Memory.Hold(x.principal.ID)
	x.reply = x.s.cfg.Memory.Hold(x.principal.ID)
	defer func() {
		x.held.Release()
		x.reply.Release()
	}()
	body, err := x.readBody()
	switch {
	case err == nil && rpc.IsBatch(body.b):
		x.batch(body)
	case err == nil:
		x.single(body)
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

func (x *exchange) single(body *buffer) {
	req, err := rpc.Parse(body.b)
	var c rpc.Call
	var p rpc.Prepared
	if err == nil {
		p, err = x.prepare(&c, &req)
	}
	id := bytes.Clone(req.ID)
	body.free()
	switch {
	case err != nil:
		x.answerRPC(id, nil, err)
	case p.Stream != nil:
		x.stream(id, &c, p)
	case c.Method.Idempotent:
		x.get(id, &c, p)
	default:
		x.unhurried()
		result, err := x.run(x.r.Context(), &c, p)
		if err == nil {
			if err := x.hold(result); err != nil {
				x.exhausted(id, err)
				return
			}
		}
		x.answerRPC(id, result, err)
	}
}

// get answers a call that reads only.
func (x *exchange) get(id rpc.ID, c *rpc.Call, p rpc.Prepared) {
	var failed error
	out, err := x.read(func() *buffer {
		var result any
		out := newBuffer()
		if result, failed = x.run(x.r.Context(), c, p); failed == nil {
			out.b = x.appendSized(out.b, id, result)
		}
		return out
	})
	if err != nil {
		x.exhausted(id, err)
		return
	}
	defer out.free()
	if failed != nil {
		x.answerRPC(id, nil, failed)
		return
	}
	x.hurried()
	x.answer(http.StatusOK, out.b)
}

// exhausted refuses a call for whose response there is no memory.
func (x *exchange) exhausted(id rpc.ID, err error) {
	x.w.Header().Set("Retry-After", "1")
	x.refuseRPC(http.StatusTooManyRequests, id, err)
}

// prepare reads what a call says, so that the request's text is not needed any
// more.
func (x *exchange) prepare(c *rpc.Call, req *rpc.Request) (rpc.Prepared, error) {
	var err error
	if c.Method, err = x.s.table.Lookup(req); err != nil {
		return rpc.Prepared{}, err
	}
	x.method = c.Method.Name
	c.Principal = x.principal
	c.Stored = x.held.Release
	c.Hold = x.holdContent
	h := x.r.Header
	c.LastEventID = h.Get("Last-Event-Id")
	if c.IdempotencyKey = h.Get("Idempotency-Key"); c.IdempotencyKey != "" && !c.Method.Idempotent {
		c.RequestHash = requestHash(req)
	}
	return x.s.table.Prepare(c, req.Params)
}

// requestHash tells requests apart that bear the same idempotency key: by method
// and params, white space aside.
func requestHash(req *rpc.Request) [32]byte {
	text := bytes.NewBuffer(make([]byte, 0, len(req.Method)+1+len(req.Params)))
	text.WriteString(req.Method)
	text.WriteByte('\n')
	_ = json.Compact(text, req.Params) // has been found well formed
	return sha256.Sum256(text.Bytes())
}

// errPanicked is what a call fails with that panicked.
var errPanicked = a2a.Errorf(a2a.CodeInternal, "internal error")

// run runs a call that is not a stream and contains its panic.
func (x *exchange) run(ctx context.Context, c *rpc.Call, p rpc.Prepared) (result any, err error) {
	defer func() {
		if c.TaskID != "" {
			x.task = c.TaskID
		}
		if p := recover(); p != nil {
			x.logPanic(p)
			err = errPanicked
		}
	}()
	return p.Run(ctx)
}

// answerRPC answers a single request.
func (x *exchange) answerRPC(id rpc.ID, result any, err error) {
	if errors.Is(err, engine.ErrShutdown) {
		x.turnAway(id, err)
		return
	}
	out := newBuffer()
	defer out.free()
	if err != nil && x.wantsOnlyEvents() {
		x.answerEvent(out, id, err)
		return
	}
	if err == nil {
		out.b = x.appendSized(out.b, id, result)
	} else {
		out.b = x.appendAnswer(out.b, id, nil, err)
	}
	status := http.StatusOK
	if errors.Is(err, errPanicked) {
		status = http.StatusInternalServerError
	}
	x.hurried()
	x.answer(status, out.b)
}

// turnAway refuses what a server that stops does not take, so that balancers
// understand: the next request comes by another connection, to another server.
func (x *exchange) turnAway(id rpc.ID, err error) {
	x.w.Header().Set("Retry-After", "1")
	x.w.Header().Set("Connection", "close")
	x.refuseRPC(http.StatusServiceUnavailable, id, err)
}

// wantsOnlyEvents reports whether the client takes a stream and nothing else. The
// official clients ask for streams like this and do not see an error that is
// answered as JSON.
func (x *exchange) wantsOnlyEvents() bool {
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

// answerEvent answers with a stream that has an error as its only event.
func (x *exchange) answerEvent(out *buffer, id rpc.ID, err error) {
	out.b = append(x.appendAnswer(append(out.b, "data: "...), id, nil, err), "\n\n"...)
	x.hurried()
	h := x.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	x.WriteHeader(http.StatusOK)
	_, _ = x.Write(out.b) // fails only if the client has gone
}

func (x *exchange) appendAnswer(dst []byte, id rpc.ID, result any, err error) []byte {
	if err == nil {
		var out []byte
		if out, err = x.s.cfg.Dialect.AppendResult(dst, id, result); err == nil {
			return out
		}
		err = a2a.Wrap(a2a.CodeInternal, err, "internal error") // ours, whatever its text says
	}
	if err == errPanicked { //nolint:errorlint // this very value; it has been logged
		return x.s.cfg.Dialect.AppendError(dst, id, errPanicked, x.id)
	}
	return x.s.cfg.Dialect.AppendError(dst, id, x.told(err), x.id)
}

// checkContentType refuses what is said not to be JSON. Saying nothing is fine.
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

// activateExtensions echoes the extensions that the client named and the card
// declares (A2A 0.3, header X-A2A-Extensions). They need no activation.
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
