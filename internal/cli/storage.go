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

// The kinds of storage.
const (
	kindMemory   = "memory"
	kindSQLite   = "sqlite"
	kindPostgres = "postgres"
)

// storageFlags say which store a command opens, and how.
type storageFlags struct {
	configFlag

	Storage string `placeholder:"KIND" envvar:"HOLDFAST_STORAGE" also:"STORAGE_TYPE" group:"Storage:" help:"sqlite keeps everything in --data, postgres in a database that many servers can share, memory forgets it at the end. Default: postgres where there is a database URL, else sqlite."`

	DatabaseURL     string        `name:"database-url" secret:"" placeholder:"URL" envvar:"HOLDFAST_DATABASE_URL" also:"DATABASE_URL,postgres_url" group:"PostgreSQL:" help:"The database: postgres://user:password@host:port/database?sslmode=verify-full. It is better given by its variable or by --database-url-file: command lines can be seen by others."`
	DatabaseURLFile string        `name:"database-url-file" placeholder:"FILE" envvar:"HOLDFAST_DATABASE_URL_FILE" group:"PostgreSQL:" help:"A file with the URL of the database in it."`
	DID             string        `name:"did" placeholder:"DID" envvar:"HOLDFAST_DID" also:"POSTGRES_DID,DID" group:"PostgreSQL:" help:"Keep everything in a schema of this DID's own, which agents with other DIDs do not see."`
	Schema          string        `placeholder:"NAME" envvar:"HOLDFAST_SCHEMA" group:"PostgreSQL:" help:"The schema to keep everything in. Default: that of --did, else holdfast."`
	PoolMin         int           `name:"postgres-pool-min" placeholder:"N" envvar:"HOLDFAST_POSTGRES_POOL_MIN" also:"STORAGE__POSTGRES_POOL_MIN" default:"2" group:"PostgreSQL:" help:"How many connections are kept open. Default: ${default}."`
	PoolMax         int           `name:"postgres-pool-max" placeholder:"N" envvar:"HOLDFAST_POSTGRES_POOL_MAX" also:"STORAGE__POSTGRES_POOL_MAX" default:"10" group:"PostgreSQL:" help:"How many connections there are at most. Default: ${default}."`
	Timeout         time.Duration `name:"postgres-timeout" placeholder:"DURATION" envvar:"HOLDFAST_POSTGRES_TIMEOUT" also:"STORAGE__POSTGRES_TIMEOUT" default:"60s" group:"PostgreSQL:" help:"How long a request waits for a connection. Default: ${default}."`
	CommandTimeout  time.Duration `name:"postgres-command-timeout" placeholder:"DURATION" envvar:"HOLDFAST_POSTGRES_COMMAND_TIMEOUT" also:"STORAGE__POSTGRES_COMMAND_TIMEOUT" default:"30s" group:"PostgreSQL:" help:"How long one command may take. Default: ${default}."`
	MaxRetries      int           `name:"postgres-max-retries" placeholder:"N" envvar:"HOLDFAST_POSTGRES_MAX_RETRIES" also:"STORAGE__POSTGRES_MAX_RETRIES" default:"3" group:"PostgreSQL:" help:"How often a command is tried again after a failure that may pass. Default: ${default}."`
	RetryDelay      time.Duration `name:"postgres-retry-delay" placeholder:"DURATION" envvar:"HOLDFAST_POSTGRES_RETRY_DELAY" also:"STORAGE__POSTGRES_RETRY_DELAY" default:"1s" group:"PostgreSQL:" help:"The pause before the first such try; it doubles each time. Default: ${default}."`

	MigrationLockTimeout time.Duration `placeholder:"DURATION" envvar:"HOLDFAST_MIGRATION_LOCK_TIMEOUT" default:"2s" group:"PostgreSQL:" help:"How long a statement of a migration waits for a lock, with the statements of running servers behind it. Then the migration gives way and is tried again. Default: ${default}."`
	MigrationWait        time.Duration `placeholder:"DURATION" envvar:"HOLDFAST_MIGRATION_WAIT" default:"10m" group:"PostgreSQL:" help:"How long migrations are tried again, in all, while others have the locks that they need. Default: ${default}."`

	Pooler bool `name:"postgres-pooler" envvar:"HOLDFAST_POSTGRES_POOLER" also:"STORAGE__POSTGRES_POOLER" group:"PostgreSQL:" help:"There is a PgBouncer or the like in transaction mode in front of the database."`
}

