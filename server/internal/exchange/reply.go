package exchange

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/memory"
	"github.com/holdfast-dev/holdfast/rpc"
)

const (
	// largeResponse is the size from which a response needs memory of the budget.
	largeResponse = 64 << 10
	// maxConcurrentReads is the number of results that are read and encoded at once while their size
	// is unknown. One owner may use half of them.
	maxConcurrentReads = 32
	// sizeTTL is how long the size of an owner's largest response is remembered.
	sizeTTL = time.Minute
	// maxSizeOwners is the maximum number of owners with remembered sizes.
	maxSizeOwners = 1024
)

// Format is the format in which a transport responds to one call.
type Format interface {
	// AppendResult appends the response with a result to dst. On error it returns dst unchanged.
	AppendResult(dst []byte, result any) ([]byte, error)
	// AppendEvent appends an item of a stream to dst. On error it returns dst unchanged.
	AppendEvent(dst []byte, e a2a.Event) ([]byte, error)
	// AppendError appends the response with an error to dst.
	AppendError(dst []byte, e *a2a.Error, requestID string) []byte
	// Fail responds with an error of the call. It is not called for a stopping server or for
	// missing memory, because these responses are the same for all transports.
	Fail(err error)
}

// ErrorEventer is a [Format] with a special type for the event that ends a stream with an error. In
// other formats, that event has the type of all other events.
type ErrorEventer interface {
	// ErrorEvent returns the type of the event.
	ErrorEvent() string
}

// Replies executes calls and limits the memory of their responses.
type Replies struct {
	memory  *memory.Budget
	reads   *memory.Budget // one unit is the reading of one result of unknown size
	sizes   responseSizes
	streams *Streams
}

// NewReplies returns replies that reserve memory of a budget, which may be nil.
func NewReplies(budget *memory.Budget, streams *Streams) *Replies {
	return &Replies{memory: budget, reads: memory.New(maxConcurrentReads), streams: streams}
}

// Serve executes a prepared call and responds.
func (r *Replies) Serve(x *Exchange, c *rpc.Call, format Format) {
	reply := r.New(x, c, format)
	defer reply.Release()
	if c.Method.Streaming {
		r.streams.serve(reply)
	} else {
		reply.serve()
	}
}

// Reply is the response to one call.
type Reply struct {
	of     *Replies
	x      *Exchange
	call   *rpc.Call
	format Format
	memory memory.Hold
	// readSlot is the slot for reading the first item of a stream.
	readSlot memory.Hold
}

// New returns the reply to a call. The caller releases it when the response has been written.
func (r *Replies) New(x *Exchange, c *rpc.Call, format Format) *Reply {
	reply := &Reply{of: r, x: x, call: c, format: format, memory: r.memory.Hold(x.Principal.ID)}
	c.ReserveMemory = reply.reserveContent
	return reply
}

// Release releases the memory of the response.
func (r *Reply) Release() { r.memory.Release() }

// serve executes a unary call and responds.
func (r *Reply) serve() {
	if !r.call.Method.Idempotent {
		r.x.ClearDeadlines()
	}
	out, err := r.Run(r.x.Request.Context())
	if err != nil {
		r.fail(err)
		return
	}
	defer out.Free()
	r.x.SetWriteDeadline()
	if r.call.Method.Cacheable && r.x.Request.Method != http.MethodPost {
		r.x.Header().Add("Vary", "Authorization")
		r.x.RespondCacheable("private", time.Time{}, out.B)
		return
	}
	r.x.Respond(http.StatusOK, out.B)
}

// Run executes a unary call and returns the response with its result.
func (r *Reply) Run(ctx context.Context) (*Buffer, error) {
	if r.call.Method.Idempotent {
		return r.read(ctx)
	}
	result, err := r.x.run(ctx, r.call)
	if err == nil {
		err = r.reserveEncoding(ctx, result)
	}
	return r.encode(result, err)
}

