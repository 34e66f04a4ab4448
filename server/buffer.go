package server

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
)

// maxPooledBuffer is the maximum capacity of buffers that are reused for other requests.
const maxPooledBuffer = 64 << 10

const (
	// discardTime is how long the rest of an oversized body is read, and discardIdle how long
	// the client may pause.
	discardTime, discardIdle = 30 * time.Second, 5 * time.Second
)

// buffer is a reusable buffer for a request body or a response.
type buffer struct{ b []byte }

var buffers = sync.Pool{New: func() any { return &buffer{b: make([]byte, 0, 4<<10)} }}

func newBuffer() *buffer { return buffers.Get().(*buffer) }

// free makes the buffer available to other requests. The caller must not use it anymore.
func (b *buffer) free() {
	if cap(b.b) > maxPooledBuffer {
		return
	}
	b.b = b.b[:0]
	buffers.Put(b)
}

// readBody reads a body of at most MaxBodyBytes bytes. It allocates memory for data that has
// arrived, not for the announced length.
func (x *exchange) readBody() (*buffer, error) {
	limit := x.s.cfg.MaxBodyBytes
	if x.r.ContentLength > limit {
		return nil, bodyTooLarge(limit)
	}
	b := newBuffer()
	body := http.MaxBytesReader(x.w, x.r.Body, limit)
	for {
		if len(b.b) == cap(b.b) {
			if err := x.grow(b); err != nil {
				b.free()
				return nil, err
			}
		}
		n, err := body.Read(b.b[len(b.b):cap(b.b)])
		b.b = b.b[:len(b.b)+n]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			b.free()
			var over *http.MaxBytesError
			if errors.As(err, &over) {
				return nil, bodyTooLarge(limit)
			}
			x.s.log.Debug("could not read request body", "request", x.id, "error", err)
			return nil, bodyError(err)
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

// discard reads the rest of a body after its rejection was sent. Closing a connection with
// unread data resets it, and a client that sends its whole request before it reads would not
// receive the response. It ends with the body, after discardTime, or when nothing arrives
// for discardIdle.
func (x *exchange) discard() {
	if x.r.Header.Get("Expect") != "" {
		return // the client waits for a 100 Continue that it does not get
	}
	c := http.NewResponseController(x.w)
	if c.Flush() != nil {
		return
	}
	buf := make([]byte, 32<<10)
	for end := time.Now().Add(discardTime); time.Now().Before(end); {
		if c.SetReadDeadline(time.Now().Add(discardIdle)) != nil {
			return
		}
		if _, err := x.r.Body.Read(buf); err != nil {
			return
		}
	}
}

// grow increases the capacity of a body's buffer: it doubles it, up to the announced length.
// It reserves the memory, which is released when the request's content is stored.
func (x *exchange) grow(b *buffer) error {
	more := int64(cap(b.b))
	if length := x.r.ContentLength + 1; length > more { // one more byte to detect the end of the body
		more = min(more, length-more)
	}
	if err := x.requestMemory.Grow(x.r.Context(), more); err != nil {
		x.w.Header().Set("Retry-After", "1")
		return err
	}
	larger := make([]byte, len(b.b), int64(cap(b.b))+more) // append would allocate more
	copy(larger, b.b)
	b.b = larger
	return nil
}

func bodyTooLarge(limit int64) error {
	return a2a.Errorf(a2a.CodeTooLarge, "request body exceeds the limit of %d bytes (--max-body)", limit)
}
