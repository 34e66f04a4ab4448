// Package migrate brings a database's schema up to date: embedded files, forward
// only, each applied once and recorded with its checksum. A migration is one transaction,
// unless its file says that it runs without one. A program accepts a newer schema if each
// migration it does not know is compatible with it.
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
	// Migrations is everything the program knows, as Load returns it.
	Migrations []Migration
	// Table keeps what was applied; "" is schema_migrations. It is written into SQL
	// as it is.
	Table string
	// Lock is SQL that keeps other processes from migrating until the end of the
	// transaction it runs in; "" where the transaction itself does. It fails where
	// another process has the lock: a statement that waited for it would keep a snapshot,
	// for which the other process may in turn wait to build an index.
	Lock string
	// Statement runs one statement of a migration without transaction, while a
	// transaction of Apply has the lock. A statement that was interrupted at any point is
	// run again; what it left behind is Statement's to repair. nil refuses such migrations.
	Statement func(ctx context.Context, text string) error
	// Retry is called when a migration failed and left nothing behind; it waits, and
	// reports whether the migration is to be tried again. nil never does.
	Retry func(ctx context.Context, err error) bool
	// Isolation is that of the transactions. What waits for Lock must see then what
	// others did before: where a transaction may see no more than its beginning, it is
	// to be sql.LevelReadCommitted.
	Isolation sql.IsolationLevel
	// Placeholder writes the n-th argument of a statement, from 1; nil is "?".
	Placeholder func(n int) string
	// Now stamps the record of a migration; nil is time.Now.
	Now func() time.Time
}

// Apply applies the migrations that the database lacks, in order, and returns
// them. It refuses with ErrNewer or ErrChanged before it changes anything.
func Apply(ctx context.Context, db *sql.DB, p Params) ([]Migration, error) {
	p.complete()
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

// Pending returns the migrations that the database lacks and changes nothing. The
// table of applied migrations must exist. Its errors are those of Apply.
func Pending(ctx context.Context, db *sql.DB, p Params) ([]Migration, error) {
	p.complete()
	n, err := check(ctx, db, &p)
	if err != nil {
		return nil, err
	}
	return p.Migrations[n:], nil
}

func (p *Params) complete() {
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

// applyNext applies the first missing migration; nil when there is none. The
// list of what was applied is read under the lock, so that two processes that
// start together do not both apply it.
func applyNext(ctx context.Context, db *sql.DB, p Params) (*Migration, error) {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: p.Isolation})
	if err != nil {
		return nil, fmt.Errorf("begin migration: %w", err)
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

// run runs a migration in tx, or one statement after the other while tx has the lock.
func run(ctx context.Context, tx *sql.Tx, p Params, m Migration) error {
	if !m.WithoutTransaction {
		_, err := tx.ExecContext(ctx, m.SQL)
		return err
	}
	if p.Statement == nil {
		return errors.New("this database cannot run it without transaction")
	}
	// Until the next command, the transaction keeps the snapshot of the query before, and
	// PostgreSQL would wait for its end to build an index.
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

// check compares what was applied with what is known and returns how many of
// the known were applied.
func check(ctx context.Context, on queryer, p *Params) (n int, err error) {
	known, last := p.Migrations, ""
	if len(known) > 0 {
		last = known[len(known)-1].Version
	}
	rows, err := on.QueryContext(ctx, "SELECT * FROM "+p.Table+" ORDER BY version")
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
			return 0, fmt.Errorf("%w: %s was never applied, but the later %s was; use the program that applied it, or restore a backup", ErrChanged, known[n], a)
		case i < 0 && a.Version > last && a.Compatible > last:
			return 0, fmt.Errorf("%w: it has migration %s, which needs a program with migration %s or later; use the program that made it, or a later one", ErrNewer, a, a.Compatible)
		case i < 0 && a.Version > last:
		case i < 0:
			return 0, fmt.Errorf("%w: the database has %s, which this program does not know; use the program that made it", ErrChanged, a)
		case !strings.EqualFold(known[i].Checksum, a.Checksum):
			return 0, fmt.Errorf("%w: %s was applied with checksum %.12s, this program has %.12s; use the program that applied it, or restore a backup", ErrChanged, a, a.Checksum, known[i].Checksum)
		default:
			n++
		}
	}
	return n, rows.Err()
}

// scan reads a row of the table of what was applied. Later programs may have added columns.
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
			return a, fmt.Errorf("%w: %s has no column %s: it is that of a build before the first release; start with an empty database", ErrChanged, table, name)
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
