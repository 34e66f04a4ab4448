package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/migrate"
)

// Migration is one step of the schema.
type Migration struct {
	// Name is the version and the name, such as 202611221300_initial.
	Name string
	// Script is the SQL that Open runs for the migration, for use with other tools.
	Script string
	// Applied is when the migration was applied, zero if it is pending.
	Applied time.Time
}

// Migrations returns all migrations that the program knows or the database has, in order. It
// changes nothing, and the schema need not exist. It uses URL, Schema, Timeout, CommandTimeout,
// Pooler and Vectors of cfg. It returns the same errors as [Open].
func Migrations(ctx context.Context, cfg Config) ([]Migration, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	cfg.Migrate = false
	s := &migrations{newDatabase(cfg), true}
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout+cfg.CommandTimeout)
	defer cancel()
	all, err := s.list(ctx)
	if err != nil {
		return nil, s.cfg.openError(ctx, err)
	}
	return all, nil
}

func (s *migrations) list(ctx context.Context) (all []Migration, err error) {
	poolConfig, err := s.poolConfig()
	if err != nil {
		return nil, err
	}
	db := s.connect(poolConfig.ConnConfig)
	defer func() { err = errors.Join(err, db.Close()) }()
	for _, l := range s.cfg.lines() {
		steps, p, err := s.steps(ctx, db, l)
		if err != nil {
			return nil, err
		}
		for _, step := range steps {
			all = append(all, Migration{Name: step.String(), Script: migrate.Script(p, step.Migration), Applied: step.Applied})
		}
	}
	return all, nil
}

func (s *migrations) steps(ctx context.Context, db *sql.DB, l line) (steps []migrate.Step, p migrate.Params, err error) {
	p, recorded, err := s.load(ctx, db, l)
	if err != nil {
		return nil, p, err
	}
	if !recorded {
		for _, m := range p.Migrations {
			steps = append(steps, migrate.Step{Migration: m})
		}
		return steps, p, nil
	}
	steps, err = migrate.Steps(ctx, db, p)
	return steps, p, s.schemaError(err)
}

// params returns the parameters of package migrate for a line, with the names of schemas inserted.
func (s *migrations) params(l line) (migrate.Params, error) {
	known, err := migrate.Load(s.cfg.files, l.dir)
	if err != nil {
		return migrate.Params{}, err
	}
	schema := pgx.Identifier{s.cfg.Schema}.Sanitize()
	for i := range known {
		known[i].SQL = strings.NewReplacer("{s}", schema, "{v}", pgx.Identifier{s.vectorSchema}.Sanitize()).Replace(known[i].SQL)
	}
	return migrate.Params{
		Migrations: known, Table: schema + "." + l.table,
		Lock:        s.lockText(schema),
		Isolation:   sql.LevelReadCommitted,
		Placeholder: func(n int) string { return fmt.Sprint("$", n) },
	}, nil
}

// lockText locks the schema for a migration, and creates it unless it exists: CREATE SCHEMA IF
// NOT EXISTS needs a privilege even if it does. The lock and the settings end with the
// transaction, so they work behind a pooler. The transaction may last as long as the build
// of an index.
func (s *migrations) lockText(schema string) string {
	return fmt.Sprintf(`DO $$ BEGIN
  PERFORM set_config(name, CASE name WHEN 'lock_timeout' THEN '%d' ELSE '0' END, true) FROM pg_settings
    WHERE name IN ('lock_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout');
  IF NOT pg_try_advisory_xact_lock(%d) THEN
    RAISE 'another process migrates schema %s' USING ERRCODE = 'lock_not_available';
  END IF;
  IF to_regnamespace('%s') IS NULL THEN
    CREATE SCHEMA %s;
  END IF;
END $$`, s.cfg.MigrationLockTimeout.Milliseconds(), s.lockID(), s.cfg.Schema, schema, schema)
}
