package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

const (
	// headerTimeout is how long a request's head may take to arrive.
	headerTimeout = 10 * time.Second
	maxHeader     = 64 << 10
	// lastAnswers is how long answers may take to be sent once StopGrace is over.
	lastAnswers = time.Second
)

// Serve answers the connections of a listener until ctx is done, then stops: the
// server is not ready any more, streams end, so that their readers go on
// elsewhere, and requests under way get StopGrace. Serve closes the listener and
// returns nil after a stop by ctx. It may be called once.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	base := context.WithoutCancel(ctx)
	hs := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       s.cfg.ReadTimeout,
		// Set anew by those who wait, and for each part of a stream.
		WriteTimeout:   s.cfg.ReadTimeout + s.cfg.WriteTimeout,
		IdleTimeout:    s.cfg.IdleTimeout,
		MaxHeaderBytes: maxHeader,
		BaseContext:    func(net.Listener) context.Context { return base },
		ErrorLog:       slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 1)
	go func() { failed <- hs.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	s.Drain()
	grace, cancel := context.WithTimeout(base, s.cfg.StopGrace+lastAnswers)
	defer cancel()
	err := hs.Shutdown(grace)
	if errors.Is(err, context.DeadlineExceeded) {
		s.log.Warn("stopped with requests that did not end")
		err = hs.Close()
	}
	if end := <-failed; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	if err != nil {
		return fmt.Errorf("stop %s: %w", listener.Addr(), err)
	}
	return nil
}

// Drain begins the server's end: it is not ready any more, its streams end, no
// more of them are begun, and blocking requests are answered at the latest when
// StopGrace is over. Serve does so by itself; whoever mounts the server elsewhere
// calls it before shutting that down. Draining twice is harmless.
func (s *Server) Drain() {
	if s.stopping.Err() != nil {
		return
	}
	s.stop()
	time.AfterFunc(s.cfg.StopGrace, s.halt)
}
