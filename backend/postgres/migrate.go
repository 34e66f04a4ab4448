package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"hash/fnv"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/migrate"
	"github.com/holdfast-dev/holdfast/internal/runtime"
)

//go:embed migrations/*.sql migrations_vector/*.sql
var migrationFiles embed.FS

// line is a sequence of migrations with a table of its own that records them.
type line struct {
	dir, table string
	// before, which may be nil, runs before the migrations are read.
	before func(s *migrations, ctx context.Context, db *sql.DB) error
}

// lines returns the lines of a configuration. Only the first one is part of every schema.
func (c *Config) lines() []line {
	all := []line{{dir: "migrations", table: "schema_migrations"}}
	if c.Vectors {
		all = append(all, line{"migrations_vector", "schema_migrations_vector", (*migrations).findVectorExtension})
	}
	return all
}

// migrate brings the schema up to date, or rejects one that is not.
func (s *migrations) migrate(ctx context.Context, cc *pgx.ConnConfig) (err error) {
	db := s.connect(cc)
	defer func() { err = errors.Join(err, db.Close()) }()
	for _, l := range s.cfg.lines() {
		if err := s.applyMigrations(ctx, db, l); err != nil {
			return err
		}
	}
	return nil
}

// connect returns a pool for migrations, which the caller must close.
func (s *migrations) connect(cc *pgx.ConnConfig) *sql.DB {
	db := stdlib.OpenDB(*s.unset(cc))
	db.SetMaxOpenConns(2) // the lock, and a statement without transaction
	return db
}

// load returns what to migrate. recorded reports whether the table of applied migrations exists.
func (s *migrations) load(ctx context.Context, db *sql.DB, l line) (p migrate.Params, recorded bool, err error) {
	if l.before != nil {
		if err := l.before(s, ctx, db); err != nil {
			return p, false, err
		}
	}
	if p, err = s.params(l); err != nil {
		return p, false, err
	}
	return p, recorded, db.QueryRowContext(ctx, "SELECT to_regclass($1) IS NOT NULL", p.Table).Scan(&recorded)
}

func (s *migrations) applyMigrations(ctx context.Context, db *sql.DB, l line) error {
	p, recorded, err := s.load(ctx, db, l)
	if err != nil {
		return err
	}
	pending := p.Migrations
	if recorded {
		pending, err = migrate.Pending(ctx, db, p)
	}
	if err == nil && len(pending) > 0 {
		if !s.cfg.Migrate {
			switch {
			case l.before != nil && len(pending) == len(p.Migrations):
				return a2a.Errorf(a2a.CodeInternal, "schema %s has none of the %d migrations of %s: apply them first", s.cfg.Schema, len(pending), l.dir)
			case len(pending) == len(p.Migrations):
				return a2a.Errorf(a2a.CodeInternal, "schema %s is empty: apply its migrations first", s.cfg.Schema)
			}
			return a2a.Errorf(a2a.CodeInternal, "schema %s lacks %d of %d migrations, first %s: apply them first",
				s.cfg.Schema, len(pending), len(p.Migrations), pending[0])
		}
		m := &migrator{s: s, db: db}
		p.Statement, p.Retry = m.createIndex, m.retry
		_, err = migrate.Apply(ctx, db, p)
	}
	if err != nil && awaitsLock(err) {
		return a2a.Wrap(a2a.CodeUnavailable, err, "schema %s was not migrated within %s: %v: end the transaction that has the lock and try again",
			s.cfg.Schema, s.cfg.MigrationWait, s.cfg.maskPassword(err))
	}
	return s.schemaError(err)
}

// schemaError names the schema in errors about migrations that this program does not know.
func (s *migrations) schemaError(err error) error {
	if errors.Is(err, migrate.ErrNewer) || errors.Is(err, migrate.ErrChanged) {
		return a2a.Errorf(a2a.CodeInternal, "schema %s: %v", s.cfg.Schema, err)
	}
	return err
}

// migrations creates and updates the schema of a store.
type migrations struct {
	*database
	listing bool // changes nothing, and lists also what cannot be applied now
}

// migrator applies migrations while replicas are running.
type migrator struct {
	s     *migrations
	db    *sql.DB
	since time.Time // time of the first failure that is being retried
	tries int       // number of retries since then
}

// errBuilding reports that another process is building the index, or that the server still
// builds it for a process that has died.
var errBuilding = errors.New("the index is being built")

// awaitsLock reports whether a migration failed because of a lock of another transaction.
func awaitsLock(err error) bool {
	state := sqlState(err)
	return state == stateLockNotAvailable || state == stateDeadlock || errors.Is(err, errBuilding)
}

// retry waits before a migration that failed to get a lock is retried. It returns false when
// MigrationWait has passed. Schema changes have a short lock timeout, because all statements on
// the table queue behind them.
func (m *migrator) retry(ctx context.Context, err error) bool {
	if !awaitsLock(err) {
		return false
	}
	if m.since.IsZero() {
		m.since, m.tries = time.Now(), 0
	}
	delay := min(100*time.Millisecond<<min(m.tries, 6), m.s.cfg.MigrationWait/10)
	if time.Since(m.since)+delay > m.s.cfg.MigrationWait {
		return false
	}
	m.tries++
	m.s.log.Warn("migration waits for a lock", "schema", m.s.cfg.Schema, "error", m.s.cfg.maskPassword(err), "delay", delay, "try", m.tries)
	return runtime.Sleep(ctx, delay) == nil
}

