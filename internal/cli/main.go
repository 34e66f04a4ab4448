package cli

import (
	"context"
	"errors"
	"io"
	"os"
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
	// once. It may be nil.
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
	go func() { done <- newApp(p).main(ctx) }()
	for signals := 0; ; {
		select {
		case code := <-done:
			return code
		case <-p.Signals:
			if signals++; signals > 1 {
				return exitInterrupted
			}
			cancel(errInterrupted)
		}
	}
}
