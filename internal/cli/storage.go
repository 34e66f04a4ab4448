package cli

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/backend/postgres"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/store"
)

// Kinds of storage.
const (
	kindMemory   = "memory"
	kindSQLite   = "sqlite"
	kindPostgres = "postgres"
)

// storageFlags select and configure the store that a command opens.
type storageFlags struct {
	configFlag

	Storage string `placeholder:"KIND" envvar:"" also:"STORAGE_TYPE" group:"Storage:" help:"Storage: sqlite (files in --data), postgres (a database that many servers can share) or memory (lost at exit). The default is postgres if a database URL is set, else sqlite."`

	DatabaseURL     string        `secret:"" placeholder:"URL" envvar:"" also:"DATABASE_URL,postgres_url" group:"PostgreSQL:" help:"Database URL: postgres://user:password@host:port/database?sslmode=verify-full. Prefer the variable or --database-url-file: other users can see command lines."`
	DatabaseURLFile string        `placeholder:"FILE" envvar:"" group:"PostgreSQL:" help:"File that contains the database URL."`
	DID             string        `placeholder:"DID" envvar:"" also:"POSTGRES_DID,DID" group:"PostgreSQL:" help:"Use a separate schema for this DID, so that agents with other DIDs do not see its data."`
	Schema          string        `field:"postgres.Schema" placeholder:"NAME" envvar:"" group:"PostgreSQL:" help:"Schema name (default derived from --did, else holdfast)."`
	PoolMin         int           `field:"postgres.PoolMin" name:"postgres-pool-min" envvar:"" also:"STORAGE__POSTGRES_POOL_MIN" group:"PostgreSQL:" help:"Minimum number of open connections."`
	PoolMax         int           `field:"postgres.PoolMax" name:"postgres-pool-max" envvar:"" also:"STORAGE__POSTGRES_POOL_MAX" group:"PostgreSQL:" help:"Maximum number of connections."`
	Timeout         time.Duration `field:"postgres.Timeout" name:"postgres-timeout" envvar:"" also:"STORAGE__POSTGRES_TIMEOUT" group:"PostgreSQL:" help:"Maximum time that a request waits for a connection."`
	CommandTimeout  time.Duration `field:"postgres.CommandTimeout" name:"postgres-command-timeout" envvar:"" also:"STORAGE__POSTGRES_COMMAND_TIMEOUT" group:"PostgreSQL:" help:"Maximum duration of one command."`
	MaxRetries      int           `field:"postgres.MaxRetries" name:"postgres-max-retries" envvar:"" also:"STORAGE__POSTGRES_MAX_RETRIES" group:"PostgreSQL:" help:"Maximum number of retries of a command after a transient error."`
	RetryDelay      time.Duration `field:"postgres.RetryDelay" name:"postgres-retry-delay" envvar:"" also:"STORAGE__POSTGRES_RETRY_DELAY" group:"PostgreSQL:" help:"Backoff before the first retry; it doubles with each retry."`

	MigrationLockTimeout time.Duration `field:"postgres.MigrationLockTimeout" envvar:"" group:"PostgreSQL:" help:"Lock timeout of a migration statement; running servers wait behind it. The migration is then retried."`
	MigrationWait        time.Duration `field:"postgres.MigrationWait" envvar:"" group:"PostgreSQL:" help:"Maximum time to retry migrations while other sessions hold locks that they need."`

	Pooler bool `field:"postgres.Pooler" name:"postgres-pooler" envvar:"" also:"STORAGE__POSTGRES_POOLER" group:"PostgreSQL:" help:"Set this if a pooler in transaction mode, such as PgBouncer, is in front of the database."`
}

// postgresFlags are the flags that have an effect with PostgreSQL only.
var postgresFlags = []string{
	"database-url", "database-url-file", "did", "schema", "postgres-pool-min", "postgres-pool-max", "postgres-timeout",
	"postgres-command-timeout", "postgres-max-retries", "postgres-retry-delay", "migration-lock-timeout", "migration-wait",
	"postgres-pooler", "run-migrations-on-startup",
}

// storage is the store that the settings select.
type storage struct {
	kind     string
	chosenBy string // the setting that selected the kind, "" for the default
	data     string // of SQLite, absolute
	url      string // of PostgreSQL, masked
	cfg      postgres.Config
	notes    []string // about settings without effect
}

// resolve returns the store that the settings select, or all problems as one usage error.
func (f *storageFlags) resolve(a *app, data string) (storage, error) {
	s := storage{kind: f.Storage}
	if f.Storage != "" {
		s.chosenBy = a.set.origins["storage"].name
	}
	errs := a.unknownStorageVariables()
	dsn, which, err := f.databaseURL(a)
	if s.kind == "" && err == nil {
		s.kind, s.chosenBy = kindByURL(dsn, a.set.origins[which])
	}
	switch s.kind {
	case kindMemory, kindSQLite:
		s.noteUnused(a, postgresFlags)
		if s.kind == kindMemory {
			s.noteUnused(a, []string{"data"})
		}
	case kindPostgres:
		s.noteUnused(a, []string{"data"})
		if err == nil {
			err = checkURL(dsn, which)
		}
		errs = append(errs, err, f.complete(a, &s, dsn))
	case "":
		errs = append(errs, err)
	default:
		errs = append(errs, fmt.Errorf("--storage is %q, want sqlite, postgres or memory", s.kind))
	}
	if data == "" && s.kind == kindSQLite {
		errs = append(errs, errors.New("--data must name a directory"))
	}
	if s.kind == kindSQLite && data != "" {
		s.data, err = filepath.Abs(data)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return s, usagef("%s", err)
	}
	return s, nil
}

