package grpc

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/memory"
	"github.com/holdfast-dev/holdfast/rpc"
	"github.com/holdfast-dev/holdfast/server/grpc/internal/codec"
	"github.com/holdfast-dev/holdfast/server/internal/exchange"
)

const (
	// maxReceives is the number of messages that are received at once. Their sizes are unknown
	// until they have arrived. One owner may use half of them.
	maxReceives = 512
	// smallMessage is the maximum size of a message that needs no memory of the budget.
	smallMessage = 4 << 10
	// maxPending is the maximum amount of data that a call has passed to package grpc and that is
	// not sent yet.
	maxPending = 64 << 10
)

// service serves the calls of one protocol version.
type service struct {
	*exchange.Transport
	codec    codec.Codec
	receives *memory.Budget // one unit is the receipt of one message
}

// call is one call. Its responses have the format of the codec, see [exchange.Format].
type call struct {
	rpc.Call
	s      *service
	x      *exchange.Exchange
	stream grpc.ServerStream
	header header

	pending atomic.Int64 // bytes that are not yet sent
	sent    chan struct{}
	err     error // of the response
}

// serve executes a call and returns its status.
func (s *service) serve(method string, stream grpc.ServerStream) (err error) {
	c := &call{s: s, stream: stream, header: make(header, 2), sent: make(chan struct{}, 1)}
	c.x = s.NewExchange(c.header, request(stream.Context(), method, s.Anonymous))
	c.Call = s.Table.Call(c.x.Version())
	start := time.Now()
	c.x.Status = http.StatusOK
	defer func() {
		if p := recover(); p != nil {
			c.x.LogPanic(p)
			err = c.status(exchange.ErrPanicked)
		}
		s.End(c.x, start)
	}()
	c.x.Call = &c.Call
	if err := s.Authenticate(c.x); err != nil {
		return c.status(err)
	}
	if err := c.prepare(method); err != nil {
		return c.status(err)
	}
	defer c.x.Body.Release()
	c.header.send(stream)
	reply := s.Replies.New(c.x, &c.Call, c)
	defer reply.Release()
	if c.Method.Streaming {
		w := &streamWriter{call: c, reply: reply}
		s.Streams.Run(stream.Context(), reply, w)
		return w.status()
	}
	out, err := reply.Run(stream.Context())
	if err == nil {
		err = c.send(out)
	}
	if err != nil {
		return c.status(err)
	}
	return nil
}

// prepare finds the method, receives the message and decodes it.
func (c *call) prepare(method string) error {
	if err := c.s.Table.Select(&c.Call, method); err != nil {
		return err
	}
	in, err := c.receive()
	if err != nil {
		return err
	}
	defer in.data.Free()
	c.OnStored = c.x.Body.Release
	message := in.data.ReadOnlyData()
	if err := c.x.VerifyBody(message); err != nil {
		return err
	}
	return c.x.Prepare(&c.Call, method, message)
}

// receive receives the message of the call. The connection is closed if it takes longer than
// ReadTimeout.
func (c *call) receive() (*incoming, error) {
	ctx := c.stream.Context()
	slot := c.s.receives.Hold(c.x.Principal.ID)
	defer slot.Release()
	if err := slot.Grow(ctx, 1); err != nil {
		return nil, err
	}
	timeout := time.AfterFunc(c.s.ReadTimeout, func() { closeConnection(ctx) })
	defer timeout.Stop()
	in := new(incoming)
	if err := c.stream.RecvMsg(in); err != nil {
		return nil, err
	}
	c.x.Body = c.s.Bodies.Memory.Hold(c.x.Principal.ID)
	if size := int64(in.data.Len()); size > smallMessage {
		if err := c.x.Body.Grow(ctx, size); err != nil {
			in.data.Free()
			return nil, err
		}
	}
	return in, nil
}

// send sends a message. It waits while more than maxPending bytes are not sent; the message itself
// need not have arrived when send returns.
func (c *call) send(out *exchange.Buffer) error {
	if err := c.stream.SendMsg(&outgoing{buffer: out, pending: &c.pending, sent: c.sent}); err != nil {
		return err
	}
	if c.pending.Load() <= maxPending {
		return nil
	}
	timeout := time.NewTimer(c.x.WriteTimeout)
	defer timeout.Stop()
	for c.pending.Load() > maxPending {
		select {
		case <-c.sent:
		case <-c.stream.Context().Done():
			return context.Cause(c.stream.Context())
		case <-timeout.C:
			return a2a.Errorf(a2a.CodeUnavailable, "the client did not read the response within %s", c.x.WriteTimeout)
		}
	}
	return nil
}

// status returns the status of a failed call.
func (c *call) status(err error) error {
	var a *a2a.Error
	if s, ok := status.FromError(err); ok && !errors.As(err, &a) {
		return s.Err() // of package grpc
	}
	public := c.x.PublicError(err)
	c.x.Status = public.Code.HTTPStatus() // for the access log
	if public.Code.Retryable() {
		c.header["Retry-After"] = []string{"1"}
	}
	c.header.send(c.stream)
	var out spb.Status
	if err := proto.Unmarshal(c.s.codec.AppendError(nil, public, c.x.ID, c.Version), &out); err != nil {
		return err
	}
	return status.ErrorProto(&out)
}

// AppendResult appends a result to dst.
func (c *call) AppendResult(dst []byte, result any) ([]byte, error) {
	return c.Codec.AppendResult(dst, c.Method, result)
}

// AppendEvent appends an item of a stream to dst.
func (c *call) AppendEvent(dst []byte, e a2a.Event) ([]byte, error) {
	return c.Codec.AppendEvent(dst, e)
}

// AppendError appends an error to dst.
func (c *call) AppendError(dst []byte, e *a2a.Error, requestID string) []byte {
	return c.Codec.AppendError(dst, e, requestID, c.Version)
}

// Fail sets the status of the call.
func (c *call) Fail(err error) { c.err = c.status(err) }
