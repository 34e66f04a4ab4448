package engine

import (
	"errors"

	"github.com/holdfast-dev/holdfast/a2a"
)

// Outcome is how a turn ended. It is an error so that a handler can return it;
// it is made by the methods of [Turn].
type Outcome struct {
	State   a2a.TaskState
	Message *a2a.Message // may be nil
}

// Error describes the outcome.
func (o *Outcome) Error() string {
	if o.Message == nil {
		return string(o.State)
	}
	return string(o.State) + ": " + o.Message.Text()
}

// Retry marks an error of a handler as passing: the turn is run again, after a
// pause that grows with each attempt, until MaxAttempts. Retry(nil) is nil.
func Retry(err error) error {
	if err == nil {
		return nil
	}
	return &retryError{err}
}

type retryError struct{ err error }

func (r *retryError) Error() string { return r.err.Error() }
func (r *retryError) Unwrap() error { return r.err }

// Causes with which a handler's context ends, and errors of a turn that is over.
var (
	// ErrCanceled: the task was cancelled.
	ErrCanceled = errors.New("task canceled")
	// ErrTimeout: the turn ran longer than it may.
	ErrTimeout = errors.New("turn timed out")
	// ErrStopping: the process is stopping and will hand the task back.
	ErrStopping = errors.New("server is stopping")
	// ErrLeaseLost: another process runs the task, or may run it since the lease could not
	// be renewed.
	ErrLeaseLost = errors.New("lease lost")
	// ErrStarted: an engine is started once, and not after it was stopped.
	ErrStarted = errors.New("engine has been started or stopped before")
	// ErrEnded: the handler has returned.
	ErrEnded = errors.New("turn has ended")
)
