package server

import (
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/holdfast-dev/holdfast/a2a"
)

// keepBuffer is the largest buffer that is kept for another request.
const keepBuffer = 64 << 10

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
			b.b = append(b.b, 0)[:len(b.b)]
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
			return nil, a2a.Wrap(a2a.CodeParse, err, "the request body could not be read")
		}
	}
}

func tooLarge(limit int64) error {
	return a2a.Errorf(a2a.CodeTooLarge, "the request body is larger than %d bytes", limit)
}
