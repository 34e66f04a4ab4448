package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// wrapError wraps an error of SQLite with its code. op names the operation, for the
// log. Errors that have a code, store.ErrNotFound and errors of the context are
// returned unchanged.
func wrapError(err error, op string) error {
	var coded *a2a.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &coded), errors.Is(err, store.ErrNotFound), errors.Is(err, context.Canceled),
		errors.Is(err, context.DeadlineExceeded):
		return err
	}
	code, text := classify(err)
	return a2a.Wrap(code, fmt.Errorf("sqlite: %s: %w", op, err), "%s", text)
}

// classify maps SQLite's result codes to a2a codes and texts for clients.
func classify(err error) (a2a.Code, string) {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return a2a.CodeExhausted, textDiskFull
	}
	switch primaryCode(err) {
	case sqlite3.SQLITE_FULL:
		return a2a.CodeExhausted, textDiskFull
	case sqlite3.SQLITE_TOOBIG:
		return a2a.CodeTooLarge, "the value is too large to be stored"
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL:
		return a2a.CodeUnavailable, "the database is locked by another program"
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH:
		return a2a.CodeUnavailable, "the database cannot be written"
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_NOLFS:
		return a2a.CodeUnavailable, "the database reports a disk error"
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return a2a.CodeInternal, "the database is damaged"
	}
	return a2a.CodeInternal, "the database failed"
}

const textDiskFull = "disk full: the change was not stored; free some space and try again"

// primaryCode returns the primary result code of an error of SQLite, 0 for
// other errors.
func primaryCode(err error) int {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return 0
	}
	return e.Code() & 0xff
}

// openError returns an error with the path of the database, the problem and what to do.
func openError(err error, path string) error {
	var coded *a2a.Error
	if errors.As(err, &coded) {
		return err
	}
	code, _ := classify(err)
	text := "cannot be opened"
	switch c := primaryCode(err); {
	case code == a2a.CodeExhausted:
		text = "cannot be opened: disk full; free some space and start again"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS), c == sqlite3.SQLITE_READONLY, c == sqlite3.SQLITE_PERM, c == sqlite3.SQLITE_CANTOPEN:
		code = a2a.CodeUnavailable
		text = "cannot be written: give this user the right to write there, or choose another data directory"
	case c == sqlite3.SQLITE_NOTADB:
		text = "is not a SQLite database: move the file away or choose another data directory"
	case c == sqlite3.SQLITE_CORRUPT:
		text = "is damaged: restore it from a backup, or save what can be read with 'sqlite3 " + path + " .recover'"
	case c == sqlite3.SQLITE_BUSY:
		text = "is locked by another program: stop it (a sqlite3 shell with an open transaction, a backup) and start again"
	}
	return a2a.Wrap(code, err, "%s %s", path, text)
}
