package server

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
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
	// maxSizeOwners is the maximum number of owners whose sizes are remembered.
	maxSizeOwners = 1024
)

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

// reserveResult reserves memory for a response with a result of the given size. A result needs
// twice its size while it is encoded.
func (x *exchange) reserveResult(bytes int64) error {
	want := min(2*bytes, x.s.cfg.Memory.Share())
	return x.responseMemory.Grow(x.r.Context(), want-x.responseMemory.Bytes())
}

// readReserved returns the result of f, which reads and encodes a response. The memory is reserved
// until x.reply is released. If the response exceeds the free memory, read drops it, waits
// for enough memory and calls f again.
func (x *exchange) readReserved(f func() *buffer) (*buffer, error) {
	slot := x.s.readSlots.Hold(x.principal.ID)
	defer slot.Release()
	expected := x.s.sizes.expected(x.principal.ID)
	for again := false; ; again = true {
		if err := x.reserveResult(expected); err != nil {
			return nil, err
		}
		if err := slot.Grow(x.r.Context(), 1); err != nil {
			return nil, err
		}
		out := f()
		size := int64(cap(out.b))
		if size < largeResponse {
			size = 0
		}
		x.s.sizes.record(x.principal.ID, size)
		more := size - x.responseMemory.Bytes()
		x.responseMemory.Shrink(-more)
		if x.responseMemory.TryGrow(more) {
			return out, nil
		}
		out.free()
		if again { // the response exceeds the owner's share, or other requests took the memory
			return nil, x.responseMemory.Grow(x.r.Context(), more)
		}
		slot.Release()
		expected = size
	}
}

// reserveEncoding reserves memory for the encoding of a result that has been read.
func (x *exchange) reserveEncoding(result any) error {
	size := int64(sizeHint(result))
	if size < largeResponse {
		return nil
	}
	x.s.sizes.record(x.principal.ID, size)
	return x.responseMemory.Grow(x.r.Context(), size-x.responseMemory.Bytes())
}

// reserveContent reserves memory for reading and encoding content. It releases the previous
// reservation for the response.
func (x *exchange) reserveContent(ctx context.Context, bytes int64) error {
	x.responseMemory.Release()
	if bytes < largeResponse {
		return nil
	}
	return x.responseMemory.Grow(ctx, 2*bytes)
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

// appendSizedResponse appends the response with a result to a buffer, after growing the buffer to
// the expected size.
func (x *exchange) appendSizedResponse(dst []byte, c *rpc.Call, result any) []byte {
	out, err := c.AppendResult(growFor(dst, result), result)
	if err != nil {
		return x.appendError(out, c, encodingError(err))
	}
	return out
}

// appendSizedEvent is like appendSizedResponse for an item of a stream.
func (x *exchange) appendSizedEvent(dst []byte, c *rpc.Call, e a2a.Event) []byte {
	out, err := c.AppendEvent(growFor(dst, e), e)
	if err != nil {
		return x.appendError(out, c, encodingError(err))
	}
	return out
}

func growFor(dst []byte, result any) []byte {
	if n := sizeHint(result); n > cap(dst)-len(dst) {
		return slices.Grow(dst, n+n/32+4<<10)
	}
	return dst
}

// newBudgets returns the budgets for results of unknown size and for streams.
func newBudgets(cfg Config) (reads, streams *memory.Budget) {
	n := int64(cfg.MaxStreams)
	if cfg.Authenticator == nil {
		n *= 2 // a budget gives one owner half of it
	}
	return memory.New(maxConcurrentReads), memory.New(n)
}
