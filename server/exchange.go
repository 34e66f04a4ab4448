package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/memory"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/rpc"
)

// exchange is one request and its response. It wraps the http.ResponseWriter to record the
// status for the access log.
type exchange struct {
	s         *Server
	w         http.ResponseWriter
	r         *http.Request
	start     time.Time
	id        string
	principal a2a.Principal

	status         int         // 0 until the response has started
	requestMemory  memory.Hold // memory of the request's content
	responseMemory memory.Hold // memory of the response
	method         string
	task           string
}

func (x *exchange) Header() http.Header { return x.w.Header() }

func (x *exchange) WriteHeader(status int) {
	if x.status == 0 && status >= 200 {
		x.status = status
	}
	x.w.WriteHeader(status)
}

func (x *exchange) Write(p []byte) (int, error) {
	if x.status == 0 {
		x.status = http.StatusOK
	}
	return x.w.Write(p)
}

// Unwrap returns the underlying writer for http.ResponseController.
func (x *exchange) Unwrap() http.ResponseWriter { return x.w }

// finish recovers from a panic and writes the access log. It must be called by defer directly.
func (x *exchange) finish(ctx context.Context) {
	if p := recover(); p != nil {
		if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(p)
		}
		x.logPanic(p)
		if x.status != 0 {
			// The response has started. Aborting it shows the client that it is incomplete.
			panic(http.ErrAbortHandler)
		}
		x.refuse(http.StatusInternalServerError, a2a.Errorf(a2a.CodeInternal, "internal error"))
	}
	if !x.s.log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	attrs := []slog.Attr{
		slog.String("request", x.id), slog.String("verb", x.r.Method), slog.String("path", x.r.URL.Path),
		slog.Int("status", x.status), slog.Duration("duration", time.Since(x.start)),
	}
	if x.method != "" {
		attrs = append(attrs, slog.String("method", x.method))
	}
	if x.task != "" {
		attrs = append(attrs, slog.String("task", x.task))
	}
	x.s.log.LogAttrs(ctx, slog.LevelDebug, "request", attrs...)
}

func (x *exchange) logPanic(p any) {
	x.s.log.Error("request panicked", "request", x.id, "method", x.method, "panic", p, "stack", string(debug.Stack()))
}

// refuse responds with an HTTP status and a JSON-RPC error.
func (x *exchange) refuse(status int, err error) {
	c := x.s.table.Call()
	x.respond(status, c.AppendError(nil, x.publicError(err), x.id))
}

// publicError returns the error to send to the caller, and logs internal details.
func (x *exchange) publicError(err error) *a2a.Error {
	public, internal := rpc.ErrorOf(err)
	if internal {
		log := x.s.log.Error
		if public.Code.Retryable() {
			log = x.s.log.Warn
		}
		log("request failed", "request", x.id, "method", x.method, "task", x.task, "error", err)
	}
	return public
}

// respond writes a complete JSON response.
func (x *exchange) respond(status int, body []byte) {
	h := x.w.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	x.WriteHeader(status)
	_, _ = x.w.Write(body) // fails only if the client has disconnected
}

var jsonType = []string{"application/json"}

// respondJSON writes v as JSON. v must be encodable.
func (x *exchange) respondJSON(status int, v any) {
	body, err := wire.Marshal(v)
	if err != nil {
		x.refuse(http.StatusInternalServerError, err)
		return
	}
	x.w.Header().Set("Cache-Control", "no-store")
	x.respond(status, append(body, '\n'))
}

// clearDeadlines removes the deadlines of the connection, for requests that may wait.
func (x *exchange) clearDeadlines() {
	c := http.NewResponseController(x.w)
	_ = c.SetReadDeadline(time.Time{}) // fails if there is no connection, as in tests
	_ = c.SetWriteDeadline(time.Time{})
}

// setWriteDeadline sets the deadline for the following write to WriteTimeout.
func (x *exchange) setWriteDeadline() {
	_ = http.NewResponseController(x.w).SetWriteDeadline(time.Now().Add(x.s.cfg.WriteTimeout))
}

// joinContexts returns a copy of ctx that also ends when other ends.
func joinContexts(ctx, other context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(other, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}
