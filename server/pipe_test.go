package server_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
)

// pipeListener is an in-memory network for synctest bubbles.
type pipeListener struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe:1" }

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.done:
		return nil, io.ErrClosedPipe
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// servePipe serves e in a bubble. The returned function stops the server and its engine. It
// must be called before the bubble ends.
func (e *env) servePipe(t *testing.T) (l *pipeListener, stop func()) {
	l = newPipeListener()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.server.Serve(ctx, l) }()
	transport := &http.Transport{DialContext: l.dial}
	e.url, e.client = "http://pipe", &http.Client{Transport: transport}
	return l, func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve() = %v, want nil", err)
		}
		transport.CloseIdleConnections()
		_ = e.engine.Stop(context.Background())
	}
}
