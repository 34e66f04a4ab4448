// Package migrate upgrades the schema of a database from embedded SQL files. Migrations are
// forward-only; each is applied once and recorded with its checksum. A migration is one
// transaction unless its file sets "without transaction". A program accepts a newer schema if
// every migration that it does not know is compatible with it.
package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Params are the arguments of Apply.
type Params struct {
	// Migrations are all migrations of the program, as Load returns them.
	Migrations []Migration
	// Table records the applied migrations; "" is schema_migrations. It is inserted into SQL
	// without quoting.
	Table string
	// Lock is SQL that keeps other processes from migrating until the end of its
	// transaction; "" if the transaction itself does. It must fail if another process holds
	// the lock: a statement that waits keeps its snapshot, and the other process may wait for
	// that snapshot to build an index.
	Lock string
	// Statement runs one statement of a migration without transaction, while a transaction of Apply
	// holds the lock. Apply runs an interrupted statement again; Statement must repair what the
	// interrupted statement left. If nil, Apply rejects such migrations.
	Statement func(ctx context.Context, text string) error
	// Retry is called after a failed migration was rolled back. It waits and reports whether
	// to try the migration again. nil means no retry.
	Retry func(ctx context.Context, err error) bool
	// Isolation is the isolation level of the transactions. A transaction must see what was
	// committed before it got Lock. Use sql.LevelReadCommitted if the default level of the
	// database reads a snapshot from the start of the transaction.
	Isolation sql.IsolationLevel
	// Placeholder returns the placeholder of a statement's n-th argument, from 1; nil is "?".
	Placeholder func(n int) string
	// Now returns the time to record for a migration; nil is time.Now.
	Now func() time.Time
}

// Apply applies the pending migrations in order and returns them. It returns ErrNewer or
// ErrChanged before it changes anything.
func Apply(ctx context.Context, db *sql.DB, p Params) ([]Migration, error) {
	p.setDefaults()
	var done []Migration
	for {
		m, err := applyNext(ctx, db, p)
		if err != nil && p.Retry != nil && p.Retry(ctx, err) {
			continue
		}
		if err != nil {
			return done, err
		}
		if m == nil {
			return done, nil
		}
		done = append(done, *m)
	}
}

// Pending returns the pending migrations and changes nothing. The table of applied migrations
// must exist. Pending returns the same errors as Apply.
func Pending(ctx context.Context, db *sql.DB, p Params) ([]Migration, error) {
	p.setDefaults()
	n, err := check(ctx, db, &p)
	if err != nil {
		return nil, err
	}
	return p.Migrations[n:], nil
}

func (p *Params) setDefaults() {
	if p.Table == "" {
		p.Table = "schema_migrations"
	}
	if p.Placeholder == nil {
		p.Placeholder = func(int) string { return "?" }
	}
	if p.Now == nil {
		p.Now = time.Now
	}
}

const createTable = `CREATE TABLE IF NOT EXISTS %s (
  version    TEXT PRIMARY KEY,
  name       TEXT NOT NULL,
  checksum   TEXT NOT NULL,
  applied_at TEXT NOT NULL,
  compatible TEXT NOT NULL
)`

// applyNext applies the first pending migration; it returns nil if none is pending. It reads
// the applied migrations under the lock, so two processes do not apply the same migration.
func applyNext(ctx context.Context, db *sql.DB, p Params) (*Migration, error) {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: p.Isolation})
	if err != nil {
		return nil, fmt.Errorf("start migration: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	for _, text := range []string{p.Lock, fmt.Sprintf(createTable, p.Table)} {
		if text == "" {
			continue
		}
		if _, err := tx.ExecContext(ctx, text); err != nil {
			return nil, fmt.Errorf("prepare migration: %w", err)
		}
	}
	n, err := check(ctx, tx, &p)
	if err != nil {
		return nil, err
	}
	if n == len(p.Migrations) {
		return nil, tx.Commit()
	}
	m := p.Migrations[n]
	if err := run(ctx, tx, p, m); err != nil {
		return nil, fmt.Errorf("apply migration %s: %w", m, err)
	}
	record := fmt.Sprintf("INSERT INTO %s (version, name, checksum, applied_at, compatible) VALUES (%s, %s, %s, %s, %s)",
		p.Table, p.Placeholder(1), p.Placeholder(2), p.Placeholder(3), p.Placeholder(4), p.Placeholder(5))
	if _, err := tx.ExecContext(ctx, record, m.Version, m.Name, m.Checksum, p.Now().UTC().Format(time.RFC3339), m.Compatible); err != nil {
		return nil, fmt.Errorf("record migration %s: %w", m, err)
	}
	if err := tx.Commit(); err != nil {
		return nil, fmt.Errorf("commit migration %s: %w", m, err)
	}
	return &m, nil
}

