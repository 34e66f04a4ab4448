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

	row     *row    // set by Lookup
	handler handler // set by Prepare
	next    int     // the number of interceptors that have run
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

// Interceptor surrounds the execution of calls, for example to authorize, limit or measure them.
// It returns the result of c.Next, or an error without calling it. The params are decoded
// then. The result is of the type of the method's binding, or a [Stream].
type Interceptor func(ctx context.Context, c *Call) (any, error)

type handler func(ctx context.Context) (any, error)

// Binding connects a method name to its implementation.
type Binding struct {
	name    string
	stream  bool
	prepare func(c *Call, params []byte) (handler, error)
}

// Bind binds a method to a function. P and R are types of package a2a, which every codec
// converts.
func Bind[P, R any](name string, run func(context.Context, *Call, P) (R, error)) Binding {
	return Binding{name: name, prepare: func(c *Call, params []byte) (handler, error) {
		p := new(P)
		if err := c.Codec.DecodeParams(params, p); err != nil {
			return nil, err
		}
		return func(ctx context.Context) (any, error) {
			result, err := run(ctx, c, *p)
			if err != nil {
				return nil, err
			}
			return result, nil
		}, nil
	}}
}

// BindStream binds a streaming method to a function. If run returns an error, the call fails
// without a stream; see also [Stream].
func BindStream[P any](name string, run func(context.Context, *Call, P) (Stream, error)) Binding {
	b := Bind(name, run)
	b.stream = true
	return b
}

// Table finds methods by the names that its codecs give them.
type Table struct {
	cfg  Config
	rows map[string]*row
}

// Config configures a [Table].
type Config struct {
	Methods []a2a.Method
	// Codecs are the protocol versions, at least one. The first is that of requests without a
	// known method.
	Codecs []Codec
	// Interceptors surround all calls; the first one is outermost.
	Interceptors []Interceptor
}

type row struct {
	table   *Table
	method  a2a.Method
	codec   Codec
	prepare func(c *Call, params []byte) (handler, error)
}

// NewTable returns a table, or an error that lists every method without a binding, every
// binding without a method, every mismatch between the two, and every name that codecs share.
func NewTable(cfg Config, bindings ...Binding) (*Table, error) {
	t := &Table{cfg: cfg, rows: make(map[string]*row, len(cfg.Methods)*len(cfg.Codecs))}
	var errs []error
	bound := make(map[string]Binding, len(bindings))
	for _, b := range bindings {
		if _, twice := bound[b.name]; twice {
			errs = append(errs, fmt.Errorf("method %s has two bindings", b.name))
		}
		bound[b.name] = b
	}
	for _, m := range cfg.Methods {
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
		for _, codec := range cfg.Codecs {
			name := codec.MethodName(&m)
			if t.rows[name] != nil {
				errs = append(errs, fmt.Errorf("the codecs share the name %s", name))
			}
			if name != "" {
				t.rows[name] = &row{table: t, method: m, codec: codec, prepare: b.prepare}
			}
		}
	}
	for name := range bound {
		errs = append(errs, fmt.Errorf("method %s has a binding but no descriptor", name))
	}
	return t, errors.Join(errs...)
}

// Call returns a call without a method, for the response to a request that cannot be read.
func (t *Table) Call() Call { return Call{Codec: t.cfg.Codecs[0]} }

// Lookup sets the id, the codec and the method of the call for a request. Errors:
// method_not_found, or the error of a method that is off. For a request without an id it is
// the error of its params or invalid_request.
func (t *Table) Lookup(c *Call, r *Request) error {
	c.ID, c.Codec = r.ID, t.cfg.Codecs[0]
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

// Prepare decodes the params of a call for which Lookup returned no error. The text is not
// needed afterwards.
func (c *Call) Prepare(params []byte) (err error) {
	c.handler, err = c.row.prepare(c, params)
	return err
}

// Run executes a prepared call. The result is of the type of the method's binding, a [Stream]
// for streaming methods. A call of an idempotent method may run several times, one after
// the other.
func (c *Call) Run(ctx context.Context) (any, error) {
	c.next = 0
	return c.Next(ctx)
}

// Next runs the next interceptor of the call or, after the last one, its method. Each
// interceptor may call it once.
func (c *Call) Next(ctx context.Context) (any, error) {
	if all := c.row.table.cfg.Interceptors; c.next < len(all) {
		c.next++
		return all[c.next-1](ctx, c)
	}
	run := c.handler
	if !c.Method.Idempotent {
		c.handler = nil // release the params, which may be large, while the method waits
	}
	return run(ctx)
}

// Authorize is an [Interceptor] that rejects calls of principals without the scope of the
// method.
func Authorize(ctx context.Context, c *Call) (any, error) {
	if !c.Principal.May(c.Method.Scope) {
		return nil, a2a.Errorf(a2a.CodeDenied, "%s requires the scope %s", c.Codec.MethodName(c.Method), c.Method.Scope)
	}
	return c.Next(ctx)
}
