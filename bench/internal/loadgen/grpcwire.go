package loadgen

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2/hpack"
)

// callsPerConn is the number of workers that share a connection of gRPC.
const callsPerConn = 16

// The methods of gRPC. A request is the path of its method, a zero byte, and the message.
const (
	sendPath = "/lf.a2a.v1.A2AService/SendMessage"
	getPath  = "/lf.a2a.v1.A2AService/GetTask"
)

// grpcWire makes one call of gRPC at a time over a connection that it shares with other workers. One
// goroutine calls its methods; only interrupt may be called by others.
type grpcWire struct {
	shared *sharedConn
	result grpcResult
	timer  *time.Timer

	counts
}

// grpcResult receives the response to a call.
type grpcResult struct {
	done    chan struct{} // receives one value when the call has ended
	body    []byte        // with the prefix of gRPC
	bytes   int64         // of all frames
	http    string
	status  string
	message string
	err     error
}

func newGRPCWire(shared *sharedConn) *grpcWire {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return &grpcWire{shared: shared, result: grpcResult{done: make(chan struct{}, 1)}, timer: timer}
}

func (w *grpcWire) counted() *counts { return &w.counts }

func (w *grpcWire) ready(ctx context.Context) error {
	_, err := w.shared.get(ctx)
	return err
}

func (w *grpcWire) connected() bool { return w.shared.connected() }

func (w *grpcWire) close() { w.shared.close(errors.New("closed")) }

func (w *grpcWire) interrupt() { w.shared.interrupt(errors.New("interrupted")) }

// call makes a call and passes the message of the response to sink. The status is 200. A status of
// gRPC other than OK is an error.
func (w *grpcWire) call(ctx context.Context, request []byte, sink func([]byte) error) (status int, err error) {
	w.calls++
	c, err := w.shared.get(ctx)
	if err != nil {
		return 0, plain(err)
	}
	r := &w.result
	*r = grpcResult{done: r.done, body: r.body[:0]}
	path, message, _ := bytes.Cut(request, []byte{0})
	n, err := c.start(r, methodPath(path), message)
	if err != nil {
		return 0, plain(err)
	}
	w.out += int64(n)
	w.timer.Reset(w.shared.timeout)
	select {
	case <-r.done:
		w.timer.Stop()
	case <-w.timer.C:
		c.fail(errors.New("timeout"))
		<-r.done
	}
	w.in += r.bytes
	switch {
	case r.err != nil:
		return 0, plain(r.err)
	case r.http != "200":
		return 0, fmt.Errorf("HTTP status %s", clip([]byte(r.http)))
	case r.status != "0":
		return 0, fmt.Errorf("gRPC status %s: %s", clip([]byte(r.status)), clip([]byte(r.message)))
	case len(r.body) < grpcPrefix || r.body[0] != 0 || int(binary.BigEndian.Uint32(r.body[1:])) != len(r.body)-grpcPrefix:
		return 0, errors.New("answer is not one message without compression")
	}
	return http.StatusOK, sink(r.body[grpcPrefix:])
}

// methodPath returns a path as a string without an allocation.
func methodPath(path []byte) string {
	if string(path) == sendPath {
		return sendPath
	}
	return getPath
}

// sharedConn is a connection that is made again after it has failed.
type sharedConn struct {
	url     *url.URL
	timeout time.Duration
	fields  []hpack.HeaderField // of every call, except for the path

	mu   sync.Mutex
	conn *grpcConn // nil before the first
}

func newSharedConn(cfg Config, u *url.URL) *sharedConn {
	s := &sharedConn{url: u, timeout: cfg.Timeout}
	add := func(name, value string) { s.fields = append(s.fields, hpack.HeaderField{Name: name, Value: value}) }
	add(":method", http.MethodPost)
	add(":scheme", u.Scheme)
	add(":authority", u.Host)
	add("content-type", "application/grpc")
	add("te", "trailers")
	add("a2a-version", "1.0")
	if cfg.Token != "" {
		add("authorization", "Bearer "+cfg.Token)
	}
	for name, values := range cfg.Header {
		for _, value := range values {
			add(strings.ToLower(name), value)
		}
	}
	return s
}

// get returns the connection, which it makes if there is none.
func (s *sharedConn) get(ctx context.Context) (*grpcConn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil && !s.conn.failed() {
		return s.conn, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	nc, err := dialURL(ctx, s.url, "h2")
	if err != nil {
		return nil, err
	}
	s.conn = newGRPCConn(nc, s.fields)
	return s.conn, nil
}

func (s *sharedConn) connected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn != nil && !s.conn.failed()
}

// interrupt makes the calls in progress fail.
func (s *sharedConn) interrupt(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		s.conn.fail(err)
	}
}

// close closes the connection and waits for its goroutine.
func (s *sharedConn) close(err error) {
	s.interrupt(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		<-s.conn.ended
	}
}

// Frames of HTTP/2 (RFC 9113).
const (
	frameHead     = 9
	grpcPrefix    = 5
	maxFrame      = 16 << 10 // the default of SETTINGS_MAX_FRAME_SIZE, which no settings change
	firstWindow   = 65535
	receiveWindow = 1 << 30

	typeData         = 0
	typeHeaders      = 1
	typeReset        = 3
	typeSettings     = 4
	typePing         = 6
	typeGoAway       = 7
	typeWindowUpdate = 8

	flagEndStream  = 1
	flagACK        = 1
	flagEndHeaders = 4
	flagPadded     = 8
	flagPriority   = 32

	settingHeaderTableSize = 1
	settingInitialWindow   = 4
)
