package rpc

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/holdfast-dev/holdfast/a2a"
)

// Call has the properties of a call apart from its params.
type Call struct {
	Method    a2a.Method
	Principal a2a.Principal
	// IdempotencyKey is the client's key that makes the call safe to repeat; "" if it sent
	// none. RequestHash is then a hash of the method and its params.
	IdempotencyKey string
	RequestHash    [32]byte
	// LastEventID is the id of the last stream event that the client has received; "" if it
	// sent none.
	LastEventID string
	// Stored, if not nil, must be called by a method that waits as soon as the request's
	// content is stored and its memory can be released.
	Stored func()
	// Reserve, if not nil, must be called by a method that waits: with the size in bytes of the
	// result's content before it reads the result, and with 0 before it waits. Hold waits for
	// free memory; if it returns an error, the method must return that error.
	Reserve func(ctx context.Context, bytes int64) error
	// TaskID is the task of the call, for the log. The method sets it.
	TaskID string
}

// Item is one item of a stream.
type Item struct {
	// Seq is the id of the item, from which a client can resume.
	Seq int64
	// Result is the value to send.
	Result any
	// More reports whether the next item follows without a pause.
	More bool
}

// Stream is the result of a streaming method.
type Stream struct {
	// Items are the items of the stream. An error ends the stream.
	Items iter.Seq2[Item, error]
	// Started reports whether the response may start before the first item is available. If
	// it is false and the first item is an error, the call fails with that error.
	Started bool
}

// Prepared is a call with decoded params. Run is set for unary methods, Stream for streaming
// ones.
type Prepared struct {
	Run    func(ctx context.Context) (result any, err error)
	Stream func(ctx context.Context) (Stream, error)
}

// Binding connects a method name to its implementation.
type Binding struct {
	name    string
	stream  bool
	prepare func(c *Call, params []byte) (Prepared, error)
}

// Bind binds a method to a function. The result of decode must not refer to the memory of
// the params' text.
func Bind[P any](name string, decode func([]byte) (P, error), run func(context.Context, *Call, P) (any, error)) Binding {
	return Binding{name: name, prepare: func(c *Call, params []byte) (Prepared, error) {
		p, err := decode(params)
		if err != nil {
			return Prepared{}, err
		}
		return Prepared{Run: func(ctx context.Context) (any, error) { return run(ctx, c, p) }}, nil
	}}
}

// BindStream binds a streaming method to a function. If run returns an error, the call fails
// without a stream; see also [Stream].
func BindStream[P any](name string, decode func([]byte) (P, error), run func(context.Context, *Call, P) (Stream, error)) Binding {
	return Binding{name: name, stream: true, prepare: func(c *Call, params []byte) (Prepared, error) {
		p, err := decode(params)
		if err != nil {
			return Prepared{}, err
		}
		return Prepared{Stream: func(ctx context.Context) (Stream, error) { return run(ctx, c, p) }}, nil
	}}
}

// Table finds methods by name.
type Table struct {
	rows map[string]row
}

type row struct {
	method  a2a.Method
	prepare func(c *Call, params []byte) (Prepared, error)
}

// NewTable returns a table of methods. It returns an error that lists every method without a
// binding, every binding without a method, and every mismatch between the two.
func NewTable(methods []a2a.Method, bindings ...Binding) (*Table, error) {
	t := &Table{rows: make(map[string]row, len(methods))}
	for _, m := range methods {
		t.rows[m.Name] = row{method: m}
	}
	var errs []error
	for _, b := range bindings {
		r, ok := t.rows[b.name]
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("method %s has a binding but no descriptor", b.name))
			continue
		case r.method.Off != "":
			errs = append(errs, fmt.Errorf("method %s is off but has a binding", b.name))
		case r.prepare != nil:
			errs = append(errs, fmt.Errorf("method %s has two bindings", b.name))
		case r.method.Streaming != b.stream:
			errs = append(errs, fmt.Errorf("method %s: descriptor has streaming %t, binding %t", b.name, r.method.Streaming, b.stream))
		}
		r.prepare = b.prepare
		t.rows[b.name] = r
	}
	for _, m := range methods {
		if t.rows[m.Name].prepare == nil && m.Off == "" {
			errs = append(errs, fmt.Errorf("method %s has no binding", m.Name))
		}
	}
	return t, errors.Join(errs...)
}

// Lookup returns the method of a request. Errors: method_not_found, or the error of a method
// that is off. For a request without an id it is the error of its params or
// invalid_request.
func (t *Table) Lookup(r *Request) (a2a.Method, error) {
	found, ok := t.rows[r.Method]
	switch {
	case !ok:
		return a2a.Method{}, a2a.Errorf(a2a.CodeMethodNotFound, "method %s not found", a2a.Quote(r.Method))
	case len(r.ID) == 0:
		return found.method, found.notificationError(r.Params)
	case found.method.Off != "":
		return found.method, a2a.Errorf(found.method.Off, "%s is not supported by this agent", r.Method)
	}
	return found.method, nil
}

// notificationError returns the error for a request without an id: the error of its params,
// or otherwise that notifications are not supported.
func (r row) notificationError(params []byte) error {
	if r.prepare != nil {
		if _, err := r.prepare(&Call{Method: r.method}, params); err != nil {
			return err
		}
	}
	return a2a.Errorf(a2a.CodeInvalidRequest, "notifications are not supported: id is required")
}

// Prepare decodes the params of a call whose Method was returned by Lookup.
func (t *Table) Prepare(c *Call, params []byte) (Prepared, error) {
	return t.rows[c.Method.Name].prepare(c, params)
}