// kindByURL returns the kind of storage if none is set: PostgreSQL with a database URL, else SQLite. It
// ignores DATABASE_URL if that is for another database system, since other programs use it too.
func kindByURL(dsn string, from origin) (kind, chosen string) {
	if dsn == "" {
		return kindSQLite, ""
	}
	if from.name == "DATABASE_URL" && !postgresURLPattern.MatchString(dsn) {
		return kindSQLite, ""
	}
	return kindPostgres, from.name
}

// noteUnused adds a note about the given flags that are set but have no effect.
func (s *storage) noteUnused(a *app, flags []string) {
	var names []string
	for _, name := range flags {
		if o := a.set.origins[name]; o.rank == byFile {
			names = append(names, fmt.Sprintf("%s (%s)", name, o))
		} else if o.rank != byDefault {
			names = append(names, o.name)
		}
	}
	switch {
	case len(names) == 1:
		s.notes = append(s.notes, fmt.Sprintf("%s has no effect: the storage is %s", names[0], s.kind))
	case len(names) > 1:
		s.notes = append(s.notes, fmt.Sprintf("%s have no effect: the storage is %s", strings.Join(names, ", "), s.kind))
	}
}

// databaseURL returns the database URL and the name of the flag that sets it.
func (f *storageFlags) databaseURL(a *app) (dsn, which string, err error) {
	which, err = a.set.selectFlag("database-url", "database-url-file")
	if err != nil || which != "database-url-file" {
		return f.DatabaseURL, which, err
	}
	raw, err := os.ReadFile(f.DatabaseURLFile)
	if err != nil {
		return "", which, fmt.Errorf("--database-url-file: %w", err)
	}
	text := strings.TrimSpace(string(raw))
	if text == "" || strings.ContainsAny(text, "\r\n") {
		return "", which, fmt.Errorf("--database-url-file: %s must contain one line, the URL", f.DatabaseURLFile)
	}
	return text, which, nil
}

func checkURL(dsn, which string) error {
	if dsn == "" {
		return errors.New("--storage: postgres needs the URL of the database: set DATABASE_URL, --database-url or --database-url-file to " + urlFormat)
	}
	if err := checkDatabaseURL(dsn); err != nil {
		return fmt.Errorf("--%s %s", which, strings.ReplaceAll(err.Error(), "\n", " and "))
	}
	return nil
}

var didPattern = regexp.MustCompile(`^did:[a-z0-9]+:\S+$`)

// complete sets the configuration of PostgreSQL.
func (f *storageFlags) complete(a *app, s *storage, dsn string) error {
	var errs []error
	which, err := a.set.selectFlag("schema", "did")
	errs = append(errs, err)
	schema := f.Schema
	switch {
	case which == "did":
		schema = postgres.SchemaOf(strings.TrimSpace(f.DID))
		if f.Schema != "" {
			s.notes = append(s.notes, fmt.Sprintf("%s has no effect: the schema is that of %s", a.set.origins["schema"], a.set.origins["did"]))
		}
	case f.DID != "" && err == nil:
		s.notes = append(s.notes, fmt.Sprintf("%s has no effect: the schema is that of %s", a.set.origins["did"], a.set.origins["schema"]))
	}
	if f.DID != "" && !didPattern.MatchString(strings.TrimSpace(f.DID)) {
		errs = append(errs, fmt.Errorf("--did is %q, want did:METHOD:ID", f.DID))
	}
	if schema == "" {
		schema = "holdfast"
	}
	if f.PoolMin > f.PoolMax && a.set.origins["postgres-pool-min"].rank != byDefault {
		errs = append(errs, fmt.Errorf("--postgres-pool-min is %d, want no more than --postgres-pool-max, which is %d", f.PoolMin, f.PoolMax))
	}
	a.set.bind("postgres.", &s.cfg)
	s.url, s.cfg.URL, s.cfg.Schema = maskURL(dsn), "postgres://checked", schema
	errs = append(errs, a.set.checkBounds(true)...)
	errs = append(errs, a.set.problemsOf("postgres.", s.cfg.Check(), "")...)
	s.cfg.URL = dsn
	return errors.Join(errs...)
}

// storagePrefix is the prefix of storage variables that other agent servers use too.
const storagePrefix = "STORAGE__"

