package engine

import (
	"errors"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/runtime"
)

// Outcome is the result of a turn. It is created by methods of [Turn]. It implements error so
// that a handler can return it.
type Outcome struct {
	State   a2a.TaskState
	Message *a2a.Message // may be nil
	// alone is set if the message is to answer the client in place of the task.
	alone bool
}

// Error returns the state and the message's text.
func (o *Outcome) Error() string {
	if o.Message == nil {
		return string(o.State)
	}
	return string(o.State) + ": " + o.Message.Text()
}

// Retry marks an error of a handler as temporary. The engine then runs the turn again, with a
// backoff, until MaxAttempts. Retry(nil) returns nil.
func Retry(err error) error {
	if err == nil {
		return nil
	}
	return &retryError{err}
}

type retryError struct{ err error }

func (r *retryError) Error() string { return r.err.Error() }
func (r *retryError) Unwrap() error { return r.err }

// Causes of the cancellation of a handler's context, and errors of the methods of a Turn and of
// an Engine.
var (
	// ErrCanceled means that the task was canceled.
	ErrCanceled = errors.New("task canceled")
	// ErrTimeout means that the turn exceeded Turns.Timeout.
	ErrTimeout = errors.New("turn timed out")
	// ErrStopping means that the process is stopping and will requeue the task.
	ErrStopping = errors.New("server is stopping")
	// ErrLeaseLost means that another process runs the task, or may run it because the lease
	// could not be renewed.
	ErrLeaseLost = errors.New("lease lost")
	// ErrStarted is returned by [Engine.Start] if the engine has been started or stopped before.
	ErrStarted = runtime.ErrStarted
	// ErrEnded means that the handler has returned.
	ErrEnded = errors.New("turn has ended")
)