// read executes a call that only reads. If the response exceeds the free memory, read drops
// it, waits for enough memory and executes the call again.
func (r *Reply) read(ctx context.Context) (*Buffer, error) {
	owner := r.x.Principal.ID
	slot := r.of.reads.Hold(owner)
	defer slot.Release()
	expected := r.of.sizes.expected(owner)
	for again := false; ; again = true {
		if err := r.reserveResult(ctx, expected, &slot); err != nil {
			return nil, err
		}
		out, err := r.encode(r.x.run(ctx, r.call))
		if err != nil {
			return nil, err
		}
		size := int64(cap(out.B))
		if size < largeResponse {
			size = 0
		}
		r.of.sizes.record(owner, size)
		more := size - r.memory.Bytes()
		r.memory.Shrink(-more)
		if r.memory.TryGrow(more) {
			return out, nil
		}
		out.Free()
		if again { // the response exceeds the owner's share, or other requests took the memory
			return nil, overload(r.memory.Grow(ctx, more))
		}
		slot.Release()
		expected = size
	}
}

// encode returns the response with a result.
func (r *Reply) encode(result any, err error) (*Buffer, error) {
	if err != nil {
		return nil, err
	}
	out := NewBuffer()
	if out.B, err = r.format.AppendResult(growFor(out.B, result), result); err != nil {
		out.Free()
		return nil, encodingError(err)
	}
	return out, nil
}

// appendEvent appends the response with an item of a stream, or with an error if the item
// cannot be encoded.
func (r *Reply) appendEvent(dst []byte, e a2a.Event) []byte {
	out, err := r.format.AppendEvent(growFor(dst, e), e)
	if err != nil {
		return r.appendError(out, encodingError(err))
	}
	return out
}

func (r *Reply) appendError(dst []byte, err error) []byte {
	return r.format.AppendError(dst, r.x.PublicError(err), r.x.ID)
}

// encodingError returns the error for a result that cannot be encoded, which is internal
// whatever the type of err.
func encodingError(err error) error { return a2a.Wrap(a2a.CodeInternal, err, "internal error") }

// overloadError is the error for a response for which there is no free memory or slot.
type overloadError struct{ error }

func (e overloadError) Unwrap() error { return e.error }

func overload(err error) error {
	if err == nil {
		return nil
	}
	return overloadError{err}
}

// Refusal is the rejection of a caller, as opposed to an error of a method: transports respond with its HTTP status.
type Refusal struct {
	// Err is the error for the caller.
	Err error
	// Status is the HTTP status; 0 means the status of the code of Err.
	Status int
	// Header has additional headers of the response, such as Retry-After.
	Header http.Header
}

// Error returns the text of Err.
func (r *Refusal) Error() string { return r.Err.Error() }

// Unwrap returns Err.
func (r *Refusal) Unwrap() error { return r.Err }

// Refused sets the headers of the response to a rejected caller, and returns the HTTP status.
func (x *Exchange) Refused(err error) (status int) {
	var r *Refusal
	if errors.As(err, &r) {
		maps.Copy(x.Header(), r.Header)
		status = r.Status
	}
	return cmp.Or(status, a2a.CodeOf(err).HTTPStatus())
}

// fail responds with an error. The headers for a stopping server make load balancers and
// clients retry on another connection.
func (r *Reply) fail(err error) {
	h, status := r.x.Header(), http.StatusTooManyRequests
	switch {
	case errors.As(err, new(*Refusal)):
		status = r.x.Refused(err)
		r.x.SetWriteDeadline()
		r.x.Respond(status, r.appendError(nil, err))
		return
	case errors.As(err, new(overloadError)):
	case errors.Is(err, engine.ErrShutdown):
		h.Set("Connection", "close")
		status = http.StatusServiceUnavailable
	default:
		r.format.Fail(err)
		return
	}
	h.Set("Retry-After", "1")
	r.x.SetWriteDeadline()
	r.x.Respond(status, r.appendError(nil, err))
}

