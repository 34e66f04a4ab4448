package rpc

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/holdfast-dev/holdfast/a2a"
)

// Call is what a method is told beside its params.
type Call struct {
	Method    a2a.Method
	Principal a2a.Principal
	// IdempotencyKey is what the client makes the call repeatable by; "" if it
	// does not. RequestHash then is a hash of the method and its params.
	IdempotencyKey string
	RequestHash    [32]byte
	// LastEventID is where a reader of a stream goes on; "" for the start.
	LastEventID string
	// Stored, if not nil, is called by a method that waits once the request's
	// content is stored and need not be held any more.
	Stored func()
	// Hold, if not nil, is called by a method that waits: with the bytes of content of a result
	// before it reads the result, and with 0 before it waits. Hold waits for the memory that the
	// result takes; its error is the answer.
	Hold func(ctx context.Context, bytes int64) error
	// TaskID is set by the method for the log: the task it was about.
	TaskID string
}

// Item is one item of a stream.
type Item struct {
	// Seq is the id of the item, by which a reader goes on.
	Seq int64
	// Result is what is told.
	Result any
	// More is set when the next item follows without a pause.
	More bool
}

// Stream is the result of a streaming method.
type Stream struct {
	// Items ends with the stream. An error ends it, too.
	Items iter.Seq2[Item, error]
	// Begun streams are there even though the first item may be long in coming. Of
	// others, an error in the place of the first item refuses the call.
	Begun bool
}

// Prepared is a call whose params have been read. Exactly one of Run and Stream
// is set, as the method says.
type Prepared struct {
	Run    func(ctx context.Context) (result any, err error)
	Stream func(ctx context.Context) (Stream, error)
}

// Binding is what a method does.
type Binding struct {
	name    string
	stream  bool
	prepare func(c *Call, params []byte) (Prepared, error)
}

// Bind binds a method to a function. decode reads the params and keeps nothing
// of their text.
func Bind[P any](name string, decode func([]byte) (P, error), run func(context.Context, *Call, P) (any, error)) Binding {
	return Binding{name: name, prepare: func(c *Call, params []byte) (Prepared, error) {
		p, err := decode(params)
		if err != nil {
			return Prepared{}, err
		}
		return Prepared{Run: func(ctx context.Context) (any, error) { return run(ctx, c, p) }}, nil
	}}
}

// BindStream binds a streaming method to a function. Errors that it returns
// refuse the call; see also [Stream].
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

// NewTable joins descriptors and bindings. It reports every method that has no
// binding, every binding that has no method, and those that do not fit.
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
			errs = append(errs, fmt.Errorf("method %s: descriptor says streaming %t, binding %t", b.name, r.method.Streaming, b.stream))
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

// Lookup returns the method that a request is for. Errors: method_not_found, the
// error of a method that is off, and for a request without an id that of its
// params or invalid_request.
func (t *Table) Lookup(r *Request) (a2a.Method, error) {
	found, ok := t.rows[r.Method]
	switch {
	case !ok:
		return a2a.Method{}, a2a.Errorf(a2a.CodeMethodNotFound, "method %s is not known", a2a.Quote(r.Method))
	case len(r.ID) == 0:
		return found.method, found.refuseNotification(r.Params)
	case found.method.Off != "":
		return found.method, a2a.Errorf(found.method.Off, "%s is not supported by this agent", r.Method)
	}
	return found.method, nil
}

// refuseNotification says what is wrong with a request without an id: its params,
// or else that nobody could be told the answer.
func (r row) refuseNotification(params []byte) error {
	if r.prepare != nil {
		if _, err := r.prepare(&Call{Method: r.method}, params); err != nil {
			return err
		}
	}
	return a2a.Errorf(a2a.CodeInvalidRequest, "notifications are not supported: id is required")
}

// Prepare reads the params of a call whose Method came from Lookup.
func (t *Table) Prepare(c *Call, params []byte) (Prepared, error) {
	return t.rows[c.Method.Name].prepare(c, params)
}
