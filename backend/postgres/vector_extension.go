package postgres

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
)

// ErrVectorExtension is part of the errors of Open if Config.Vectors is set and the database does
// not have the extension pgvector, or an older version.
var ErrVectorExtension = errors.New("postgres: extension vector 0.8 or later is needed")

// minVector is the first version of pgvector with index scans that continue until enough rows match a filter.
const minVector = "0.8"

// findVectorExtension finds the schema of pgvector. With Config.Migrate it creates the extension if
// the database does not have it.
func (s *migrations) findVectorExtension(ctx context.Context, db *sql.DB) error {
	const find = `SELECT n.nspname, e.extversion FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'`
	var version string
	err := db.QueryRowContext(ctx, find).Scan(&s.vectorSchema, &version)
	if errors.Is(err, sql.ErrNoRows) && s.cfg.Migrate {
		// Migrations of other schemas may create it at the same time.
		const create = `DO $$ BEGIN PERFORM pg_advisory_xact_lock(hashtext('holdfast extension vector')); CREATE EXTENSION IF NOT EXISTS vector; END $$`
		if _, err := db.ExecContext(ctx, create); err != nil {
			return extensionError(err, "cannot be created")
		}
		err = db.QueryRowContext(ctx, find).Scan(&s.vectorSchema, &version)
	}
	switch {
	case errors.Is(err, sql.ErrNoRows) && s.listing:
		return db.QueryRowContext(ctx, `SELECT coalesce(current_schema(), 'public')`).Scan(&s.vectorSchema) // where it would be created
	case errors.Is(err, sql.ErrNoRows):
		return extensionError(nil, "is not in the database")
	case err != nil:
		return err
	case !atLeast(version, minVector):
		return extensionError(nil, "has version "+version+" in the database")
	}
	return nil
}

func extensionError(err error, problem string) error {
	return a2a.Wrap(a2a.CodeInternal, errors.Join(ErrVectorExtension, err),
		"extension vector %s: install pgvector 0.8 or later on the server and run CREATE EXTENSION vector (or ALTER EXTENSION vector UPDATE), or turn off documents with embeddings", problem)
}

// atLeast compares two versions by their first two numbers.
func atLeast(version, want string) bool {
	number := func(text string, i int) int {
		if parts := strings.Split(text, "."); i < len(parts) {
			n, _ := strconv.Atoi(parts[i])
			return n
		}
		return 0
	}
	if a, b := number(version, 0), number(want, 0); a != b {
		return a > b
	}
	return number(version, 1) >= number(want, 1)
}
