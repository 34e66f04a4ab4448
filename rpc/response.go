package rpc

import (
	"context"
	"errors"
	"maps"
	"strconv"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// AppendResult appends the answer to a request that went well. On error dst is
// returned as it was.
func AppendResult(dst []byte, id ID, result any) ([]byte, error) {
	out, err := wire.Append(append(appendHead(dst, id), `,"result":`...), result)
	if err != nil {
		return dst, err
	}
	return append(out, '}'), nil
}

// AppendError appends the answer to a request that was refused. requestID, if
// not empty, is told with it, to be found in the server's log.
func AppendError(dst []byte, id ID, e *a2a.Error, requestID string) []byte {
	dst = append(appendHead(dst, id), `,"error":{"code":`...)
	dst = strconv.AppendInt(dst, int64(e.Code.JSONRPC()), 10)
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
