package loadgen

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"

	"golang.org/x/net/http2/hpack"
)

// grpcConn is an HTTP/2 connection for the calls of several workers. Requests that wait for a write
// in progress are written together, as HTTP/2 clients do.
type grpcConn struct {
	nc     net.Conn
	fields []hpack.HeaderField
	ended  chan struct{} // closed when its goroutine has ended

	mu       sync.Mutex
	sendable sync.Cond // window is larger, or err is set
	err      error     // why the connection is closed; nil while it is usable
	out      []byte    // frames to write
	spare    []byte    // a buffer for out
	writing  bool
	next     uint32 // id of the next stream
	window   int64  // bytes of messages that may be sent
	results  map[uint32]*grpcResult
	block    bytes.Buffer
	encoder  *hpack.Encoder

	// These are used by its goroutine only.
	br       *bufio.Reader
	decoder  *hpack.Decoder
	into     *grpcResult // of the header fields that decoder reads
	received int64       // since the last window update
}

func newGRPCConn(nc net.Conn, fields []hpack.HeaderField) *grpcConn {
	c := &grpcConn{
		nc: nc, fields: fields, ended: make(chan struct{}), next: 1, window: firstWindow, results: map[uint32]*grpcResult{},
		br: bufio.NewReaderSize(nc, 4*maxFrame),
	}
	c.sendable.L = &c.mu
	c.encoder = hpack.NewEncoder(&c.block)
	c.decoder = hpack.NewDecoder(4096, c.field)
	c.out = append(c.out, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"...)
	c.out = appendFrame(c.out, typeSettings, 0, 0, 6)
	c.out = binary.BigEndian.AppendUint16(c.out, settingInitialWindow)
	c.out = binary.BigEndian.AppendUint32(c.out, receiveWindow)
	c.out = appendWindowUpdate(c.out, receiveWindow)
	go c.receive()
	return c
}

func appendFrame(dst []byte, kind, flags byte, stream uint32, length int) []byte {
	return binary.BigEndian.AppendUint32(append(dst, byte(length>>16), byte(length>>8), byte(length), kind, flags), stream)
}

func appendWindowUpdate(dst []byte, n uint32) []byte {
	return binary.BigEndian.AppendUint32(appendFrame(dst, typeWindowUpdate, 0, 0, 4), n)
}

func (c *grpcConn) failed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err != nil
}

// fail closes the connection. Its goroutine then ends all calls with the error.
func (c *grpcConn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
		_ = c.nc.Close() // its error does not matter
		c.sendable.Broadcast()
	}
}

// start sends a request. Unless it returns an error, r.done receives a value when the call has ended.
// It returns the number of bytes.
func (c *grpcConn) start(r *grpcResult, path string, message []byte) (n int, err error) {
	length := grpcPrefix + len(message)
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.err == nil && c.window < int64(length) {
		c.sendable.Wait()
	}
	if c.err != nil {
		return 0, c.err
	}
	c.window -= int64(length)
	stream := c.next
	c.next += 2
	c.results[stream] = r
	c.block.Reset()
	// Names that start with a colon must be first.
	_ = c.encoder.WriteField(hpack.HeaderField{Name: ":path", Value: path}) // into memory
	for _, f := range c.fields {
		_ = c.encoder.WriteField(f)
	}
	from := len(c.out)
	c.out = appendFrame(c.out, typeHeaders, flagEndHeaders, stream, c.block.Len())
	c.out = append(c.out, c.block.Bytes()...)
	c.out = appendFrame(c.out, typeData, flagEndStream, stream, length)
	c.out = binary.BigEndian.AppendUint32(append(c.out, 0), uint32(len(message)))
	c.out = append(c.out, message...)
	n = len(c.out) - from
	c.flush()
	return n, nil
}

// flush writes c.out, unless another goroutine does. The caller holds c.mu, which it releases while
// it writes.
func (c *grpcConn) flush() {
	if c.writing {
		return
	}
	c.writing = true
	c.mu.Unlock()
	runtime.Gosched() // requests of other workers that are ready are part of the same write
	c.mu.Lock()
	for len(c.out) > 0 && c.err == nil {
		out := c.out
		c.out = c.spare[:0]
		c.mu.Unlock()
		_, err := c.nc.Write(out)
		if err != nil {
			c.fail(err)
		}
		c.mu.Lock()
		c.spare = out
	}
	c.writing = false
}

// receive reads frames until the connection fails, and then ends all calls.
func (c *grpcConn) receive() {
	defer close(c.ended)
	err := c.frame()
	for err == nil {
		err = c.frame()
	}
	c.fail(err)
	c.mu.Lock()
	defer c.mu.Unlock()
	for stream, r := range c.results {
		r.err = c.err
		delete(c.results, stream)
		r.done <- struct{}{}
	}
}

