package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"

	"github.com/holdfast-dev/holdfast/a2a"
)

// Call has the properties of a call apart from its params.
type Call struct {
	// ID is the id of the request.
	ID ID
	// Codec is the codec of the request and its response.
	Codec Codec
	// Version is the protocol version that the client announces with the request; "" if it
	// announces none. It must be set before Lookup or Select.
	Version string
	// Minor is the minor version of A2A 1 that the client announces, 0 for other versions.
	Minor     int
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
	// result's content before it reads the result, and with 0 before it waits. It waits for
	// free memory; if it returns an error, the method must return that error.
	ReserveMemory func(ctx context.Context, bytes int64) error
	// Extensions are the URIs of the active extensions of the protocol.
	Extensions []string
	// Origin is the address of the agent as the client sees it.
	Origin Origin
	// RequestID identifies the request in logs.
	RequestID string
	// Owner is the owner in place of the caller, if the caller asks to act for another owner, else "". The authorization
	// sets Principal accordingly, or rejects the call.
	Owner string
	// Authorized is set once the call is authorized, because an idempotent call may run several times.
	Authorized bool
	// FileLinks makes large files of results links in every case.
	FileLinks bool
	// TaskID is the task of the call, for the log. The method sets it.
	TaskID string

	row      *row     // set by Lookup
	prepared prepared // set by Prepare
}

// Operation returns the name of the call's method for messages: as its codec writes it, if it has one.
func (c *Call) Operation() string {
	if c.Codec != nil {
		return c.Codec.MethodName(c.Method)
	}
	return c.Method.Name
}

// Origin is the address of an agent, as far as it can be known from a request.
type Origin struct {
	// Host is the host to which the client sent the request, "" if it is not known.
	Host string
	// Secure reports whether the client sent the request over TLS.
	Secure bool
	// Prefix is the path at which a proxy serves the agent, such as "/agents/travel"; "" if it is the root.
	Prefix string
}

// URL returns the address as a URL with a slash at its end, of localhost if the host is not known.
func (o Origin) URL() string {
	scheme := "http"
	if o.Secure {
		scheme = "https"
	}
	return scheme + "://" + cmp.Or(o.Host, "localhost") + o.Prefix + "/"
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

// Handler executes a call with decoded params. The result has the type of the method's
// binding, or is a [Stream].
type Handler func(ctx context.Context, c *Call) (any, error)

// Interceptor surrounds the execution of a method, for example to authorize, limit or measure
// its calls. It returns a handler that calls next at most once, or next itself if it does not
// concern the method. [NewTable] calls it once for each method.
type Interceptor func(m *a2a.Method, next Handler) Handler

// prepared executes a method with decoded params.
type prepared func(ctx context.Context) (any, error)

// Binding connects a method name to its implementation.
type Binding struct {
	name    string
	stream  bool
	params  reflect.Type
	prepare func(c *Call, params []byte) (prepared, error)
}

// Bind binds a method to a function. P and R are types of package a2a, which every codec
// converts.
func Bind[P, R any](name string, run func(context.Context, *Call, P) (R, error)) Binding {
	return Binding{name: name, params: reflect.TypeFor[P](), prepare: func(c *Call, params []byte) (prepared, error) {
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
	codecs []Codec
	rows   map[string]*row
}

// Config configures a [Table].
type Config struct {
	Methods []a2a.Method
	// Codecs are the protocol versions, at least one. The first one serves requests that name
	// neither a known method nor a version.
	Codecs []Codec
	// Interceptors surround all calls; the first one is outermost.
	Interceptors []Interceptor
}

type row struct {
	method  *a2a.Method
	off     a2a.Code // of the codec
	codec   Codec
	params  reflect.Type
	prepare func(c *Call, params []byte) (prepared, error)
	run     Handler // with the interceptors
}

// NewTable returns a table, or an error that lists every method without a binding, every
// binding without a method, every mismatch between the two, and every name that codecs share.
func NewTable(cfg Config, bindings ...Binding) (*Table, error) {
	t := &Table{codecs: cfg.Codecs, rows: make(map[string]*row, len(cfg.Methods)*len(cfg.Codecs))}
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
		run := Handler(runPrepared)
		for _, intercept := range slices.Backward(cfg.Interceptors) {
			run = intercept(&m, run)
		}
		for _, codec := range cfg.Codecs {
			name := codec.MethodName(&m)
			if t.rows[name] != nil {
				errs = append(errs, fmt.Errorf("the codecs share the name %s", name))
			}
			if name != "" {
				off := m.Off
				if off != "" && name == m.NameV10 {
					off = cmp.Or(m.OffV10, off)
				}
				t.rows[name] = &row{method: &m, off: off, codec: codec, params: b.params, prepare: b.prepare, run: run}
			}
		}
	}
	for name := range bound {
		errs = append(errs, fmt.Errorf("method %s has a binding but no descriptor", name))
	}
	return t, errors.Join(errs...)
}

// Call returns a call without a method. version is the version that the client announces; it
// determines the codec.
func (t *Table) Call(version string) Call {
	c := Call{Version: version, Minor: minor(version), Codec: t.codecFor(version)}
	if c.Codec == nil {
		c.Codec = t.codecs[0]
	}
	return c
}

// Lookup sets the id, the codec and the method of the call for a request. It returns the
// errors of Select.
func (t *Table) Lookup(c *Call, r *Request) error {
	c.ID = r.ID
	return t.Select(c, r.Method)
}

// Select sets the codec and the method of the call by the name that a codec gives the method, for
// transports without ids of requests. It returns method_not_found; version_not_supported, if no
// codec has the announced version; or the error of a method that is off. A client finds methods of
// the version that it announces and of newer versions, but not of older ones.
func (t *Table) Select(c *Call, name string) error {
	found, ok := t.rows[name]
	if !ok {
		c.Codec = t.Call(c.Version).Codec
		return a2a.Errorf(a2a.CodeMethodNotFound, "method %s not found", a2a.Quote(name))
	}
	c.row, c.Codec, c.Method = found, found.codec, found.method
	if err := t.checkVersion(c, name); err != nil {
		return err
	}
	if found.off != "" {
		return a2a.Errorf(found.off, "%s is not supported by this agent", name)
	}
	return nil
}

// Params returns the type of the params of a method by the name that a codec gives it, nil if
// the method is unknown or off.
func (t *Table) Params(name string) reflect.Type {
	if found, ok := t.rows[name]; ok {
		return found.params
	}
	return nil
}

// Prepare decodes the params of a call for which Lookup or Select returned no error. The caller may
// reuse params afterwards.
func (c *Call) Prepare(params []byte) (err error) {
	c.prepared, err = c.row.prepare(c, params)
	return err
}

// Run executes a prepared call. The result is of the type of the method's binding, a [Stream]
// for streaming methods. A call of an idempotent method may run several times, one after
// the other.
func (c *Call) Run(ctx context.Context) (any, error) { return c.row.run(ctx, c) }

// runPrepared is the innermost handler.
func runPrepared(ctx context.Context, c *Call) (any, error) {
	run := c.prepared
	if !c.Method.Idempotent {
		c.prepared = nil // release the params, which may be large, while the method waits
	}
	return run(ctx)
}
