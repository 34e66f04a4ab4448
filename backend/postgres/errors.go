package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// The SQLSTATEs that are treated by name.
const (
	stateDivision   = "22012" // what our statements raise when a guard fails
	stateUnique     = "23505"
	stateCanceled   = "57014"
	stateLocked     = "55P03"
	stateDeadlock   = "40P01"
	stateStalePlan  = "0A000"
	stateNoStmt     = "26000"
	stateReadOnly   = "25006"
	stateEnded      = "57P01" // by an administrator
	stateCrashed    = "57P02"
	stateNotThere   = "42P01"
	stateNoSchema   = "3F000"
	stateDenied     = "42501"
	stateBadText    = "22021"
	stateBadEscape  = "22P05"
	stateDiskFull   = "53100"
	stateTooMany    = "53300" // connections
	stateIdled      = "25P03" // a transaction that was idle for too long
	stateOverdue    = "25P04" // one that took too long
	stateStartParam = "08P01"
	stateNoSetting  = "42704"
)

// failed gives an error of PostgreSQL its code; doing says what went wrong, for the
// log. Errors that have a code, are a refusal or the caller's own context stay as they are.
func failed(ctx context.Context, err error, doing string) error {
	var coded *a2a.Error
	if err == nil || errors.As(err, &coded) || refusal(err) {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	code, text := classify(err)
	return a2a.Wrap(code, fmt.Errorf("postgres: %s: %w", doing, err), "%s", text)
}

// refusal reports an answer of the store, as opposed to a failure.
func refusal(err error) bool {
	for _, e := range []error{
		store.ErrNotFound, store.ErrExists, store.ErrConflict, store.ErrDuplicate, store.ErrBusy, store.ErrClosed,
		store.ErrParentNotFound, store.ErrParentCycle, store.ErrParentDepth,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// sqlState returns the SQLSTATE of an answer of the server, "" for other errors.
func sqlState(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// classify is the one place where SQLSTATEs meet our codes.
func classify(err error) (a2a.Code, string) {
	state := sqlState(err)
	if errors.Is(err, errUnreplicated) {
		return a2a.CodeUnavailable, unreplicatedText
	}
	if state == "" {
		return a2a.CodeUnavailable, "the database does not answer"
	}
	switch state {
	case stateDiskFull:
		return a2a.CodeExhausted, "the database's disk is full: the change was not stored; free some space and try again"
	case stateBadText, stateBadEscape:
		return a2a.CodeInvalid, "the value holds a character that cannot be stored"
	case stateReadOnly:
		return a2a.CodeUnavailable, "the database is read-only: it may be a standby"
	case stateNotThere, stateNoSchema:
		return a2a.CodeInternal, "the schema of the database is not as it should be"
	case stateDenied:
		return a2a.CodeInternal, "the database's user lacks a right"
	case stateCanceled, stateIdled, stateOverdue:
		return a2a.CodeUnavailable, "the database takes too long"
	case stateLocked:
		return a2a.CodeUnavailable, "what this call needs is locked in the database for long; nothing was stored"
	}
	switch state[:2] {
	case "28":
		return a2a.CodeUnavailable, "the database refuses the user or the password"
	case "3D":
		return a2a.CodeUnavailable, "the database is not there"
	case "53":
		return a2a.CodeUnavailable, "the database lacks resources"
	case "54":
		return a2a.CodeTooLarge, "the value is too large to be stored"
	case "08", "40", "55", "57":
		return a2a.CodeUnavailable, "the database is not available"
	case "XX":
		return a2a.CodeInternal, "the database is damaged"
	}
	return a2a.CodeInternal, "the database failed"
}

// raised reports that a guard in the statements of a commit failed, and the
// transaction was rolled back.
func raised(err error) bool {
	state := sqlState(err)
	return state == stateDivision || state == stateUnique
}

// passing reports a failure that may not happen again, after which the command
// may be tried again if nothing was changed.
func passing(err error) bool {
	state := sqlState(err)
	switch state {
	case "":
		return unanswered(err)
	case stateStalePlan, stateNoStmt, stateCanceled, stateIdled, stateOverdue, stateReadOnly: // of a server that may not be read-only for long
		return true
	}
	switch state[:2] {
	case "40", "55":
		return true
	case "08":
		return state != stateStartParam
	case "57":
		return true
	}
	return state == stateTooMany
}

// conflicting reports a failure that came of another command at the same time.
func conflicting(err error) bool {
	state := sqlState(err)
	return strings.HasPrefix(state, "40") || state == stateStalePlan || state == stateNoStmt
}

// blocked reports that a command took so long that the server undid it: others have
// locked what it was to change.
func blocked(err error) bool {
	state := sqlState(err)
	return state == stateLocked || state == stateCanceled
}

const unreplicatedText = "no standby of the database confirmed the change: it may have been stored or not"

// unanswered reports that the server has not answered, or has not kept to its answer:
// the connection was lost, could not be made, took too long, or a commit was not replicated.
func unanswered(err error) bool {
	var netErr net.Error
	var connect *pgconn.ConnectError
	return errors.As(err, &netErr) || errors.As(err, &connect) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, net.ErrClosed) || errors.Is(err, errLost) || errors.Is(err, errUnreplicated) || pgconn.Timeout(err) ||
		strings.Contains(err.Error(), "conn closed")
}

// unsure reports a failure that leaves open whether a commit was made.
func unsure(err error) bool {
	var last commitError
	if !errors.As(err, &last) {
		return false
	}
	state := sqlState(err)
	return state == "" && unanswered(err) || strings.HasPrefix(state, "08") || strings.HasPrefix(state, "57P") || state == stateIdled || state == stateOverdue
}

// undone reports a failure that may not happen again and after which nothing has
// been stored: it came before anything was sent, or undid what was.
func undone(err error) bool {
	var sent commitError
	return conflicting(err) || sqlState(err) == stateReadOnly || passing(err) && !errors.As(err, &sent)
}

var errLost = errors.New("connection lost")
