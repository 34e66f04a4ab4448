package sqlite

import (
	"context"
	"log/slog"
	"sync"

	"github.com/holdfast-dev/holdfast/store"
)

// database runs reads on a pool of connections.
type database struct {
	cfg     Config
	path    string
	log     *slog.Logger
	readers chan *reader
	reads   readGate
	lists   chan struct{} // one token per list being read

	// gate is read-locked by each call, so that Close waits for them.
	gate   sync.RWMutex
	closed bool
}

// enter starts a call. Unless it fails, the caller must call leave.
func (s *database) enter(ctx context.Context) error {
	s.gate.RLock()
	err := ctx.Err()
	if s.closed {
		err = store.ErrClosed
	}
	if err != nil {
		s.gate.RUnlock()
	}
	return err
}

func (s *database) leave() { s.gate.RUnlock() }

// read runs f with a connection of the pool.
func (s *database) read(ctx context.Context, f func(r *reader) error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	return s.withReader(ctx, f)
}

// withReader is read for callers that have called enter.
func (s *database) withReader(ctx context.Context, f func(r *reader) error) error {
	var r *reader
	select {
	case r = <-s.readers:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { s.readers <- r }()
	if err := s.reads.enter(ctx); err != nil {
		return err
	}
	defer s.reads.leave()
	return wrapError(f(r), "read")
}

// readList is read for lists, which may be slow: they use only part of the connections.
func (s *database) readList(ctx context.Context, f func(r *reader) error) error {
	select {
	case s.lists <- struct{}{}:
		defer func() { <-s.lists }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.read(ctx, f)
}
