package rpc

import (
	"context"
	"errors"
	"maps"
	"strconv"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// Dialect is the JSON format of results.
type Dialect string

const (
	// A2A is the format of A2A 0.3. The empty Dialect is the same.
	A2A Dialect = "a2a"
	// Bindu is the format of agents made with Bindu. The members of results are in snake_case,
	// except for mimeType. The error for unsupported webhooks has the number -32005.
	Bindu Dialect = "bindu"
)

// Dialects returns all dialects, the default first.
func Dialects() []Dialect { return []Dialect{A2A, Bindu} }

// AppendResult appends the response to a successful request to dst. On error it returns dst
// unchanged.
func (d Dialect) AppendResult(dst []byte, id ID, result any) ([]byte, error) {
	out, err := d.Append(append(appendHead(dst, id), `,"result":`...), result)
	if err != nil {
		return dst, err
	}
	return append(out, '}'), nil
}

// Append appends the JSON of a result, or of a part of one, to dst. A [json.RawMessage] is
// appended unchanged. On error it returns dst unchanged.
func (d Dialect) Append(dst []byte, v any) ([]byte, error) {
	if d == Bindu {
		return wire.AppendSnake(dst, v)
	}
	return wire.Append(dst, v)
}

// AppendError appends the response to a failed request to dst. If requestID is not empty,
// the response contains it so that the caller can report it to the operator.
func (d Dialect) AppendError(dst []byte, id ID, e *a2a.Error, requestID string) []byte {
	dst = append(appendHead(dst, id), `,"error":{"code":`...)
	dst = strconv.AppendInt(dst, int64(d.errorCode(e.Code)), 10)
	dst = wire.AppendString(append(dst, `,"message":`...), e.Message)
	data := make(map[string]any, len(e.Data)+2)
	maps.Copy(data, e.Data)
	data["code"] = string(e.Code)
	if requestID != "" {
		data["requestId"] = requestID
	}
	dst, err := wire.Append(append(dst, `,"data":`...), data)
	if err != nil {
		dst = append(dst, "null"...)
	}
	return append(dst, "}}"...)
}

// errorCode returns the JSON-RPC error code of code.
func (d Dialect) errorCode(code a2a.Code) int {
	if d == Bindu && code == a2a.CodePushNotSupported {
		return a2a.CodeContentType.JSONRPC()
	}
	return code.JSONRPC()
}

func appendHead(dst []byte, id ID) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	if len(id) == 0 {
		return append(dst, "null"...)
	}
	return append(dst, id...)
}

// ErrorOf returns the error to send to the caller: the [a2a.Error] in the chain of err
// without its cause, or a general error. internal is set if err has details that the caller
// must not see and that belong in the log.
func ErrorOf(err error) (public *a2a.Error, internal bool) {
	var e *a2a.Error
	var w *wire.Error
	switch {
	case errors.As(err, &e):
		return &a2a.Error{Code: e.Code, Message: e.Message, Data: e.Data}, e.Err != nil || e.Code == a2a.CodeInternal
	case errors.As(err, &w) && !w.Syntax:
		return a2a.Invalid(w.Path, "%s", w.Rule), false
	case errors.Is(err, context.DeadlineExceeded):
		return a2a.Errorf(a2a.CodeUnavailable, "the request timed out; retry later"), true
	case errors.Is(err, context.Canceled):
		return a2a.Errorf(a2a.CodeUnavailable, "the request was canceled"), false
	}
	return a2a.Errorf(a2a.CodeInternal, "internal error"), true
}
