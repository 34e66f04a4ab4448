package loadgen

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"sync"
	"syscall"
	"time"
)

const readBuffer = 16 << 10 // also the maximum length of a header line

// transport makes the calls of one worker.
type transport interface {
	// ready connects if necessary.
	ready(ctx context.Context) error
	// call sends one complete request and passes the body of the response, piece by piece, to sink,
	// which must not keep the pieces. It returns the HTTP status.
	call(ctx context.Context, request []byte, sink func(piece []byte) error) (status int, err error)
	connected() bool
	close()
	// interrupt makes a call in progress fail immediately. Any goroutine may call it after the
	// context of the calls has ended.
	interrupt()
	counted() *counts
}

// wire is a keep-alive HTTP/1.1 connection for one call at a time. It connects when necessary, and
// again if the server has closed the connection between two calls. One goroutine calls its methods;
// only interrupt may be called by others.
type wire struct {
	url     *url.URL
	timeout time.Duration
	clock   *clock

	br       *bufio.Reader
	deadline time.Duration // deadline of nc
	last     bool          // the server closes nc after this response

	counts

	mu sync.Mutex
	nc net.Conn // written by the owner under mu; nil if not connected
}

// counts counts calls, not requests.
type counts struct{ calls, reconnects, in, out int64 }

func (w *wire) counted() *counts { return &w.counts }

func (w *wire) connected() bool { return w.nc != nil }

// call makes a call. After an error the connection is closed.
func (w *wire) call(ctx context.Context, request []byte, sink func(piece []byte) error) (status int, err error) {
	w.calls++
	reused := w.nc != nil
	status, started, err := w.try(ctx, request, sink)
	if err != nil && reused && !started && closedByServer(err) && ctx.Err() == nil {
		w.reconnects++
		status, _, err = w.try(ctx, request, sink)
	}
	return status, plain(err)
}

// try makes a call. started reports whether any byte of a response was read.
func (w *wire) try(ctx context.Context, request []byte, sink func([]byte) error) (status int, started bool, err error) {
	defer func() {
		if err != nil || w.last {
			w.close()
		}
	}()
	if err := w.ready(ctx); err != nil {
		return 0, false, err
	}
	n, err := w.nc.Write(request)
	w.out += int64(n)
	if err != nil {
		return 0, false, err
	}
	if _, err := w.br.Peek(1); err != nil {
		return 0, false, err
	}
	status, err = w.read(sink)
	return status, true, err
}

// ready connects if necessary and sets the deadline. Setting a deadline is expensive, so it is done
// only if the current one is too early.
func (w *wire) ready(ctx context.Context) error {
	if w.nc == nil {
		if err := w.dial(ctx); err != nil {
			return err
		}
	}
	now := w.clock.now()
	if w.deadline-now >= w.timeout {
		return nil
	}
	slack := w.timeout / 10
	w.deadline = now + w.timeout + slack
	if err := w.nc.SetDeadline(time.Now().Add(w.timeout + slack)); err != nil {
		return err
	}
	// The new deadline may have replaced the deadline of an interrupt.
	return ctx.Err()
}

// dialURL connects to the host of u. protocol is negotiated if it is a TLS connection.
func dialURL(ctx context.Context, u *url.URL, protocol string) (net.Conn, error) {
	host, port := u.Hostname(), u.Port()
	secure := u.Scheme == "https"
	switch {
	case port != "":
	case secure:
		port = "443"
	default:
		port = "80"
	}
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil || !secure {
		return nc, err
	}
	tc := tls.Client(nc, &tls.Config{ServerName: host, NextProtos: []string{protocol}})
	if err := tc.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, nc.Close())
	}
	return tc, nil
}

func (w *wire) dial(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	nc, err := dialURL(ctx, w.url, "http/1.1")
	if err != nil {
		return err
	}
	if w.br == nil {
		w.br = bufio.NewReaderSize(nil, readBuffer)
	}
	w.br.Reset(nc)
	w.deadline, w.last = 0, false
	w.mu.Lock()
	w.nc = nc
	w.mu.Unlock()
	return nil
}

func (w *wire) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.nc != nil {
		_ = w.nc.Close() // its error does not matter
		w.nc = nil
	}
}

func (w *wire) interrupt() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.nc != nil {
		_ = w.nc.SetDeadline(time.Unix(1, 0)) // fails only if already closed
	}
}

// head has the parts of a response's header that the generator uses.
type head struct {
	status  int
	length  int64 // -1 if unknown
	chunked bool
}