// unknownStorageVariables returns an error for each unknown variable with storagePrefix.
func (a *app) unknownStorageVariables() (errs []error) {
	known := map[string]bool{}
	for _, flag := range a.set.serveFlags {
		for _, name := range envNames(flag.Value) {
			known[name] = true
		}
	}
	for name, value := range a.env.values {
		if value == "" || !strings.HasPrefix(strings.ToUpper(name), storagePrefix) || known[name] {
			continue
		}
		text := fmt.Sprintf("unknown setting %s", name)
		best, distance := "", len(name)/3+1
		for other := range known {
			d := editDistance(strings.ToUpper(name), other)
			if strings.HasPrefix(other, storagePrefix) && (d < distance || d == distance && other < best) {
				best, distance = other, d
			}
		}
		if best != "" {
			text += ", did you mean " + best + "?"
		}
		errs = append(errs, errors.New(text))
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errs
}

// location describes where the data is.
func (s *storage) location() string {
	switch s.kind {
	case kindPostgres:
		return s.url + ", schema " + s.cfg.Schema
	case kindSQLite:
		return s.data
	}
	return "memory"
}

// open opens the store for writing.
func (s *storage) open(ctx context.Context, a *app, log *slog.Logger) (store.Store, error) {
	switch s.kind {
	case kindMemory:
		return inmem.New(), nil
	case kindPostgres:
		s.cfg.Logger = log
		st, err := postgres.Open(ctx, s.cfg)
		switch {
		case err == nil:
			return st, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		}
		return nil, s.explain(ctx, a, err)
	}
	return sqlite.Open(ctx, sqlite.Config{Dir: s.data, Logger: log})
}

// openExisting opens an existing store, which servers may be using. SQLite is opened read-only.
func (s *storage) openExisting(ctx context.Context, a *app) (store.Store, error) {
	if s.kind == kindSQLite {
		return sqlite.Open(ctx, sqlite.Config{Dir: s.data, ReadOnly: true})
	}
	return s.open(ctx, a, nil)
}

// printNotes prints the notes about settings without effect.
func (s *storage) printNotes(a *app) { a.printNotes(s.notes) }

func (a *app) printNotes(notes []string) {
	for _, note := range notes {
		a.info("%s %s", a.err.red("note:"), note)
	}
}

// requirePersistent returns an error for storage in memory.
func (s *storage) requirePersistent() error {
	if s.kind == kindMemory {
		return usagef("--storage is memory, want sqlite or postgres for this command")
	}
	return nil
}

// explain adds a hint to an error of the database, such as pending migrations.
func (s *storage) explain(ctx context.Context, a *app, err error) error {
	err = explainConnection(err)
	var coded *a2a.Error
	if !errors.As(err, &coded) || coded.Code != a2a.CodeInternal {
		return err
	}
	if errors.Is(err, postgres.ErrPooler) {
		return err // has a hint
	}
	all, merr := s.migrations(ctx)
	if merr != nil || s.cfg.Migrate || len(pending(all)) == 0 {
		return err
	}
	return &hintError{err, "run: " + a.withStorageFlags("migrate up") + " (or start serve with --run-migrations-on-startup or STORAGE__RUN_MIGRATIONS_ON_STARTUP=true)"}
}

// explainConnection returns an error of PostgreSQL as one line, with a hint about poolers and
// certificates.
func explainConnection(err error) error {
	var (
		unknown x509.UnknownAuthorityError
		host    x509.HostnameError
		invalid x509.CertificateInvalidError
	)
	wrapped := error(&singleLineError{err})
	switch {
	case errors.Is(err, postgres.ErrPooler):
		return &hintError{wrapped, "set --postgres-pooler or STORAGE__POSTGRES_POOLER=true"}
	case errors.As(err, &unknown):
		return &hintError{wrapped, "the server's certificate is signed by an unknown authority: set sslrootcert=FILE in the URL to the authority's certificate"}
	case errors.As(err, &host):
		return &hintError{wrapped, "the server's certificate is for another host: use the host name of the certificate in the URL, or set sslmode=verify-ca"}
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return &hintError{wrapped, "the server's certificate has expired or is not valid yet: renew it, or correct this machine's clock"}
	}
	return wrapped
}

// singleLineError is an error with its distinct lines joined into one. A driver that tries a host with
// and without TLS returns a line for each attempt.
type singleLineError struct{ error }

func (e *singleLineError) Unwrap() error { return e.error }

func (e *singleLineError) Error() string {
	var lines []string
	for line := range strings.Lines(e.error.Error()) {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.ReplaceAll(strings.Join(lines, "; "), ":; ", ": ")
}

// withStorageFlags returns a command line with the storage flags of this command line.
func (a *app) withStorageFlags(command string) string {
	line := a.name + " " + command
	for _, flag := range a.set.flags {
		about := flag.Name == "config" || flag.Name == "storage" || flag.Name == "data" || slices.Contains(postgresFlags, flag.Name)
		if !about || a.set.origins[flag.Name].rank != byFlag || flag.Name == "run-migrations-on-startup" {
			continue
		}
		line += " --" + flag.Name
		if value := fmt.Sprint(flag.Target.Interface()); flag.Name == "database-url" {
			line += " " + quoteShell(maskURL(value))
		} else if !flag.IsBool() {
			line += " " + quoteShell(value)
		}
	}
	return line
}
