package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// Program is the process environment of a command.
type Program struct {
	// Args are the arguments, starting with the program's name.
	Args []string
	// Stdin may be nil.
	Stdin io.Reader
	// Stdout receives the result of a command, Stderr messages and errors.
	Stdout, Stderr io.Writer
	// Environ has entries of the form "KEY=value".
	Environ []string
	// Signals stop the command: the first signal gracefully, the second at once. A chat handles
	// [os.Interrupt] itself. SIGHUP makes a server reload its tokens and certificate. Signals may
	// be nil.
	Signals <-chan os.Signal
	// Parts are what the command has besides its own parts.
	Parts Parts
}

// Process runs the command of this process and returns its exit code. It handles signals, and on Linux it hides
// secrets of the arguments in the list of processes. Call it once, before anything else.
func Process(parts Parts) int {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		signal.Notify(signals, syscall.SIGHUP)
	}
	return Main(context.Background(), Program{
		Args: hideSecrets(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ(), Signals: signals, Parts: parts,
	})
}

// errInterrupted is the cause of cancellation after the first signal.
var errInterrupted = errors.New("interrupted")

// Main runs the command and returns the exit code. After a second signal it returns while the
// command may still be running; the caller must end the process.
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
			if sig == os.Interrupt && a.interrupts.deliver() {
				continue
			}
			if sig == syscall.SIGHUP && a.reloads.Load() {
				select {
				case a.hangups <- struct{}{}:
				default: // a reload is already pending
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

// interrupts delivers interrupts to a command that handles them itself.
type interrupts struct {
	mu sync.Mutex
	to chan struct{}
}

// subscribe returns a channel that receives interrupts until release is called.
func (i *interrupts) subscribe() (ch <-chan struct{}, release func()) {
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

// deliver sends an interrupt to the subscriber. It returns false if there is none, or if the
// subscriber has not received the previous interrupt; the command must then end.
func (i *interrupts) deliver() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	select {
	case i.to <- struct{}{}:
		return true
	default:
		return false
	}
}
