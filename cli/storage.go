package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/postgres"
	"github.com/holdfast-dev/holdfast/backend/postgres/age"
	"github.com/holdfast-dev/holdfast/cli/command"
	"github.com/holdfast-dev/holdfast/embedding"
	"github.com/holdfast-dev/holdfast/store"
)

// storageFlags select and configure the store that a command opens.
type storageFlags struct {
	configFlag

	Storage string `placeholder:"KIND" envvar:"" also:"STORAGE_TYPE" group:"Storage:" help:"Storage: sqlite (files in --data), postgres (a database that many servers can share) or memory (lost at exit). The default is postgres if a database URL is set, else sqlite."`

	IndexMemory size `placeholder:"SIZE" envvar:"" group:"Storage:" help:"Memory for the indexes of documents in SQLite and, a quarter of it, for the embeddings of facts, besides --memory. Those that were not used for the longest time are dropped and read again (default an eighth of the cgroup limit or of the machine's memory, 64MiB to 1GiB)."`

	contractFlags
	embeddingFlags

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

	extensionFlags
}

// extensionFlags turn on what needs extensions of PostgreSQL.
type extensionFlags struct {
	Vectors     bool `field:"postgres.Vectors" name:"postgres-vectors" envvar:"" group:"PostgreSQL:" help:"Keep documents with embeddings. Needs the extension pgvector 0.8 or later and migrations of their own."`
	HalfVectors bool `field:"postgres.HalfVectors" name:"postgres-half-vectors" envvar:"" group:"PostgreSQL:" help:"Index embeddings with half precision, which needs half the memory."`
	AGE         bool `field:"age.Copy" name:"postgres-age" envvar:"" group:"PostgreSQL:" help:"Keep a copy of each graph in Apache AGE, which executes queries in openCypher. Needs the extension age."`
}

// storage is the store that the settings select.
type storage struct {
	backend
	chosenBy string // the setting that selected the kind, "" for the default
	data     string // directory, absolute; "" if it has none
	indexes  size   // memory for indexes of documents; 0 means the default
	url      string // of the database, masked; "" if it has none
	dsn      databaseURL
	cfg      postgres.Config
	age      age.Config // with cfg when the store is opened
	notes    []string   // about settings without effect

	contracts []contractStore   // of contracts with a URL of their own
	embedder  *embedding.Client // nil if none is configured
}

// resolve returns the store that the settings select, or all problems as one usage error.
func (f *storageFlags) resolve(a *app, data string) (storage, error) {
	s := storage{dsn: f.databaseURL(a)}
	errs := a.unknownStorageVariables()
	switch {
	case f.Storage != "":
		var err error
		s.backend, err = backendOf(f.Storage)
		s.chosenBy, errs = a.set.origins["storage"].name, append(errs, err)
	case s.dsn.err == nil:
		s.backend, s.chosenBy = backendByURL(s.dsn.url, a.set.origins[s.dsn.flag])
	default:
		errs = append(errs, s.dsn.err)
	}
	var contractErrs []error
	s.contracts, contractErrs = f.resolveContracts(a)
	errs = append(errs, contractErrs...)
	var embedderErr error
	s.embedder, embedderErr = f.embedder(a)
	errs = append(errs, embedderErr)
	if s.kind != "" {
		for _, b := range backends() {
			if b.kind != s.kind && !slices.ContainsFunc(s.contracts, func(c contractStore) bool { return c.kind == b.kind }) {
				s.noteUnused(a, b.flags)
			}
		}
		errs = append(errs, s.resolve(f, a, &s, data))
	}
	if err := errors.Join(errs...); err != nil {
		return s, command.Usagef("%s", err)
	}
	return s, nil
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

// databaseURL is the database URL of the settings.
type databaseURL struct {
	url  string
	flag string // that sets it, "" if none
	err  error
}

// databaseURL returns the database URL.
func (f *storageFlags) databaseURL(a *app) databaseURL {
	which, err := a.set.selectFlag("database-url", "database-url-file")
	if err != nil || which != "database-url-file" {
		return databaseURL{f.DatabaseURL, which, err}
	}
	raw, err := os.ReadFile(f.DatabaseURLFile)
	text := strings.TrimSpace(string(raw))
	switch {
	case err != nil:
		err = fmt.Errorf("--database-url-file: %w", err)
	case text == "" || strings.ContainsAny(text, "\r\n"):
		err = fmt.Errorf("--database-url-file: %s must contain one line, the URL", f.DatabaseURLFile)
	}
	return databaseURL{text, which, err}
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
	switch {
	case s.url != "":
		return s.url + ", schema " + s.cfg.Schema
	case s.data != "":
		return s.data
	}
	return "memory"
}

// open opens the store for writing.
func (s *storage) open(ctx context.Context, a *app, log *slog.Logger) (store.Store, error) {
	st, err := s.backend.open(ctx, s, log)
	switch {
	case err == nil:
		return st, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, local(s.explain(ctx, a, err))
}

// openExisting opens an existing store, which servers may be using, for reading at least.
func (s *storage) openExisting(ctx context.Context, a *app) (store.Store, error) {
	if s.backend.openExisting != nil {
		st, err := s.backend.openExisting(ctx, s)
		return st, local(err)
	}
	return s.open(ctx, a, nil)
}

// printNotes prints the notes about settings without effect.
func (s *storage) printNotes(a *app) { a.printNotes(s.notes) }

func (a *app) printNotes(notes []string) {
	for _, note := range notes {
		a.Info("%s %s", a.Err.Red("note:"), note)
	}
}

// requirePersistent returns an error for storage in memory.
func (s *storage) requirePersistent() error {
	if s.inMemory {
		return command.Usagef("--storage is %s, want %s for this command", s.kind, kinds(func(b *backend) bool { return !b.inMemory }))
	}
	return nil
}

// explain adds a hint to an error of a shared store about pending migrations, which it does not apply.
func (s *storage) explain(ctx context.Context, a *app, err error) error {
	var coded *a2a.Error
	if !s.shared || !errors.As(err, &coded) || coded.Code != a2a.CodeInternal {
		return err
	}
	if a.hint(err) != "" {
		return err
	}
	all, merr := s.migrations(ctx, s)
	if merr != nil || s.cfg.Migrate || len(pending(all)) == 0 {
		return err
	}
	return command.WithHint(err, "run: "+a.withStorageFlags("migrate up")+" (or start serve with --run-migrations-on-startup or STORAGE__RUN_MIGRATIONS_ON_STARTUP=true)")
}

// withStorageFlags returns a command line with the storage flags of this command line.
func (a *app) withStorageFlags(command string) string {
	line := a.name + " " + command
	for _, flag := range a.set.flags {
		about := flag.Name == "config" || flag.Name == "storage" || slices.Contains(backendFlags(), flag.Name)
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
