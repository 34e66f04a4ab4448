package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// SQLSTATEs that the store handles.
const (
	stateDivisionByZero        = "22012" // raised by the statements of this package when a guard fails
	stateUniqueViolation       = "23505"
	stateQueryCanceled         = "57014"
	stateLockNotAvailable      = "55P03"
	stateDeadlock              = "40P01"
	stateStalePlan             = "0A000"
	stateUnknownStatement      = "26000"
	stateReadOnly              = "25006"
	stateAdminShutdown         = "57P01" // terminated by an administrator
	stateCrashShutdown         = "57P02"
	stateUndefinedTable        = "42P01"
	stateDuplicateTable        = "42P07" // also of an index
	stateInvalidSchema         = "3F000"
	stateInsufficientPrivilege = "42501"
	stateInvalidCharacter      = "22021"
	stateUntranslatable        = "22P05"
	stateDiskFull              = "53100"
	stateTooManyConnections    = "53300" // connections
	stateIdleTimeout           = "25P03" // idle_in_transaction_session_timeout
	stateTransactionTimeout    = "25P04" // transaction_timeout
	stateProtocolViolation     = "08P01"
	stateUndefinedObject       = "42704"
)

// wrapError returns an error of PostgreSQL with its code. op names the operation for the log.
// It does not change errors that have a code, results of the store, and errors of ctx.
func wrapError(ctx context.Context, err error, op string) error {
	var coded *a2a.Error
	if err == nil || errors.As(err, &coded) || isResult(err) {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	code, text := classify(err)
	return a2a.Wrap(code, fmt.Errorf("postgres: %s: %w", op, err), "%s", text)
}

// isResult reports whether err is a result, of package store or of a function of sqlkit, not a failure.
func isResult(err error) bool {
	for _, e := range []error{
		store.ErrNotFound, store.ErrExists, store.ErrConflict, store.ErrDuplicate, store.ErrBusy, store.ErrUndelivered, store.ErrClosed,
		store.ErrLeaseLost, store.ErrUnread, store.ErrContextClosed, store.ErrParentNotFound, store.ErrParentCycle, store.ErrParentDepth, store.ErrRecordConflict, errKitRejected, errAlone,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// sqlState returns the SQLSTATE of an error from the server, "" for other errors.
func sqlState(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// classify returns the code and the text for an error. It is the only mapping of SQLSTATEs
// to codes.
func classify(err error) (a2a.Code, string) {
	state := sqlState(err)
	if errors.Is(err, errUnreplicated) {
		return a2a.CodeUnavailable, unreplicatedText
	}
	if state == "" {
		return a2a.CodeUnavailable, "the database does not respond"
	}
	switch state {
	case stateDiskFull:
		return a2a.CodeExhausted, "the disk of the database is full: the change was not stored; free some space and retry"
	case stateInvalidCharacter, stateUntranslatable:
		return a2a.CodeInvalid, "the value contains a character that cannot be stored"
	case stateReadOnly:
		return a2a.CodeUnavailable, "the database is read-only: it may be a standby"
	case stateUndefinedTable, stateInvalidSchema:
		return a2a.CodeInternal, "the database schema is damaged or missing"
	case stateInsufficientPrivilege:
		return a2a.CodeInternal, "the database user lacks a privilege"
	case stateQueryCanceled, stateIdleTimeout, stateTransactionTimeout:
		return a2a.CodeUnavailable, "the database command timed out"
	case stateLockNotAvailable:
		return a2a.CodeUnavailable, "lock timeout: another transaction holds a lock in the database; nothing was stored"
	}
	switch state[:2] {
	case "28":
		return a2a.CodeUnavailable, "the database rejected the user or the password"
	case "3D":
		return a2a.CodeUnavailable, "the database does not exist"
	case "53":
		return a2a.CodeUnavailable, "the database is out of resources"
	case "54":
		return a2a.CodeTooLarge, "the value is too large to be stored"
	case "08", "40", "55", "57":
		return a2a.CodeUnavailable, "the database is not available"
	case "XX":
		return a2a.CodeInternal, "the database is damaged"
	}
	return a2a.CodeInternal, "the database failed"
}

// guardFailed reports whether a guard in a statement failed. The transaction was rolled back.
func guardFailed(err error) bool {
	state := sqlState(err)
	return state == stateDivisionByZero || state == stateUniqueViolation
}

// transient reports whether a command may succeed when it is retried. Only commands that
// changed nothing may be retried.
func transient(err error) bool {
	state := sqlState(err)
	switch state {
	case "":
		return unanswered(err)
	case stateStalePlan, stateUnknownStatement, stateQueryCanceled, stateIdleTimeout, stateTransactionTimeout, stateReadOnly: // a standby may be promoted
		return true
	}
	switch state[:2] {
	case "40", "55":
		return true
	case "08":
		return state != stateProtocolViolation
	case "57":
		return true
	}
	return state == stateTooManyConnections
}

// isConflict reports whether a concurrent command caused the failure.
func isConflict(err error) bool {
	state := sqlState(err)
	return strings.HasPrefix(state, "40") || state == stateStalePlan || state == stateUnknownStatement
}

// lockTimedOut reports whether the server canceled a command that waited too long, probably
// for a lock of another transaction.
func lockTimedOut(err error) bool {
	state := sqlState(err)
	return state == stateLockNotAvailable || state == stateQueryCanceled
}

const unreplicatedText = "no standby of the database confirmed the change: it may or may not have been stored"

// unanswered reports whether the answer of the server is missing or not final: the connection
// failed, could not be made or timed out, or a commit was not replicated.
func unanswered(err error) bool {
	var netErr net.Error
	var connect *pgconn.ConnectError
	return errors.As(err, &netErr) || errors.As(err, &connect) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, net.ErrClosed) || errors.Is(err, errConnectionLost) || errors.Is(err, errUnreplicated) || pgconn.Timeout(err) ||
		strings.Contains(err.Error(), "conn closed")
}

// sessionLost reports whether the server or the network ended the session of a command.
func sessionLost(err error) bool {
	switch sqlState(err) {
	case stateAdminShutdown, stateCrashShutdown:
		return true
	case "":
		return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, errConnectionLost) ||
			errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
	}
	return false
}

// indeterminate reports whether the outcome of a commit is unknown after the failure.
func indeterminate(err error) bool {
	var last commitError
	if !errors.As(err, &last) {
		return false
	}
	state := sqlState(err)
	return state == "" && unanswered(err) || strings.HasPrefix(state, "08") || strings.HasPrefix(state, "57P") || state == stateIdleTimeout || state == stateTransactionTimeout
}

// rolledBack reports whether a command that changes data may be retried after the failure:
// nothing was stored, because nothing was sent or the server rolled it back.
func rolledBack(err error) bool {
	var commit commitError
	return isConflict(err) || isStrayCancel(err) || sqlState(err) == stateReadOnly || transient(err) && !errors.As(err, &commit)
}

// strayCancel is the error of commands that the server canceled before their context ended: the cancel request
// was for an earlier command of the session and arrived late. The server has rolled them back.
type strayCancel struct{ error }

// Unwrap returns the error of the server.
func (e strayCancel) Unwrap() error { return e.error }

func isStrayCancel(err error) bool {
	var stray strayCancel
	return errors.As(err, &stray)
}

var errConnectionLost = errors.New("connection lost")
