package runtime

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// ErrStarted is returned by Start of a component that has been started or stopped before.
var ErrStarted = errors.New("has been started or stopped before")

const (
	stateNew int32 = iota
	stateRunning
	stateStopped
)

// Lifecycle is the state of a component that is started and stopped once. The zero value has
// not been started. It is safe for concurrent use.
type Lifecycle struct {
	mu    sync.Mutex // held while state changes
	state atomic.Int32
	ended chan struct{} // closed when Stop has finished; nil if the component never ran
}

// Start calls start, which starts the component. If start fails, the component counts as
// stopped. Start returns the error of start, or ErrStarted.
func (l *Lifecycle) Start(start func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state.Load() != stateNew {
		return ErrStarted
	}
	if err := start(); err != nil {
		l.state.Store(stateStopped)
		return err
	}
	l.state.Store(stateRunning)
	return nil
}

// Stop calls stop if the component runs. Further calls wait for the first one until their own
// ctx is done.
func (l *Lifecycle) Stop(ctx context.Context, stop func()) {
	l.mu.Lock()
	running := l.state.Swap(stateStopped) == stateRunning
	if running {
		l.ended = make(chan struct{})
	}
	ended := l.ended
	l.mu.Unlock()
	switch {
	case running:
		defer close(ended)
		stop()
	case ended != nil:
		select {
		case <-ended:
		case <-ctx.Done():
		}
	}
}

// Running reports whether the component has been started and not stopped.
func (l *Lifecycle) Running() bool { return l.state.Load() == stateRunning }

// Stopped reports whether Stop has been called, or Start has failed.
func (l *Lifecycle) Stopped() bool { return l.state.Load() == stateStopped }
