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

// exchange is one request and its answer. It is the http.ResponseWriter through
// which the answer passes, so that it can be told in the log.
type exchange struct {
	s         *Server
	w         http.ResponseWriter
	r         *http.Request
	start     time.Time
	id        string
	principal a2a.Principal

	status int         // 0 until the answer has begun
	waited bool        // the connection's deadlines have been lifted
	held   memory.Hold // for the request's content
	reply  memory.Hold // for the response
	method string
	task   string
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

// Unwrap is for http.ResponseController.
func (x *exchange) Unwrap() http.ResponseWriter { return x.w }

// end contains a panic and writes the access log. It must be deferred itself.
func (x *exchange) end(ctx context.Context) {
	if p := recover(); p != nil {
		if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(p)
		}
		x.logPanic(p)
		if x.status != 0 {
			// The answer has begun; only cutting it short tells that it is not whole.
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

// refuse answers with an HTTP status that says what the matter is, and a JSON-RPC
// error.
func (x *exchange) refuse(status int, err error) {
	x.answer(status, x.s.cfg.Dialect.AppendError(nil, nil, x.told(err), x.id))
}

// told returns what the caller is told of err, and logs the rest.
func (x *exchange) told(err error) *a2a.Error {
	told, internal := rpc.ErrorOf(err)
	if internal {
		log := x.s.log.Error
		if told.Code.Retryable() {
			log = x.s.log.Warn
		}
		log("request failed", "request", x.id, "method", x.method, "task", x.task, "error", err)
	}
	return told
}

// answer writes a whole JSON answer in one go.
func (x *exchange) answer(status int, body []byte) {
	h := x.w.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	x.WriteHeader(status)
	_, _ = x.w.Write(body) // fails only if the client has gone
}

var jsonType = []string{"application/json"}

// answerJSON writes v, a value of ours that JSON can express.
func (x *exchange) answerJSON(status int, v any) {
	body, err := wire.Marshal(v)
	if err != nil {
		x.refuse(http.StatusInternalServerError, err)
		return
	}
	x.w.Header().Set("Cache-Control", "no-store")
	x.answer(status, append(body, '\n'))
}

// unhurried lifts the deadlines of the connection from a request that may wait.
func (x *exchange) unhurried() {
	x.waited = true
	c := http.NewResponseController(x.w)
	_ = c.SetReadDeadline(time.Time{}) // fails where there is no connection, as in tests
	_ = c.SetWriteDeadline(time.Time{})
}

// hurried gives the client the time it has to accept what is written next.
func (x *exchange) hurried() {
	_ = http.NewResponseController(x.w).SetWriteDeadline(time.Now().Add(x.s.cfg.WriteTimeout))
}

// until returns the request's context, which also ends with other.
func (x *exchange) until(other context.Context) (context.Context, context.CancelFunc) {
	return joined(x.r.Context(), other)
}

// joined returns ctx ended by other, too.
func joined(ctx, other context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(other, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}