// index is a statement CREATE INDEX CONCURRENTLY.
type index struct {
	unique, name, table, definition string
}

var createConcurrently = regexp.MustCompile(`(?s)^CREATE (UNIQUE )?INDEX CONCURRENTLY (\w+) ON (\S+) (.+)$`)

func parseIndex(text string) (index, error) {
	parts := createConcurrently.FindStringSubmatch(text)
	if parts == nil {
		return index{}, fmt.Errorf("statement %.60q, want CREATE [UNIQUE] INDEX CONCURRENTLY name ON {s}.table (...): only this statement may run without transaction", text)
	}
	return index{parts[1], parts[2], parts[3], parts[4]}, nil
}

func (x index) create(how, table string) string {
	return fmt.Sprintf("CREATE %sINDEX %s %s ON %s %s", x.unique, how, x.name, table, x.definition)
}

// createIndex runs a statement CREATE INDEX CONCURRENTLY, unless the index exists.
func (m *migrator) createIndex(ctx context.Context, text string) (err error) {
	x, err := parseIndex(text)
	if err != nil {
		return err
	}
	c, err := m.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	// No other statement queues behind this one while it waits for older transactions. Behind
	// a pooler the settings of the server apply.
	if !m.s.cfg.Pooler {
		const text = `SELECT set_config(name, CASE name WHEN 'lock_timeout' THEN $1 ELSE '0' END, false) FROM pg_settings
			WHERE name IN ('lock_timeout', 'statement_timeout', 'transaction_timeout')`
		if _, err := c.ExecContext(ctx, text, fmt.Sprint(m.s.cfg.MigrationWait.Milliseconds())); err != nil {
			return err
		}
	}
	if err := m.ensure(ctx, c, x); err != nil {
		return err
	}
	m.since = time.Time{}
	return nil
}

// ensure creates an index unless it exists and is valid. It first drops an incomplete one.
func (m *migrator) ensure(ctx context.Context, c *sql.Conn, x index) error {
	const sqlState = `SELECT c.relkind = 'p', i.oid IS NOT NULL, coalesce(pi.indisvalid, false),
			EXISTS (SELECT FROM pg_stat_progress_create_index b WHERE b.index_relid = i.oid AND b.datname = current_database())
		FROM pg_class c LEFT JOIN pg_class i ON i.relname = $2 AND i.relnamespace = c.relnamespace
		LEFT JOIN pg_index pi ON pi.indexrelid = i.oid WHERE c.oid = $1::regclass`
	var partitioned, exists, valid, building bool
	if err := c.QueryRowContext(ctx, sqlState, x.table, x.name).Scan(&partitioned, &exists, &valid, &building); err != nil {
		return err
	}
	switch {
	case valid:
		return nil
	case building:
		return fmt.Errorf("index %s: %w", x.name, errBuilding)
	case partitioned:
		return m.ensurePartitioned(ctx, c, x)
	case exists:
		m.s.log.Info("rebuilding an incomplete index", "schema", m.s.cfg.Schema, "index", x.name)
		if _, err := c.ExecContext(ctx, "DROP INDEX CONCURRENTLY IF EXISTS "+m.qualified(x.name)); err != nil {
			return err
		}
	}
	_, err := c.ExecContext(ctx, x.create("CONCURRENTLY", x.table))
	return err
}

// ensurePartitioned creates the index of each partition, and then attaches them to the index
// of the table, which makes it valid.
func (m *migrator) ensurePartitioned(ctx context.Context, c *sql.Conn, x index) error {
	var tables, ids string
	if err := c.QueryRowContext(ctx, `SELECT string_agg(inhrelid::regclass::text, ' ' ORDER BY inhrelid), string_agg(inhrelid::text, ' ' ORDER BY inhrelid)
		FROM pg_inherits WHERE inhparent = $1::regclass`, x.table).Scan(&tables, &ids); err != nil {
		return err
	}
	var parts []string
	for i, table := range strings.Fields(tables) {
		part := index{x.unique, x.name + "_" + strings.Fields(ids)[i], table, x.definition}
		if err := m.ensure(ctx, c, part); err != nil {
			return err
		}
		parts = append(parts, part.name)
	}
	text := []string{"BEGIN", fmt.Sprintf("SET LOCAL lock_timeout = %d", m.s.cfg.MigrationLockTimeout.Milliseconds()), x.create("IF NOT EXISTS", "ONLY "+x.table)}
	for _, part := range parts {
		text = append(text, fmt.Sprintf("ALTER INDEX %s ATTACH PARTITION %s", m.qualified(x.name), m.qualified(part)))
	}
	_, err := c.ExecContext(ctx, strings.Join(append(text, "COMMIT"), ";\n"))
	if err != nil {
		_, e := c.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		err = errors.Join(err, e)
	}
	return err
}

func (m *migrator) qualified(name string) string {
	return pgx.Identifier{m.s.cfg.Schema, name}.Sanitize()
}

// unset returns the configuration of a connection without the session settings of stores.
func (s *migrations) unset(cc *pgx.ConnConfig) *pgx.ConnConfig {
	if cc = cc.Copy(); s.cfg.Pooler {
		return cc
	}
	for name := range sessionSettings {
		if name != "application_name" {
			delete(cc.RuntimeParams, name)
		}
	}
	delete(cc.RuntimeParams, "lock_timeout")
	return cc
}

// lockID returns the key of the advisory lock for migrations of the schema.
func (s *migrations) lockID() int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte("holdfast migrations of " + s.cfg.Schema))
	return int64(h.Sum64() >> 1) // 63 bits
}