// reserveResult reserves a read slot, and memory for a response with a result of the given
// size. A result needs twice its size while it is encoded.
func (r *Reply) reserveResult(ctx context.Context, bytes int64, slot *memory.Hold) error {
	want := min(2*bytes, r.of.memory.Share())
	if err := r.memory.Grow(ctx, want-r.memory.Bytes()); err != nil {
		return overload(err)
	}
	return overload(slot.Grow(ctx, 1))
}

// reserveEncoding reserves memory for the encoding of a result that has been read.
func (r *Reply) reserveEncoding(ctx context.Context, result any) error {
	size := int64(sizeHint(result))
	if size < largeResponse {
		return nil
	}
	r.of.sizes.record(r.x.Principal.ID, size)
	return overload(r.memory.Grow(ctx, size-r.memory.Bytes()))
}

// ReserveItem reserves memory for the encoding of an item of a stream.
func (r *Reply) ReserveItem(ctx context.Context, e a2a.Event) error {
	err := r.reserveEncoding(ctx, e)
	r.readSlot.Release()
	return err
}

// reserveContent reserves memory for reading and encoding content. It releases the previous
// reservation for the response.
func (r *Reply) reserveContent(ctx context.Context, bytes int64) error {
	r.memory.Release()
	if bytes < largeResponse {
		return nil
	}
	return r.memory.Grow(ctx, 2*bytes)
}

// responseSizes remembers the size of the largest recent response of each owner. The server
// reserves this much memory before it reads the owner's next response.
type responseSizes struct {
	mu     sync.Mutex
	owners map[string]responseSize
}

type responseSize struct {
	bytes   int64
	expires time.Time
}

// expected returns the expected size of an owner's response, 0 if it is less than largeResponse.
func (s *responseSizes) expected(owner string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if size := s.owners[owner]; time.Now().Before(size.expires) {
		return size.bytes
	}
	return 0
}

func (s *responseSizes) record(owner string, bytes int64) {
	if bytes < largeResponse {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if size := s.owners[owner]; now.Before(size.expires) && bytes < size.bytes {
		return
	}
	if s.owners == nil || len(s.owners) >= maxSizeOwners {
		s.owners = make(map[string]responseSize)
	}
	s.owners[owner] = responseSize{bytes: bytes, expires: now.Add(sizeTTL)}
}

// sizeHint returns the approximate size of an encoded result, without data parts.
func sizeHint(result any) (n int) {
	switch r := result.(type) {
	case json.RawMessage:
		return len(r)
	case *a2a.TasksPage[json.RawMessage]:
		return len(r.Tasks)
	case *a2a.Task:
		for i := range r.History {
			n += partsHint(r.History[i].Parts)
		}
		for i := range r.Artifacts {
			n += partsHint(r.Artifacts[i].Parts)
		}
		if r.Status.Message != nil {
			n += partsHint(r.Status.Message.Parts)
		}
	case *a2a.Message:
		n = partsHint(r.Parts)
	case *a2a.TaskArtifactUpdateEvent:
		n = partsHint(r.Artifact.Parts)
	case *a2a.TaskStatusUpdateEvent:
		if r.Status.Message != nil {
			n = partsHint(r.Status.Message.Parts)
		}
	}
	return n
}

func partsHint(parts []a2a.Part) (n int) {
	for _, p := range parts {
		switch p := p.(type) {
		case a2a.TextPart:
			n += len(p.Text) + len(p.Text)/32 + 64
		case a2a.FilePart:
			if f, ok := p.File.(a2a.FileWithBytes); ok {
				n += len(f.Bytes)/3*4 + 128
			}
		}
	}
	return n
}

func growFor(dst []byte, result any) []byte {
	if n := sizeHint(result); n > cap(dst)-len(dst) {
		return slices.Grow(dst, n+n/32+4<<10)
	}
	return dst
}
