package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/migrate"
)

// Migration is a migration of the schema.
type Migration struct {
	// Name is the version of the migration, an underscore and its name.
	Name string
	// Script is the SQL that Open runs for this migration.
	Script string
	// Applied is when the database applied the migration; zero if it is pending.
	Applied time.Time
}

// Migrations returns all migrations in order, with the times when the database in a
// data directory applied them. It changes nothing. The directory need not exist, and a
// server may be using it. [Open] applies pending migrations.
func Migrations(ctx context.Context, dir string) ([]Migration, error) {
	migrations, err := migrate.Load(migrationFiles, "migrations")
	if err != nil {
		return nil, err
	}
	p := migrate.Params{Migrations: migrations}
	path := filepath.Join(dir, FileName)
	steps, err := readMigrations(ctx, path, p)
	if errors.Is(err, migrate.ErrNewer) || errors.Is(err, migrate.ErrChanged) {
		return nil, a2a.Errorf(a2a.CodeInternal, "%s: %v", path, err)
	}
	if err != nil {
		return nil, readOnlyOpenError(err, path)
	}
	all := make([]Migration, len(steps))
	for i, step := range steps {
		all[i] = Migration{Name: step.String(), Script: migrate.Script(p, step.Migration), Applied: step.Applied}
	}
	return all, nil
}

func readMigrations(ctx context.Context, path string, p migrate.Params) (steps []migrate.Step, err error) {
	tables := 0
	if info, err := os.Stat(path); err == nil {
		if info.Size() == 0 {
			return nil, emptyFile(path)
		}
		db, err := sql.Open("sqlite", dataSource(path, "busy_timeout(5000)")+readOnly.query())
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, db.Close()) }()
		db.SetMaxOpenConns(1)
		id := 0
		if err := db.QueryRowContext(ctx, "PRAGMA application_id").Scan(&id); err != nil {
			return nil, err
		}
		if id != applicationID {
			return nil, foreignFile(path)
		}
		const text = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'schema_migrations'"
		if err := db.QueryRowContext(ctx, text).Scan(&tables); err != nil {
			return nil, err
		}
		if tables > 0 {
			return migrate.Steps(ctx, db, p)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, m := range p.Migrations {
		steps = append(steps, migrate.Step{Migration: m})
	}
	return steps, nil
}
