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

// keepBuffer is the largest buffer that is kept for another request.
const keepBuffer = 64 << 10

const (
	// discardTime is how long the rest of a body that is too large is read, and discardIdle
	// how long the client may pause meanwhile.
	discardTime, discardIdle = 30 * time.Second, 5 * time.Second
)

// buffer is memory for one body or answer.
type buffer struct{ b []byte }

var buffers = sync.Pool{New: func() any { return &buffer{b: make([]byte, 0, 4<<10)} }}

func newBuffer() *buffer { return buffers.Get().(*buffer) }

// free gives the memory back. It must not be used any more.
func (b *buffer) free() {
	if cap(b.b) > keepBuffer {
		return
	}
	b.b = b.b[:0]
	buffers.Put(b)
}

// readBody reads a body of at most MaxBody bytes. What is announced is not
// believed before it has come.
func (x *exchange) readBody() (*buffer, error) {
	limit := x.s.cfg.MaxBody
	if x.r.ContentLength > limit {
		return nil, tooLarge(limit)
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
				return nil, tooLarge(limit)
			}
			x.s.log.Debug("request body not read", "request", x.id, "error", err)
			return nil, unread(err)
		}
	}
}

// unread says why a body could not be read. It is the client's doing, so it is no
// matter for the log.
func unread(err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return a2a.Errorf(a2a.CodeParse, "the request body did not come in time")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return a2a.Errorf(a2a.CodeParse, "the request body is shorter than was announced")
	default:
		return a2a.Errorf(a2a.CodeParse, "the request body could not be read")
	}
}

// discard reads the rest of a body after its refusal was sent, so that a client that sends its
// whole request before it reads the response receives it: closing a connection with unread data
// resets it. It ends with the body, after discardTime, or when nothing arrives for discardIdle.
func (x *exchange) discard() {
	if x.r.Header.Get("Expect") != "" {
		return // the client waits for permission to send, which the response denies
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

// grow doubles the capacity of a body's buffer, up to the announced length. The memory is held
// until the request's content is stored.
func (x *exchange) grow(b *buffer) error {
	more := int64(cap(b.b))
	if length := x.r.ContentLength + 1; length > more { // one byte more finds the end of the body
		more = min(more, length-more)
	}
	if err := x.held.Grow(x.r.Context(), more); err != nil {
		x.w.Header().Set("Retry-After", "1")
		return err
	}
	larger := make([]byte, len(b.b), int64(cap(b.b))+more) // append would allocate more
	copy(larger, b.b)
	b.b = larger
	return nil
}

func tooLarge(limit int64) error {
	return a2a.Errorf(a2a.CodeTooLarge, "request body exceeds the limit of %d bytes (--max-body)", limit)
}
