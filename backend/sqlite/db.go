package sqlite

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store"
)

// database runs reads on a pool of connections.
type database struct {
	cfg     Config
	path    string
	log     *slog.Logger
	readers readerPool
	reads   readGate
	lists   chan struct{} // one token per list being read
	caches  sqlkit.Caches

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
	r, err := s.readers.get(ctx)
	if err != nil {
		return err
	}
	defer s.readers.put(r)
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

// readerPool has the reading connections that are not in use. A call gets the connection that was used
// last, so that few concurrent calls fill the page caches of few connections.
type readerPool struct {
	idle chan struct{} // one token per idle connection

	mu  sync.Mutex
	all []*reader
}

func (p *readerPool) get(ctx context.Context) (*reader, error) {
	select {
	case <-p.idle:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.all) - 1
	r := p.all[last]
	p.all = p.all[:last]
	return r, nil
}

func (p *readerPool) put(r *reader) {
	p.mu.Lock()
	p.all = append(p.all, r)
	p.mu.Unlock()
	p.idle <- struct{}{}
}

// close closes the idle connections.
func (p *readerPool) close() error {
	var errs []error
	for _, r := range p.all {
		errs = append(errs, r.close())
	}
	p.all = nil
	return errors.Join(errs...)
}