func (w *wire) read(sink func([]byte) error) (status int, err error) {
	h, err := w.readHead()
	for err == nil && h.status/100 == 1 {
		h, err = w.readHead()
	}
	if err != nil {
		return 0, unexpected(err)
	}
	switch {
	case h.status == 204 || h.status == 304:
	case h.chunked:
		err = w.readChunks(sink)
	case h.length >= 0:
		err = w.readN(h.length, sink)
	default:
		w.last = true
		return h.status, w.readToEnd(sink)
	}
	return h.status, unexpected(err)
}

func (w *wire) readHead() (head, error) {
	h := head{length: -1}
	line, err := w.line()
	if err != nil {
		return h, err
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.")) || line[8] != ' ' {
		return h, errors.New("answer is not HTTP/1.x")
	}
	status, ok := decimal(line[9:12])
	if !ok || status < 100 {
		return h, errors.New("answer has no HTTP status")
	}
	h.status = int(status)
	w.last = line[7] == '0'
	const most = 200
	for range most {
		line, err := w.line()
		if err != nil || len(line) == 0 {
			return h, err
		}
		if err := w.readField(line, &h); err != nil {
			return h, err
		}
	}
	return h, errors.New("answer has too many header lines")
}

func (w *wire) readField(line []byte, h *head) error {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimSpace(value)
	switch {
	case bytes.EqualFold(name, []byte("content-length")):
		n, ok := decimal(value)
		if !ok {
			return errors.New("answer has a malformed content length")
		}
		h.length = n
	case bytes.EqualFold(name, []byte("transfer-encoding")):
		if !bytes.EqualFold(value, []byte("chunked")) {
			return errors.New("answer has an unknown transfer encoding")
		}
		h.chunked = true
	case bytes.EqualFold(name, []byte("connection")):
		if bytes.EqualFold(value, []byte("close")) {
			w.last = true
		} else if bytes.EqualFold(value, []byte("keep-alive")) {
			w.last = false
		}
	}
	return nil
}

func (w *wire) readChunks(sink func([]byte) error) error {
	for {
		line, err := w.line()
		if err != nil {
			return err
		}
		digits, _, _ := bytes.Cut(line, []byte(";"))
		size, ok := hexadecimal(bytes.TrimSpace(digits))
		if !ok {
			return errMalformedChunk
		}
		if size == 0 {
			break
		}
		if err := w.readN(size, sink); err != nil {
			return err
		}
		if line, err = w.line(); err != nil {
			return err
		}
		if len(line) != 0 {
			return errMalformedChunk
		}
	}
	for {
		if line, err := w.line(); err != nil || len(line) == 0 {
			return err
		}
	}
}

var errMalformedChunk = errors.New("answer has a malformed chunk")

// readN passes n bytes to sink as they arrive.
func (w *wire) readN(n int64, sink func([]byte) error) error {
	for n > 0 {
		piece, err := w.piece(n)
		if err != nil {
			return err
		}
		if err := sink(piece); err != nil {
			return err
		}
		n -= int64(len(piece))
	}
	return nil
}

func (w *wire) readToEnd(sink func([]byte) error) error {
	for {
		piece, err := w.piece(readBuffer)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := sink(piece); err != nil {
			return err
		}
	}
}

// piece waits for input and consumes up to n bytes of it. The result is valid until the next read.
func (w *wire) piece(n int64) ([]byte, error) {
	if _, err := w.br.Peek(1); err != nil {
		return nil, err
	}
	piece, _ := w.br.Peek(int(min(n, int64(w.br.Buffered()))))
	_, _ = w.br.Discard(len(piece)) // cannot fail: all of it is buffered
	w.in += int64(len(piece))
	return piece, nil
}

func (w *wire) line() ([]byte, error) {
	line, err := w.br.ReadSlice('\n')
	w.in += int64(len(line))
	if err != nil {
		return nil, err
	}
	line = line[:len(line)-1]
	return bytes.TrimSuffix(line, []byte("\r")), nil
}

func decimal(digits []byte) (int64, bool) {
	var n int64
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, len(digits) > 0 && len(digits) <= 18
}

func hexadecimal(digits []byte) (int64, bool) {
	var n int64
	for _, c := range digits {
		switch {
		case c >= '0' && c <= '9':
			n = n<<4 | int64(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			n = n<<4 | int64(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return n, len(digits) > 0 && len(digits) <= 15
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// closedByServer reports whether err means that the server had closed the connection, rather than
// that it did not respond.
func closedByServer(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// plain removes addresses and ports from a network error, so that the same failure on several
// connections has one text.
func plain(err error) error {
	var op *net.OpError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errors.New("timeout")
	case errors.Is(err, io.EOF):
		return errors.New("connection closed without an answer")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("connection closed within the answer")
	case errors.Is(err, bufio.ErrBufferFull):
		return errors.New("answer has too long a header line")
	case errors.As(err, &op) && op.Err != nil:
		return fmt.Errorf("%s: %w", op.Op, op.Err)
	}
	return err
}