// run runs a migration in tx, or its statements outside of tx while tx holds the lock.
func run(ctx context.Context, tx *sql.Tx, p Params, m Migration) error {
	if !m.WithoutTransaction {
		_, err := tx.ExecContext(ctx, m.SQL)
		return err
	}
	if p.Statement == nil {
		return errors.New("this database does not support migrations without transaction")
	}
	// A new command releases the snapshot of the previous query. PostgreSQL would wait for that
	// snapshot to build an index.
	if _, err := tx.ExecContext(ctx, "SELECT 1"); err != nil {
		return err
	}
	for _, text := range m.statements() {
		if err := p.Statement(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

// queryer is a *sql.DB or a *sql.Tx.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// check compares the applied migrations with p.Migrations and returns the number of
// p.Migrations that are applied.
func check(ctx context.Context, q queryer, p *Params) (n int, err error) {
	known, last := p.Migrations, ""
	if len(known) > 0 {
		last = known[len(known)-1].Version
	}
	rows, err := q.QueryContext(ctx, "SELECT * FROM "+p.Table+" ORDER BY version")
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", p.Table, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		a, err := scan(rows, p.Table)
		if err != nil {
			return 0, err
		}
		i := slices.IndexFunc(known, func(m Migration) bool { return m.Version == a.Version })
		switch {
		case i < 0 && a.Version > last && n < len(known), i > n:
			return 0, fmt.Errorf("%w: %s is not applied, but the later %s is; use the program that applied it, or restore a backup", ErrChanged, known[n], a)
		case i < 0 && a.Version > last && a.Compatible > last:
			return 0, fmt.Errorf("%w: migration %s needs a program with migration %s or later; use the program that applied it, or a later one", ErrNewer, a, a.Compatible)
		case i < 0 && a.Version > last:
		case i < 0:
			return 0, fmt.Errorf("%w: %s is applied, but this program does not have it; use the program that applied it", ErrChanged, a)
		case !strings.EqualFold(known[i].Checksum, a.Checksum):
			return 0, fmt.Errorf("%w: %s was applied with checksum %.12s, but this program has %.12s; use the program that applied it, or restore a backup", ErrChanged, a, a.Checksum, known[i].Checksum)
		default:
			n++
		}
	}
	return n, rows.Err()
}

// scan reads a row of the table of applied migrations. It ignores columns of later programs.
func scan(rows *sql.Rows, table string) (Step, error) {
	var a Step
	var at string
	columns, err := rows.Columns()
	if err != nil {
		return a, fmt.Errorf("read %s: %w", table, err)
	}
	to := make([]any, len(columns))
	for i := range to {
		to[i] = new(any)
	}
	for name, value := range map[string]*string{
		"version": &a.Version, "name": &a.Name, "checksum": &a.Checksum, "applied_at": &at, "compatible": &a.Compatible,
	} {
		i := slices.Index(columns, name)
		if i < 0 {
			return a, fmt.Errorf("%w: table %s has no column %s: a build before the first release created it; use an empty database", ErrChanged, table, name)
		}
		to[i] = value
	}
	if err := rows.Scan(to...); err != nil {
		return a, fmt.Errorf("read %s: %w", table, err)
	}
	if a.Applied, err = time.Parse(time.RFC3339, at); err != nil {
		return a, fmt.Errorf("read %s: migration %s: applied_at: %w", table, a, err)
	}
	return a, nil
}
