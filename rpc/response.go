package rpc

import (
	"context"
	"errors"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// Codec converts between the model of package a2a and the JSON of one protocol version. It is
// comparable and safe for concurrent use.
type Codec interface {
	// Version returns the protocol version on agent cards.
	Version() string
	// MethodName returns the JSON-RPC name of a method, or "" if the version lacks it. The names
	// of two codecs of one table differ: the name of a request selects its codec.
	MethodName(m *a2a.Method) string
	// DecodeParams decodes the params of a method into the value that v points to, the type of
	// its binding. raw is empty if the request has no params. The error is an [a2a.Error] that
	// names the field.
	DecodeParams(raw []byte, v any) error
	// AppendResult appends the result of a method to dst: a value of the type of its binding,
	// or a [json.RawMessage] that was encoded by the same codec. On error it returns dst
	// unchanged.
	AppendResult(dst []byte, m *a2a.Method, result any) ([]byte, error)
	// AppendEvent appends an item of a stream to dst. On error it returns dst unchanged.
	AppendEvent(dst []byte, e a2a.Event) ([]byte, error)
	// AppendError appends a JSON-RPC error object to dst. If requestID is not empty, the object
	// contains it. announced is the Version of the call.
	AppendError(dst []byte, e *a2a.Error, requestID, announced string) []byte
	// AppendCard appends an agent card to dst, with the version of the codec. On error it
	// returns dst unchanged.
	AppendCard(dst []byte, card *a2a.AgentCard) ([]byte, error)
}

// BinaryCodec is a [Codec] with params and results that are not JSON. The tasks of an
// [a2a.TasksPage] are then its items, one after the other.
type BinaryCodec interface {
	Codec
	// AppendItem appends an encoded task as an item of a list to dst.
	AppendItem(dst, task []byte) []byte
	// Canonical returns the same text for params of a method that have the same content.
	Canonical(method string, params []byte) []byte
}

// AppendResult appends the response with a result to dst. On error it returns dst unchanged.
func (c *Call) AppendResult(dst []byte, result any) ([]byte, error) {
	out, err := c.Codec.AppendResult(append(c.appendHead(dst), `,"result":`...), c.Method, result)
	return end(dst, out, err)
}

// AppendEvent appends the response with an item of a stream to dst. On error it returns dst
// unchanged.
func (c *Call) AppendEvent(dst []byte, e a2a.Event) ([]byte, error) {
	out, err := c.Codec.AppendEvent(append(c.appendHead(dst), `,"result":`...), e)
	return end(dst, out, err)
}

// AppendError appends the response with an error to dst. If requestID is not empty, the
// response contains it so that the caller can report it to the operator.
func (c *Call) AppendError(dst []byte, e *a2a.Error, requestID string) []byte {
	return append(c.Codec.AppendError(append(c.appendHead(dst), `,"error":`...), e, requestID, c.Version), '}')
}

func (c *Call) appendHead(dst []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	if len(c.ID) == 0 {
		return append(dst, "null"...)
	}
	return append(dst, c.ID...)
}

func end(dst, out []byte, err error) ([]byte, error) {
	if err != nil {
		return dst, err
	}
	return append(out, '}'), nil
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
