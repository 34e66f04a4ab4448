package engine

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/runtime"
	"github.com/holdfast-dev/holdfast/store/contract"
)

// A store that does not answer for a while fails no task. Calls of a handler on its turn wait until the
// store answers, as commits do. A call returns a storeError if it cannot be repeated, or if its context ends. If the
// handler returns that error, the task is requeued, and the attempt is not counted.

// storeCalls makes a run's calls of stores. It repeats them while a store is away. It has no state of its own.
type storeCalls struct {
	contracts *Contracts
	ctx       context.Context // of the run
	log       func() *slog.Logger
}

// waitOut repeats do while its error is temporary and the run has not ended. again prepares a repetition, and reports
// false if do cannot be repeated. If again is nil, do can always be repeated.
func (c *storeCalls) waitOut(ctx context.Context, call string, again func() bool, do func() error) error {
	for pause := minCommitRetry; ; pause = min(2*pause, maxCommitRetry) {
		err := do()
		if !c.temporary(err) || ctx.Err() != nil || c.ctx.Err() != nil {
			return err
		}
		if again != nil && !again() {
			c.log().Warn("call of a store failed and cannot be repeated", "call", call, "error", err)
			return err
		}
		c.log().Warn("call of a store failed, retrying", "call", call, "in", pause, "error", err)
		if runtime.Sleep(ctx, pause) != nil {
			return err
		}
	}
}

// waitOutRead is waitOut for a read of tasks, which needs memory: it returns errNoMemory if there is not enough,
// because another run may wait for memory that this run holds. It returns ctx's cause if ctx is done.
func (c *storeCalls) waitOutRead(ctx context.Context, call string, read func() error) error {
	err := c.waitOut(ctx, call, nil, func() error {
		err := read()
		if a2a.CodeOf(err) == a2a.CodeExhausted {
			return errNoMemory
		}
		return err
	})
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return c.hide(err)
}

// temporary reports whether a call of a store may succeed when it is repeated.
func (c *storeCalls) temporary(err error) bool {
	return err != nil && a2a.CodeOf(err).Retryable() && !refused(err) && c.lasting(err) == nil && !errors.Is(err, errNoMemory)
}

// refused reports whether a call failed before it changed anything, for a reason that the handler may know how to
// handle.
func refused(err error) bool {
	var unchanged contract.Unchanged
	return errors.As(err, &unchanged)
}

// storeError is the error that a handler gets when a store failed. Its text may reach the client, so it
// has no details.
type storeError struct {
	text string
	err  error
}

func (s *storeError) Error() string { return s.text }
func (s *storeError) Unwrap() error { return s.err }

// hide hides the details of store errors from handlers and clients.
func (c *storeCalls) hide(err error) error {
	for _, known := range []error{nil, ErrLeaseLost, ErrCanceled, ErrEnded, ErrStopping} {
		if errors.Is(err, known) {
			return err
		}
	}
	var coded *a2a.Error
	switch {
	case errors.As(err, &coded) && coded.Err != nil:
		return &storeError{coded.Message, err}
	case c.temporary(err), coded == nil && c.lasting(err) == nil:
		return &storeError{"the agent's store failed", err}
	}
	return err
}

// interrupted reports whether a handler returned the temporary error of a store.
func (c *storeCalls) interrupted(err error) bool {
	var failed *storeError
	return errors.As(err, &failed) && c.temporary(failed.err)
}

// clientText returns the text of an error for clients: without the causes of errors with a code.
func clientText(err error) string { return withoutCauses(err.Error(), err) }

// withoutCauses returns a text without the causes of the errors with a code in err's tree.
func withoutCauses(text string, err error) string {
	if coded, ok := err.(*a2a.Error); ok && coded.Err != nil { //nolint:errorlint // the tree is walked here
		return strings.ReplaceAll(text, coded.Error(), coded.Message)
	}
	switch e := err.(type) { //nolint:errorlint // as above
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			text = withoutCauses(text, inner)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			text = withoutCauses(text, inner)
		}
	}
	return text
}

// content is a reader of stored content that waits while the store does not answer.
type content struct {
	ctx   context.Context // of the call that opened it
	calls *storeCalls
	op    string
	open  func() (io.ReadCloser, error)
	in    io.ReadCloser
	read  int64 // bytes that the caller has received
}

// openContent opens content. open is called again after a failed read.
func (c *storeCalls) openContent(ctx context.Context, op string, open func() (io.ReadCloser, error)) (io.ReadCloser, error) {
	in := &content{ctx: ctx, calls: c, op: op, open: open}
	if err := c.waitOut(ctx, op, nil, in.reopen); err != nil {
		return nil, c.hide(err)
	}
	return in, nil
}

// reopen opens the content at the next byte.
func (c *content) reopen() error {
	in, err := c.open()
	if err != nil {
		return err
	}
	if _, err := io.CopyN(io.Discard, in, c.read); err != nil {
		return errors.Join(err, in.Close())
	}
	c.in = in
	return nil
}

// Read implements io.Reader.
func (c *content) Read(p []byte) (n int, err error) {
	err = c.calls.waitOut(c.ctx, c.op, nil, func() error {
		if c.in == nil {
			if err := c.reopen(); err != nil {
				return err
			}
		}
		var err error
		n, err = c.in.Read(p)
		c.read += int64(n)
		if !c.calls.temporary(err) {
			return err
		}
		_ = c.in.Close()
		if c.in = nil; n > 0 {
			return nil // the next Read opens the content again
		}
		return err
	})
	if err == io.EOF { //nolint:errorlint // as in io.Copy
		return n, err
	}
	return n, c.calls.hide(err)
}

// Close implements io.Closer.
func (c *content) Close() error {
	if c.in == nil {
		return nil
	}
	return c.in.Close()
}
