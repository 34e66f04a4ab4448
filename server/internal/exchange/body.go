package exchange

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/memory"
)

// maxPooledBuffer is the maximum capacity of buffers that are reused for other requests.
const maxPooledBuffer = 64 << 10

const (
	// discardTime is how long the rest of an oversized body is read, and discardIdle how long
	// the client may pause.
	discardTime, discardIdle = 30 * time.Second, 5 * time.Second
)

// Buffer is a reusable buffer for a request body or a response.
type Buffer struct{ B []byte }

var buffers = sync.Pool{New: func() any { return &Buffer{B: make([]byte, 0, 4<<10)} }}

// NewBuffer returns an empty buffer.
func NewBuffer() *Buffer { return buffers.Get().(*Buffer) }

// Free makes the buffer available to other requests. The caller must not use it anymore.
func (b *Buffer) Free() {
	if cap(b.B) > maxPooledBuffer {
		return
	}
	b.B = b.B[:0]
	buffers.Put(b)
}

// Bodies reads the bodies of requests.
type Bodies struct {
	// Max is the maximum size of a body in bytes.
	Max int64
	// Memory is the budget for bodies. It may be nil.
	Memory *memory.Budget
}

// Read reads a JSON body. It allocates memory for data that has arrived, not for the announced
// length, and reserves it in x.Body. The code of an error determines the HTTP status; after
// sending it, the transport calls [Exchange.Discard].
func (b *Bodies) Read(x *Exchange) (*Buffer, error) {
	h := x.Request.Header
	if err := checkContentType(h.Get("Content-Type")); err != nil {
		return nil, err
	}
	if coding := h.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return nil, a2a.Errorf(a2a.CodeContentType, "Content-Encoding is %s, want none", a2a.Quote(coding))
	}
	x.Body = b.Memory.Hold(x.Principal.ID)
	body := NewBuffer()
	if err := b.read(x, body); err != nil {
		body.Free()
		x.Body.Release()
		x.Header().Set("Connection", "close")
		return nil, err
	}
	return body, nil
}

// checkContentType rejects content types other than JSON. An absent header is accepted.
func checkContentType(header string) error {
	if header == "" || header == "application/json" {
		return nil
	}
	kind, _, err := mime.ParseMediaType(header)
	if err == nil && (kind == "application/json" || strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json")) {
		return nil
	}
	return a2a.Errorf(a2a.CodeContentType, "Content-Type is %s, want application/json", a2a.Quote(header))
}

func (b *Bodies) read(x *Exchange, body *Buffer) error {
	if x.Request.ContentLength > b.Max {
		return bodyTooLarge(b.Max)
	}
	in := http.MaxBytesReader(x.ResponseWriter, x.Request.Body, b.Max)
	for {
		if len(body.B) == cap(body.B) {
			if err := x.grow(body); err != nil {
				return err
			}
		}
		n, err := in.Read(body.B[len(body.B):cap(body.B)])
		body.B = body.B[:len(body.B)+n]
		if err == io.EOF {
			return nil
		}
		if err != nil {
			var over *http.MaxBytesError
			if errors.As(err, &over) {
				return bodyTooLarge(b.Max)
			}
			x.Log.Debug("could not read request body", "request", x.ID, "error", err)
			return bodyError(err)
		}
	}
}

// bodyError returns the error for a body that could not be read. It is not logged as an error,
// because the client caused it.
func bodyError(err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return a2a.Errorf(a2a.CodeParse, "timed out reading the request body")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return a2a.Errorf(a2a.CodeParse, "the request body is shorter than its Content-Length")
	default:
		return a2a.Errorf(a2a.CodeParse, "could not read the request body")
	}
}

// Discard reads the rest of a body after it was rejected with err as too large. Closing a
// connection with unread data resets it, and a client that sends its whole request before it
// reads would not receive the response. It ends with the body, after discardTime, or when
// nothing arrives for discardIdle.
func (x *Exchange) Discard(err error) {
	if a2a.CodeOf(err) != a2a.CodeTooLarge || x.Request.Header.Get("Expect") != "" {
		return // with Expect, the client waits for a 100 Continue that it does not get
	}
	c := http.NewResponseController(x.ResponseWriter)
	if c.Flush() != nil {
		return
	}
	buf := make([]byte, 32<<10)
	for end := time.Now().Add(discardTime); time.Now().Before(end); {
		if c.SetReadDeadline(time.Now().Add(discardIdle)) != nil {
			return
		}
		if _, err := x.Request.Body.Read(buf); err != nil {
			return
		}
	}
}

// grow increases the capacity of the buffer: it doubles it, up to the announced length. It
// reserves the memory, which is released when the request's content is stored.
func (x *Exchange) grow(b *Buffer) error {
	more := int64(cap(b.B))
	if length := x.Request.ContentLength + 1; length > more { // one more byte to detect the end of the body
		more = min(more, length-more)
	}
	if err := x.Body.Grow(x.Request.Context(), more); err != nil {
		x.Header().Set("Retry-After", "1")
		return err
	}
	larger := make([]byte, len(b.B), int64(cap(b.B))+more) // append would allocate more
	copy(larger, b.B)
	b.B = larger
	return nil
}

func bodyTooLarge(limit int64) error {
	return a2a.Errorf(a2a.CodeTooLarge, "request body exceeds the limit of %d bytes (--max-body)", limit)
}
