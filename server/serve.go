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
	// headerTimeout is the maximum time to receive the headers of a request.
	headerTimeout = 10 * time.Second
	maxHeader     = 64 << 10
	// responseGrace is how long responses may take after StopGrace has ended.
	responseGrace = time.Second
)

// Serve serves the connections of a listener until ctx is done. Then it shuts down: the
// server reports that it is not ready, streams end so that clients resume elsewhere, and
// requests in progress get StopGrace to finish. Serve closes the listener and returns nil
// after a shutdown by ctx. It may be called once.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	base := context.WithoutCancel(ctx)
	hs := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       s.cfg.Requests.ReadTimeout,
		// Requests that wait and streams set their own deadlines.
		WriteTimeout:   s.cfg.Requests.ReadTimeout + s.cfg.Requests.WriteTimeout,
		IdleTimeout:    s.cfg.Requests.IdleTimeout,
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
	grace, cancel := context.WithTimeout(base, s.cfg.StopGrace+responseGrace)
	defer cancel()
	err := hs.Shutdown(grace)
	if errors.Is(err, context.DeadlineExceeded) {
		s.log.Warn("closed connections with unfinished requests")
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

// Drain starts the shutdown: the server reports that it is not ready, its streams end, it accepts
// no new streams, and blocking requests return when StopGrace has ended. Serve calls it. A program
// that mounts the server in its own http.Server calls Drain before it shuts down the http.Server.
// Drain is idempotent.
func (s *Server) Drain() {
	if s.stopping.Err() != nil {
		return
	}
	s.stop()
	time.AfterFunc(s.cfg.StopGrace, s.endGrace)
}
