// Package migrate brings a database's schema up to date: embedded files, forward
// only, each applied once and in one transaction, recorded with its checksum.
package migrate

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Migration is one step of a schema.
type Migration struct {
	// Version is the stamp YYYYMMDDHHMM of the file's name.
	Version string
	// Name is the rest of the file's name, without ".sql".
	Name string
	SQL  string
	// Checksum is the SHA-256 of SQL, in hex.
	Checksum string
}

func (m Migration) String() string { return m.Version + "_" + m.Name }

// ErrNewer says that the database was migrated by a newer program.
var ErrNewer = errors.New("schema is newer than this program")

// ErrChanged says that a migration that was applied is not the one this program has.
var ErrChanged = errors.New("applied migration was changed")

var fileName = regexp.MustCompile(`^(\d{12})_([a-z0-9_]+)\.sql$`)

// Load reads the migrations in a folder, ascending by version. A file with
// another name, or a version twice, is an error.
func Load(fsys fs.FS, dir string) ([]Migration, error) {
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	var all []Migration
	for _, e := range entries {
		parts := fileName.FindStringSubmatch(e.Name())
		if parts == nil {
			return nil, fmt.Errorf("migration %q: name is not YYYYMMDDHHMM_name.sql", e.Name())
		}
		text, err := fs.ReadFile(fsys, path.Join(dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("read migration %s: %w", e.Name(), err)
		}
		sum := sha256.Sum256(text)
		m := Migration{Version: parts[1], Name: parts[2], SQL: string(text), Checksum: hex.EncodeToString(sum[:])}
		if n := len(all); n > 0 && all[n-1].Version == m.Version {
			return nil, fmt.Errorf("migrations %s and %s have the same version", all[n-1], m)
		}
		all = append(all, m)
	}
	return all, nil
}

// Params are the arguments of Apply.
type Params struct {
	// Migrations is everything the program knows, as Load returns it.
	Migrations []Migration
	// Table keeps what was applied; "" is schema_migrations. It is written into SQL
	// as it is.
	Table string
	// Lock is SQL that keeps other processes from migrating until the end of the
	// transaction it runs in; "" where the transaction itself does.
	Lock string
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
// table of those that were applied must be there. Its errors are those of Apply.
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
  applied_at TEXT NOT NULL
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
	if _, err := tx.ExecContext(ctx, m.SQL); err != nil {
		return nil, fmt.Errorf("apply migration %s: %w", m, err)
	}
	record := fmt.Sprintf("INSERT INTO %s (version, name, checksum, applied_at) VALUES (%s, %s, %s, %s)",
		p.Table, p.Placeholder(1), p.Placeholder(2), p.Placeholder(3), p.Placeholder(4))
	if _, err := tx.ExecContext(ctx, record, m.Version, m.Name, m.Checksum, p.Now().UTC().Format(time.RFC3339)); err != nil {
		return nil, fmt.Errorf("record migration %s: %w", m, err)
	}
	if err := tx.Commit(); err != nil {
		return nil, fmt.Errorf("commit migration %s: %w", m, err)
	}
	return &m, nil
}

// queryer is a *sql.DB or a *sql.Tx.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// check compares what was applied with what is known and returns how many of
// the known were applied.
func check(ctx context.Context, on queryer, p *Params) (n int, err error) {
	known := p.Migrations
	rows, err := on.QueryContext(ctx, "SELECT version, name, checksum FROM "+p.Table+" ORDER BY version")
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", p.Table, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for ; rows.Next(); n++ {
		var a Migration
		if err := rows.Scan(&a.Version, &a.Name, &a.Checksum); err != nil {
			return 0, fmt.Errorf("read %s: %w", p.Table, err)
		}
		i := slices.IndexFunc(known, func(m Migration) bool { return m.Version == a.Version })
		switch {
		case i < 0 && (len(known) == 0 || a.Version > known[len(known)-1].Version):
			return 0, fmt.Errorf("%w: it has migration %s; use the program that made it, or a later one", ErrNewer, a)
		case i < 0:
			return 0, fmt.Errorf("%w: the database has %s, which this program does not know; use the program that made it", ErrChanged, a)
		case i != n:
			return 0, fmt.Errorf("%w: %s was never applied, but the later %s was; use the program that applied it, or restore a backup", ErrChanged, known[n], a)
		case !strings.EqualFold(known[i].Checksum, a.Checksum):
			return 0, fmt.Errorf("%w: %s was applied with checksum %.12s, this program has %.12s; use the program that applied it, or restore a backup", ErrChanged, a, a.Checksum, known[i].Checksum)
		}
	}
	return n, rows.Err()
}
