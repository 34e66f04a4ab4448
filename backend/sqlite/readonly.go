package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/migrate"
	"github.com/holdfast-dev/holdfast/store"
)

// sqlQueued counts the queued tasks of an owner, ready and waiting.
const sqlQueued = `SELECT (SELECT count(*) FROM (SELECT 1 FROM task_rows INDEXED BY task_rows_queued WHERE phase = {ready} AND owner = ?1 LIMIT ?2)) +
	(SELECT count(*) FROM (SELECT 1 FROM task_rows INDEXED BY task_rows_waiting WHERE phase = {waiting} AND due_at > -4611686018427387904 AND owner = ?1 LIMIT ?2))`

// sqlBacklog counts queued and leased tasks. A store that writes has these counts in
// memory.
const sqlBacklog = `SELECT (SELECT count(*) FROM task_rows INDEXED BY task_rows_queued WHERE phase = {ready}) +
	(SELECT count(*) FROM task_rows INDEXED BY task_rows_waiting WHERE phase = {waiting}),
	(SELECT count(*) FROM task_rows INDEXED BY task_rows_leased WHERE phase = {leased})`

// errReadOnly is the result of every method that writes.
var errReadOnly error = a2a.Errorf(a2a.CodeUnsupported, "the database was opened for reading only")

// openReadOnly opens the readers of a store that never writes. It does not open the
// file itself: closing it would release SQLite's locks if this process also serves the
// database.
func (s *Store) openReadOnly(ctx context.Context) error {
	switch info, err := os.Stat(s.path); {
	case errors.Is(err, fs.ErrNotExist):
		return a2a.Errorf(a2a.CodeUnavailable, "%s does not exist", s.path)
	case err != nil:
		return err
	case info.Size() == 0:
		return emptyFile(s.path)
	}
	if err := s.checkSchema(ctx); err != nil {
		return err
	}
	return s.openReaders()
}

// readOnlyOpenError returns an error with the path of the database, the problem and
// what to do.
func readOnlyOpenError(err error, path string) error {
	var coded *a2a.Error
	c := primaryCode(err)
	unreadable := errors.Is(err, fs.ErrPermission) || c == sqlite3.SQLITE_CANTOPEN || c == sqlite3.SQLITE_READONLY || c == sqlite3.SQLITE_PERM
	if !errors.As(err, &coded) && unreadable {
		return a2a.Wrap(a2a.CodeUnavailable, err,
			"%s cannot be read: give this user the right to read it and, while no server runs, to write in its directory", path)
	}
	return openError(err, path)
}

// checkSchema rejects a database that is not of Holdfast or has a schema that this
// program cannot read.
func (s *Store) checkSchema(ctx context.Context) error {
	migrations, err := migrate.Load(migrationFiles, "migrations")
	if err != nil {
		return err
	}
	steps, err := readMigrations(ctx, s.path, migrate.Params{Migrations: migrations})
	switch {
	case errors.Is(err, migrate.ErrNewer):
		return a2a.Errorf(a2a.CodeUnavailable, "%s: %v", s.path, err)
	case errors.Is(err, migrate.ErrChanged):
		return a2a.Errorf(a2a.CodeInternal, "%s: %v", s.path, err)
	case err != nil:
		return err
	}
	for _, step := range steps {
		if step.Applied.IsZero() {
			return a2a.Errorf(a2a.CodeUnavailable, "%s: schema is older than this program: it lacks migration %s; "+
				"start the server of this version on it first, or read it with the program that made it", s.path, step)
		}
	}
	return nil
}

// readBacklog is Backlog for a store without a writer.
func (s *Store) readBacklog(ctx context.Context) (b store.Backlog, err error) {
	err = s.withReader(ctx, func(r *reader) error {
		return r.queryContext(ctx, sqlBacklog, func(rec record) error {
			b = store.Backlog{Queued: int(rec.int(0)), Leased: int(rec.int(1))}
			return nil
		})
	})
	return b, err
}
