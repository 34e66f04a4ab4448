package grpc

import (
	"sync/atomic"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"github.com/holdfast-dev/holdfast/server/internal/exchange"
)

// rawCodec passes encoded messages through: *incoming and *outgoing. Other types are messages of the
// health and reflection services.
type rawCodec struct{}

// Name implements [encoding.CodecV2].
func (rawCodec) Name() string { return proto.Name }

// Marshal implements [encoding.CodecV2].
func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	if out, ok := v.(*outgoing); ok {
		out.pending.Add(int64(len(out.buffer.B)))
		return mem.BufferSlice{mem.NewBuffer(&out.buffer.B, out)}, nil
	}
	return encoding.GetCodecV2(proto.Name).Marshal(v)
}

// Unmarshal implements [encoding.CodecV2].
func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	if in, ok := v.(*incoming); ok {
		in.data = data.MaterializeToBuffer(mem.DefaultBufferPool())
		return nil
	}
	return encoding.GetCodecV2(proto.Name).Unmarshal(data, v)
}

// incoming is a received message.
type incoming struct{ data mem.Buffer }

// outgoing is a message to send. It is also the pool to which package grpc returns the buffer of
// the message after sending it.
type outgoing struct {
	buffer  *exchange.Buffer
	pending *atomic.Int64 // bytes of the call that are not yet sent
	sent    chan<- struct{}
}

// Get implements [mem.BufferPool]. It is not called.
func (*outgoing) Get(length int) *[]byte {
	b := make([]byte, length)
	return &b
}

// Put implements [mem.BufferPool].
func (o *outgoing) Put(b *[]byte) {
	o.pending.Add(-int64(len(*b)))
	o.buffer.Free()
	select {
	case o.sent <- struct{}{}:
	default: // the sender has not noticed the previous one yet
	}
}
