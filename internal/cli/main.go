package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
)

// Program is what the process gives a command.
type Program struct {
	// Args begin with the program's name.
	Args           []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Environ has entries of the form "KEY=value".
	Environ []string
	// Signals tell the command to stop: the first in good order, the second at
	// once. What [os.Interrupt] means while a chat runs is up to that, and SIGHUP has a
	// server read its tokens and certificate again. It may be nil.
	Signals <-chan os.Signal
}

// errInterrupted is the cause with which the context of a command ends at the
// first signal.
var errInterrupted = errors.New("interrupted")

// Main runs the command and returns the exit code. When it returns because of a
// second signal, the command may still be running: the process must end.
func Main(ctx context.Context, p Program) int {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan int, 1)
	a := newApp(p)
	go func() { done <- a.main(ctx) }()
	for signals := 0; ; {
		select {
		case code := <-done:
			return code
		case sig := <-p.Signals:
			if sig == os.Interrupt && a.interrupts.pass() {
				continue
			}
			if sig == syscall.SIGHUP && a.reloads.Load() {
				select {
				case a.hangups <- struct{}{}:
				default: // one that waits already is enough
				}
				continue
			}
			if signals++; signals > 1 {
				return exitInterrupted
			}
			cancel(errInterrupted)
		}
	}
}

// interrupts is where interrupts go that a command has a use for.
type interrupts struct {
	mu sync.Mutex
	to chan struct{}
}

// take has interrupts come over the channel until release is called.
func (i *interrupts) take() (come <-chan struct{}, release func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	to := make(chan struct{}, 1)
	i.to = to
	return to, func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.to = nil
	}
}

// pass hands an interrupt to the command. It reports whether that takes it: one
// that still has another before it is not heeded, and must end.
func (i *interrupts) pass() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	select {
	case i.to <- struct{}{}:
		return true
	default:
		return false
	}
}
