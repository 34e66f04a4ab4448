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
	// ID is the id of the request.
	ID ID
	// Codec is the codec of the request and its response.
	Codec     Codec
	Method    *a2a.Method
	Principal a2a.Principal
	// IdempotencyKey is the client's key that makes the call safe to repeat; "" if it sent
	// none. RequestHash is then a hash of the method and its params.
	IdempotencyKey string
	RequestHash    [32]byte
	// LastEventID is the id of the last stream event that the client has received; "" if it
	// sent none.
	LastEventID string
	// OnStored, if not nil, must be called by a method that waits as soon as the request's
	// content is stored and its memory can be released.
	OnStored func()
	// ReserveMemory, if not nil, must be called by a method that waits: with the size in bytes of the
	// result's content before it reads the result, and with 0 before it waits. Hold waits for
	// free memory; if it returns an error, the method must return that error.
	ReserveMemory func(ctx context.Context, bytes int64) error
	// TaskID is the task of the call, for the log. The method sets it.
	TaskID string

	row *row // set by Lookup
}

// Item is one item of a stream.
type Item struct {
	// Seq is the id of the item, from which a client can resume.
	Seq   int64
	Event a2a.Event
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

// Bind binds a method to a function. P and R are types of package a2a, which every codec
// converts.
func Bind[P, R any](name string, run func(context.Context, *Call, P) (R, error)) Binding {
	return Binding{name: name, prepare: func(c *Call, params []byte) (Prepared, error) {
		p := new(P)
		if err := c.Codec.DecodeParams(params, p); err != nil {
			return Prepared{}, err
		}
		return Prepared{Run: func(ctx context.Context) (any, error) {
			result, err := run(ctx, c, *p)
			if err != nil {
				return nil, err
			}
			return result, nil
		}}, nil
	}}
}

// BindStream binds a streaming method to a function. If run returns an error, the call fails
// without a stream; see also [Stream].
func BindStream[P any](name string, run func(context.Context, *Call, P) (Stream, error)) Binding {
	return Binding{name: name, stream: true, prepare: func(c *Call, params []byte) (Prepared, error) {
		p := new(P)
		if err := c.Codec.DecodeParams(params, p); err != nil {
			return Prepared{}, err
		}
		return Prepared{Stream: func(ctx context.Context) (Stream, error) { return run(ctx, c, *p) }}, nil
	}}
}

// Table finds methods by the names that its codecs give them.
type Table struct {
	rows map[string]*row
	// codec is the codec of requests without a known method.
	codec Codec
}

type row struct {
	method  a2a.Method
	codec   Codec
	prepare func(c *Call, params []byte) (Prepared, error)
}

// NewTable returns a table of methods for codecs, the first of which is the default. It
// returns an error that lists every method without a binding, every binding without a method,
// every mismatch between the two, and every name that codecs share.
func NewTable(methods []a2a.Method, codecs []Codec, bindings ...Binding) (*Table, error) {
	t := &Table{rows: make(map[string]*row, len(methods)*len(codecs)), codec: codecs[0]}
	var errs []error
	bound := make(map[string]Binding, len(bindings))
	for _, b := range bindings {
		if _, twice := bound[b.name]; twice {
			errs = append(errs, fmt.Errorf("method %s has two bindings", b.name))
		}
		bound[b.name] = b
	}
	for _, m := range methods {
		b, ok := bound[m.Name]
		delete(bound, m.Name)
		switch {
		case m.Off != "" && ok:
			errs = append(errs, fmt.Errorf("method %s is off but has a binding", m.Name))
		case m.Off == "" && !ok:
			errs = append(errs, fmt.Errorf("method %s has no binding", m.Name))
		case m.Streaming != b.stream && ok:
			errs = append(errs, fmt.Errorf("method %s: descriptor has streaming %t, binding %t", m.Name, m.Streaming, b.stream))
		}
		for _, codec := range codecs {
			name := codec.MethodName(&m)
			if t.rows[name] != nil {
				errs = append(errs, fmt.Errorf("the codecs share the name %s", name))
			}
			if name != "" {
				t.rows[name] = &row{method: m, codec: codec, prepare: b.prepare}
			}
		}
	}
	for name := range bound {
		errs = append(errs, fmt.Errorf("method %s has a binding but no descriptor", name))
	}
	return t, errors.Join(errs...)
}

// Call returns a call without a method, for the response to a request that cannot be read.
func (t *Table) Call() Call { return Call{Codec: t.codec} }

// Lookup sets the id, the codec and the method of the call for a request. Errors:
// method_not_found, or the error of a method that is off. For a request without an id it is
// the error of its params or invalid_request.
func (t *Table) Lookup(c *Call, r *Request) error {
	c.ID, c.Codec = r.ID, t.codec
	found, ok := t.rows[r.Method]
	if !ok {
		return a2a.Errorf(a2a.CodeMethodNotFound, "method %s not found", a2a.Quote(r.Method))
	}
	c.row, c.Codec, c.Method = found, found.codec, &found.method
	switch {
	case len(r.ID) == 0:
		return c.notificationError(r.Params)
	case found.method.Off != "":
		return a2a.Errorf(found.method.Off, "%s is not supported by this agent", r.Method)
	}
	return nil
}

// notificationError returns the error for a request without an id: the error of its params,
// or otherwise that notifications are not supported.
func (c *Call) notificationError(params []byte) error {
	if c.row.prepare != nil {
		if _, err := c.row.prepare(c, params); err != nil {
			return err
		}
	}
	return a2a.Errorf(a2a.CodeInvalidRequest, "notifications are not supported: id is required")
}

// Prepare decodes the params of a call for which Lookup returned no error.
func (c *Call) Prepare(params []byte) (Prepared, error) { return c.row.prepare(c, params) }