// frame reads one frame.
func (c *grpcConn) frame() error {
	head, err := c.br.Peek(frameHead)
	if err != nil {
		return err
	}
	length := int(head[0])<<16 | int(head[1])<<8 | int(head[2])
	kind, flags, stream := head[3], head[4], binary.BigEndian.Uint32(head[5:])&(1<<31-1)
	if length > maxFrame {
		return fmt.Errorf("answer has a frame of %d bytes", length)
	}
	text, err := c.br.Peek(frameHead + length)
	if err != nil {
		return unexpected(err)
	}
	if err := c.handle(kind, flags, stream, text[frameHead:]); err != nil {
		return err
	}
	_, _ = c.br.Discard(frameHead + length) // cannot fail: all of it is buffered
	return nil
}

var errMalformedFrame = errors.New("answer has a malformed frame")

func (c *grpcConn) handle(kind, flags byte, stream uint32, text []byte) error {
	switch kind {
	case typeData, typeHeaders:
		return c.handleResponse(kind, flags, stream, text)
	case typeReset:
		if len(text) != 4 {
			return errMalformedFrame
		}
		if r := c.result(stream); r != nil {
			r.err = fmt.Errorf("stream was reset with code %d", binary.BigEndian.Uint32(text))
			c.end(stream, r)
		}
	case typeSettings:
		return c.handleSettings(flags, text)
	case typePing:
		if flags&flagACK == 0 {
			c.send(typePing, flagACK, text)
		}
	case typeGoAway:
		return errors.New("server closes the connection")
	case typeWindowUpdate:
		if len(text) != 4 {
			return errMalformedFrame
		}
		if stream == 0 { // a stream needs none, because its message fits into the first window
			c.mu.Lock()
			c.window += int64(binary.BigEndian.Uint32(text) & (1<<31 - 1))
			c.sendable.Broadcast()
			c.mu.Unlock()
		}
	}
	return nil
}

func (c *grpcConn) handleSettings(flags byte, text []byte) error {
	if flags&flagACK != 0 {
		return nil
	}
	for ; len(text) >= 6; text = text[6:] {
		if binary.BigEndian.Uint16(text) == settingHeaderTableSize {
			c.mu.Lock()
			c.encoder.SetMaxDynamicTableSizeLimit(binary.BigEndian.Uint32(text[2:]))
			c.mu.Unlock()
		}
	}
	c.send(typeSettings, flagACK, nil)
	return nil
}

// send sends a frame of the connection.
func (c *grpcConn) send(kind, flags byte, text []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = append(appendFrame(c.out, kind, flags, 0, len(text)), text...)
	c.flush()
}

// handleResponse handles a frame with a part of a message, or with header fields.
func (c *grpcConn) handleResponse(kind, flags byte, stream uint32, text []byte) error {
	if kind == typeData {
		if c.received += int64(len(text)); c.received > receiveWindow/2 {
			c.send(typeWindowUpdate, 0, binary.BigEndian.AppendUint32(nil, uint32(c.received)))
			c.received = 0
		}
	}
	size := int64(frameHead + len(text))
	if flags&flagPadded != 0 {
		if len(text) == 0 || int(text[0]) >= len(text) {
			return errMalformedFrame
		}
		text = text[1 : len(text)-int(text[0])]
	}
	r := c.result(stream)
	if kind == typeHeaders {
		if flags&flagPriority != 0 {
			if len(text) < 5 {
				return errMalformedFrame
			}
			text = text[5:]
		}
		if flags&flagEndHeaders == 0 {
			return errors.New("answer has too long a header")
		}
		c.into = r
		if _, err := c.decoder.Write(text); err != nil {
			return err
		}
		if err := c.decoder.Close(); err != nil {
			return err
		}
	}
	if r == nil {
		return nil
	}
	r.bytes += size
	if kind == typeData {
		if len(r.body)+len(text) > maxBody {
			return errTooLarge
		}
		r.body = append(r.body, text...)
	}
	if flags&flagEndStream != 0 {
		c.end(stream, r)
	}
	return nil
}

// field receives the header fields of a response.
func (c *grpcConn) field(f hpack.HeaderField) {
	if c.into == nil {
		return
	}
	switch f.Name {
	case ":status":
		c.into.http = f.Value
	case "grpc-status":
		c.into.status = f.Value
	case "grpc-message":
		c.into.message = f.Value
	}
}

func (c *grpcConn) result(stream uint32) *grpcResult {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.results[stream]
}

func (c *grpcConn) end(stream uint32, r *grpcResult) {
	c.mu.Lock()
	delete(c.results, stream)
	c.mu.Unlock()
	r.done <- struct{}{}
}
