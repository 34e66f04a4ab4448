package rpc

import (
	"context"
	"errors"
	"maps"
	"strconv"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// Dialect is how answers are spelled.
type Dialect string

const (
	// A2A is as A2A 0.3 says. So is the empty Dialect.
	A2A Dialect = "a2a"
	// Bindu is as agents made with Bindu answer: the members of results are in
	// snake_case, as those of requests may be anyway, but for mimeType; and that there are
	// no webhooks is error -32005.
	Bindu Dialect = "bindu"
)

// Dialects lists the dialects there are, the default first.
func Dialects() []Dialect { return []Dialect{A2A, Bindu} }

// AppendResult appends the answer to a request that went well. On error dst is
// returned as it was.
func (d Dialect) AppendResult(dst []byte, id ID, result any) ([]byte, error) {
	out, err := d.Append(append(appendHead(dst, id), `,"result":`...), result)
	if err != nil {
		return dst, err
	}
	return append(out, '}'), nil
}

// Append appends a result, or a part of one. On error dst is returned as it was. A [json.RawMessage]
// is appended as it is.
func (d Dialect) Append(dst []byte, v any) ([]byte, error) {
	if d == Bindu {
		return wire.AppendSnake(dst, v)
	}
	return wire.Append(dst, v)
}

// AppendError appends the answer to a request that was refused. requestID, if
// not empty, is told with it, to be found in the server's log.
func (d Dialect) AppendError(dst []byte, id ID, e *a2a.Error, requestID string) []byte {
	dst = append(appendHead(dst, id), `,"error":{"code":`...)
	dst = strconv.AppendInt(dst, int64(d.number(e.Code)), 10)
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

// number is that of an error.
func (d Dialect) number(code a2a.Code) int {
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

// ErrorOf returns what the caller is told of err: the [a2a.Error] in its chain,
// less its cause, and nothing more. internal is set when that is not the whole
// story and err belongs in the log.
func ErrorOf(err error) (told *a2a.Error, internal bool) {
	var e *a2a.Error
	var w *wire.Error
	switch {
	case errors.As(err, &e):
		return &a2a.Error{Code: e.Code, Message: e.Message, Data: e.Data}, e.Err != nil || e.Code == a2a.CodeInternal
	case errors.As(err, &w) && !w.Syntax:
		return a2a.Invalid(w.Path, "%s", w.Rule), false
	case errors.Is(err, context.DeadlineExceeded):
		return a2a.Errorf(a2a.CodeUnavailable, "this took too long; try again later"), true
	case errors.Is(err, context.Canceled):
		return a2a.Errorf(a2a.CodeUnavailable, "the request was given up"), false
	}
	return a2a.Errorf(a2a.CodeInternal, "internal error"), true
}