// forPostgres are the flags that mean something with that storage only.
var forPostgres = []string{
	"database-url", "database-url-file", "did", "schema", "postgres-pool-min", "postgres-pool-max", "postgres-timeout",
	"postgres-command-timeout", "postgres-max-retries", "postgres-retry-delay", "migration-lock-timeout", "migration-wait",
	"postgres-pooler", "run-migrations-on-startup",
}

// storage is the store that a command is to open.
type storage struct {
	kind   string
	chosen string // what has chosen the kind, "" for the default
	data   string // of SQLite, absolute
	url    string // of PostgreSQL, masked
	cfg    postgres.Config
	notes  []string // what the operator should know about the settings
}

// choose finds out which store the settings mean, or all that is wrong with them.
func (f *storageFlags) choose(a *app, data string) (storage, error) {
	s := storage{kind: f.Storage}
	if f.Storage != "" {
		s.chosen = a.set.origins["storage"].name
	}
	errs := a.unknownVariables()
	dsn, which, err := f.databaseURL(a)
	if s.kind == "" && err == nil {
		s.kind, s.chosen = kindByURL(dsn, a.set.origins[which])
	}
	switch s.kind {
	case kindMemory, kindSQLite:
		s.unused(a, forPostgres)
		if s.kind == kindMemory {
			s.unused(a, []string{"data"})
		}
	case kindPostgres:
		s.unused(a, []string{"data"})
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

// kindByURL is the kind where none is given: whoever gives us a database wants it
// used. But DATABASE_URL is everybody's: one for something else is not for us.
func kindByURL(dsn string, from origin) (kind, chosen string) {
	if dsn == "" {
		return kindSQLite, ""
	}
	if from.name == "DATABASE_URL" && !ofPostgres.MatchString(dsn) {
		return kindSQLite, ""
	}
	return kindPostgres, from.name
}

// unused notes those of the settings that were given.
func (s *storage) unused(a *app, flags []string) {
	var given []string
	for _, name := range flags {
		if o := a.set.origins[name]; o.rank == byFile {
			given = append(given, fmt.Sprintf("%s (%s)", name, o))
		} else if o.rank != byDefault {
			given = append(given, o.name)
		}
	}
	switch {
	case len(given) == 1:
		s.notes = append(s.notes, fmt.Sprintf("%s has no effect: the storage is %s", given[0], s.kind))
	case len(given) > 1:
		s.notes = append(s.notes, fmt.Sprintf("%s have no effect: the storage is %s", strings.Join(given, ", "), s.kind))
	}
}

// databaseURL is the URL of the flag or of the file, and which of these.
func (f *storageFlags) databaseURL(a *app) (dsn, which string, err error) {
	which, err = a.set.stronger("database-url", "database-url-file")
	if err != nil || which != "database-url-file" {
		return f.DatabaseURL, which, err
	}
	raw, err := os.ReadFile(f.DatabaseURLFile)
	if err != nil {
		return "", which, fmt.Errorf("--database-url-file: %w", err)
	}
	text := strings.TrimSpace(string(raw))
	if text == "" || strings.ContainsAny(text, "\r\n") {
		return "", which, fmt.Errorf("--database-url-file: %s must have one line, the URL", f.DatabaseURLFile)
	}
	return text, which, nil
}

func checkURL(dsn, which string) error {
	if dsn == "" {
		return errors.New("--storage: postgres needs the URL of the database: set DATABASE_URL, --database-url or --database-url-file to " + urlForm)
	}
	if err := checkDatabaseURL(dsn); err != nil {
		return fmt.Errorf("--%s %s", which, strings.ReplaceAll(err.Error(), "\n", " and "))
	}
	return nil
}

var (
	didForm    = regexp.MustCompile(`^did:[a-z0-9]+:\S+$`)
	schemaForm = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)
)

// complete makes the configuration of PostgreSQL.
func (f *storageFlags) complete(a *app, s *storage, dsn string) error {
	var errs []error
	which, err := a.set.stronger("schema", "did")
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
	if f.DID != "" && !didForm.MatchString(strings.TrimSpace(f.DID)) {
		errs = append(errs, fmt.Errorf("--did is %q, want did:METHOD:ID", f.DID))
	}
	if f.Schema != "" && (!schemaForm.MatchString(f.Schema) || strings.HasPrefix(f.Schema, "pg_")) {
		errs = append(errs, fmt.Errorf("--schema is %q, want up to 63 of a-z, 0-9 and _, beginning with no digit and not with pg_", f.Schema))
	}
	if schema == "" {
		schema = "holdfast"
	}
	errs = append(errs, f.checkPool(a))
	s.url = maskURL(dsn)
	s.cfg = postgres.Config{
		URL: dsn, Schema: schema, PoolMin: orNone(min(f.PoolMin, f.PoolMax)), PoolMax: f.PoolMax, Timeout: f.Timeout,
		CommandTimeout: f.CommandTimeout, MaxRetries: orNone(f.MaxRetries), RetryDelay: orNone(f.RetryDelay), Pooler: f.Pooler,
		MigrationLockTimeout: f.MigrationLockTimeout, MigrationWait: f.MigrationWait,
	}
	return errors.Join(errs...)
}

// orNone writes zero as configurations do, where it would be the default.
func orNone[T int | time.Duration](n T) T {
	if n == 0 {
		return -1
	}
	return n
}

func (f *storageFlags) checkPool(a *app) error {
	const mostConnections = 10_000
	var errs []error
	for _, r := range []struct {
		bad  bool
		text string
	}{
		{f.PoolMin < 0 || f.PoolMin > mostConnections, fmt.Sprintf("--postgres-pool-min is %d, want 0 to %d", f.PoolMin, mostConnections)},
		{f.PoolMax < 1 || f.PoolMax > mostConnections, fmt.Sprintf("--postgres-pool-max is %d, want 1 to %d", f.PoolMax, mostConnections)},
		{
			f.PoolMin > f.PoolMax && a.set.origins["postgres-pool-min"].rank != byDefault,
			fmt.Sprintf("--postgres-pool-min is %d, want no more than --postgres-pool-max, which is %d", f.PoolMin, f.PoolMax),
		},
		{f.Timeout <= 0, fmt.Sprintf("--postgres-timeout is %s, want more than 0", f.Timeout)},
		{f.CommandTimeout <= 0, fmt.Sprintf("--postgres-command-timeout is %s, want more than 0", f.CommandTimeout)},
		{f.MaxRetries < 0, fmt.Sprintf("--postgres-max-retries is %d, want 0 or more", f.MaxRetries)},
		{f.MigrationLockTimeout < time.Millisecond, fmt.Sprintf("--migration-lock-timeout is %s, want 1ms or more", f.MigrationLockTimeout)},
		{f.MigrationWait < time.Millisecond, fmt.Sprintf("--migration-wait is %s, want 1ms or more", f.MigrationWait)},
		{f.RetryDelay < 0, fmt.Sprintf("--postgres-retry-delay is %s, want 0 or more", f.RetryDelay)},
	} {
		if r.bad {
			errs = append(errs, errors.New(r.text))
		}
	}
	return errors.Join(errs...)
}

// storagePrefix begins the variables of storage that other agent servers know, too.
const storagePrefix = "STORAGE__"

// unknownVariables refuses what looks like a setting of storage and is none.
func (a *app) unknownVariables() (errs []error) {
	known := map[string]bool{}
	for _, flag := range a.set.known {
		for _, name := range envNames(flag.Value) {
			known[name] = true
		}
	}
	for name, value := range a.env.values {
		if value == "" || !strings.HasPrefix(strings.ToUpper(name), storagePrefix) || known[name] {
			continue
		}
		text := fmt.Sprintf("there is no setting %s", name)
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

// place says where the data is.
func (s *storage) place() string {
	switch s.kind {
	case kindPostgres:
		return s.url + ", schema " + s.cfg.Schema
	case kindSQLite:
		return s.data
	}
	return "memory"
}

// open opens the store to be written. Only serve has use for one in memory.
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

// openToRead opens a store that is there, while servers may be using it.
func (s *storage) openToRead(ctx context.Context, a *app) (store.Store, error) {
	if s.kind == kindSQLite {
		return sqlite.Open(ctx, sqlite.Config{Dir: s.data, ReadOnly: true})
	}
	return s.open(ctx, a, nil)
}

// tell says what the operator should know about the settings.
func (s *storage) tell(a *app) { a.note(s.notes) }

func (a *app) note(notes []string) {
	for _, note := range notes {
		a.say("%s %s", a.err.red("note:"), note)
	}
}

// lasting refuses a store that ends with the command.
func (s *storage) lasting() error {
	if s.kind == kindMemory {
		return usagef("--storage is memory, which this command has no use for: want sqlite or postgres")
	}
	return nil
}

// explain says what to run where the database is not as it should be.
func (s *storage) explain(ctx context.Context, a *app, err error) error {
	err = explainConnection(err)
	var coded *a2a.Error
	if !errors.As(err, &coded) || coded.Code != a2a.CodeInternal {
		return err
	}
	if errors.Is(err, postgres.ErrPooler) {
		return err // it has its hint
	}
	all, merr := s.migrations(ctx)
	if merr != nil || s.cfg.Migrate || len(pending(all)) == 0 {
		return err
	}
	return &hinted{err, "run: " + a.again("migrate up") + " (or let serve do it: --run-migrations-on-startup, STORAGE__RUN_MIGRATIONS_ON_STARTUP=true)"}
}

// explainConnection has an error of PostgreSQL on one line, and says what to do about
// a pooler or a certificate.
func explainConnection(err error) error {
	var (
		unknown x509.UnknownAuthorityError
		host    x509.HostnameError
		invalid x509.CertificateInvalidError
	)
	told := error(&onLine{err})
	switch {
	case errors.Is(err, postgres.ErrPooler):
		return &hinted{told, "say so: --postgres-pooler, STORAGE__POSTGRES_POOLER=true"}
	case errors.As(err, &unknown):
		return &hinted{told, "something answers, with a certificate of an authority that is not known here: sslrootcert=FILE in the URL names its certificate"}
	case errors.As(err, &host):
		return &hinted{told, "something answers, with a certificate for another host: name the host in the URL as the certificate does, or let sslmode=verify-ca do"}
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return &hinted{told, "something answers, with a certificate that is not valid now: renew it there, or set the clock here"}
	}
	return told
}

// onLine is an error whose text is one line, with nothing in it twice: a driver
// that tries a host with and without TLS says a line of each.
type onLine struct{ error }

func (e *onLine) Unwrap() error { return e.error }

func (e *onLine) Error() string {
	var lines []string
	for line := range strings.Lines(e.error.Error()) {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.ReplaceAll(strings.Join(lines, "; "), ":; ", ": ")
}

// again is a command line with those settings of storage that were on this one.
func (a *app) again(command string) string {
	line := a.name + " " + command
	for _, flag := range a.set.flags {
		about := flag.Name == "config" || flag.Name == "storage" || flag.Name == "data" || slices.Contains(forPostgres, flag.Name)
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
