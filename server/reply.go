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
	// largeReply is the size from which a response draws from the memory budget.
	largeReply = 64 << 10
	// readsAtOnce is how many results are read and encoded at once before it is known how
	// large they are; one owner may have half of them.
	readsAtOnce = 32
	// sizeMemory is how long the size of an owner's largest response is remembered.
	sizeMemory = time.Minute
	// sizeOwners is how many owners that is remembered of.
	sizeOwners = 1024
)

// replySizes remembers how large the largest responses of owners were lately, so that
// memory for the next ones is held before they are read.
type replySizes struct {
	mu    sync.Mutex
	known map[string]replySize
}

type replySize struct {
	bytes int64
	until time.Time
}

// of returns the size that is expected, 0 for less than largeReply.
func (s *replySizes) of(owner string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if size := s.known[owner]; time.Now().Before(size.until) {
		return size.bytes
	}
	return 0
}

func (s *replySizes) note(owner string, bytes int64) {
	if bytes < largeReply {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if size := s.known[owner]; now.Before(size.until) && bytes < size.bytes {
		return
	}
	if s.known == nil || len(s.known) >= sizeOwners {
		s.known = make(map[string]replySize)
	}
	s.known[owner] = replySize{bytes: bytes, until: now.Add(sizeMemory)}
}

// expect holds the memory that the next large result of the caller is expected to take: a
// result is there twice while it is encoded.
func (x *exchange) expect(bytes int64) error {
	want := min(2*bytes, x.s.cfg.Memory.Share())
	return x.reply.Grow(x.r.Context(), want-x.reply.Bytes())
}

// read returns what f reads and encodes. The memory for it is held until x.reply is
// released. A result that is larger than the memory that is free is dropped, and read
// again once there is enough.
func (x *exchange) read(f func() *buffer) (*buffer, error) {
	place := x.s.reads.Hold(x.principal.ID)
	defer place.Release()
	expected := x.s.sizes.of(x.principal.ID)
	for again := false; ; again = true {
		if err := x.expect(expected); err != nil {
			return nil, err
		}
		if err := place.Grow(x.r.Context(), 1); err != nil {
			return nil, err
		}
		out := f()
		size := int64(cap(out.b))
		if size < largeReply {
			size = 0
		}
		x.s.sizes.note(x.principal.ID, size)
		more := size - x.reply.Bytes()
		x.reply.Shrink(-more)
		if x.reply.TryGrow(more) {
			return out, nil
		}
		out.free()
		if again { // it is more than the owner may hold, or others were faster
			return nil, x.reply.Grow(x.r.Context(), more)
		}
		place.Release()
		expected = size
	}
}

// hold holds the memory for the encoding of a result that has been read.
func (x *exchange) hold(result any) error {
	size := int64(sizeHint(result))
	if size < largeReply {
		return nil
	}
	x.s.sizes.note(x.principal.ID, size)
	return x.reply.Grow(x.r.Context(), size-x.reply.Bytes())
}

// holdContent holds the memory for content that is about to be read and then encoded, instead of what was
// held for the response before.
func (x *exchange) holdContent(ctx context.Context, bytes int64) error {
	x.reply.Release()
	if bytes < largeReply {
		return nil
	}
	return x.reply.Grow(ctx, 2*bytes)
}

// sizeHint is about how large a result is once it is encoded, data parts not counted.
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

// appendSized appends a result to a buffer that is made large enough at once.
func (x *exchange) appendSized(dst []byte, id rpc.ID, result any) []byte {
	if n := sizeHint(result); n > cap(dst)-len(dst) {
		dst = slices.Grow(dst, n+n/32+4<<10)
	}
	return x.appendAnswer(dst, id, result, nil)
}

// newPlaces returns the places for results of unknown size, and those for streams.
func newPlaces(cfg Config) (reads, streams *memory.Budget) {
	n := int64(cfg.MaxStreams)
	if len(cfg.Tokens) == 0 {
		n *= 2 // there is one owner, who may have half
	}
	return memory.New(readsAtOnce), memory.New(n)
}
