package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/backend/postgres"
	"github.com/holdfast-dev/holdfast/backend/postgres/age"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/contract"
)

// backend is a kind of storage. Other files use its properties and name no kind. A kind without the
// function open has no store of tasks, but stores of contracts.
type backend struct {
	kind  string // the value of --storage
	label string // name for people, if the location does not show it
	// urls matches the database URLs that select the kind; nil if none does.
	urls *regexp.Regexp
	// inMemory reports that data ends with the process, shared that several processes can use it.
	inMemory, shared bool
	// flags have an effect with this kind only.
	flags []string
	// resolve checks the settings and completes s. data is --data.
	resolve func(f *storageFlags, a *app, s *storage, data string) error
	open    func(ctx context.Context, s *storage, log *slog.Logger) (store.Store, error)
	// openExisting opens an existing store that servers may be using, for reading; nil if open does.
	openExisting func(ctx context.Context, s *storage) (store.Store, error)
	migrations   func(ctx context.Context, s *storage) ([]migration, error)

	// contracts are the names of the contracts for which a kind without open has stores. schemes are the
	// schemes of the URLs of contracts, "" for a path, and example shows such a URL.
	contracts, schemes []string
	example            string
	// locate sets the location of the storage at the URL of a contract. For kinds with open.
	locate func(a *app, s *storage, url string) error
	// check and connect are the functions of the [StoreOpener]. For kinds without open.
	check   func(url string) error
	connect func(ctx context.Context, p OpenParams) (OpenedContracts, error)
}

// has reports whether the kind of storage has a store of a contract.
func (b *backend) has(kind *contract.Kind) bool {
	return b.open != nil || slices.Contains(b.contracts, kind.Name)
}

// storages returns the kinds of storage for tasks, the default first.
func storages() []backend {
	return slices.DeleteFunc(backends(), func(b backend) bool { return b.open == nil })
}

// backends returns all kinds of storage, the default first. Openers are set by [Parts].
func backends() []backend {
	return []backend{
		{
			kind: "sqlite", label: "SQLite", flags: []string{"data", "index-memory"},
			resolve: func(f *storageFlags, _ *app, s *storage, data string) (err error) {
				if data == "" {
					return errors.New("--data must name a directory")
				}
				s.indexes = f.IndexMemory
				s.data, err = filepath.Abs(data)
				return err
			},
			open: func(ctx context.Context, s *storage, log *slog.Logger) (store.Store, error) {
				return sqlite.Open(context.WithoutCancel(ctx), sqlite.Config{Dir: s.data, IndexMemory: int64(s.indexes), Logger: log})
			},
			openExisting: func(ctx context.Context, s *storage) (store.Store, error) {
				return sqlite.Open(ctx, sqlite.Config{Dir: s.data, ReadOnly: true})
			},
			migrations: func(ctx context.Context, s *storage) ([]migration, error) {
				return convertMigrations(sqlite.Migrations(ctx, s.data))
			},
			schemes: []string{"", "sqlite"}, example: "sqlite:DIRECTORY",
			locate: func(_ *app, s *storage, url string) (err error) {
				if schemeOf(url) != "" {
					_, url, _ = strings.Cut(url, ":")
					url = strings.TrimPrefix(url, "//")
				}
				if url == "" {
					return errors.New("names no directory: want sqlite:DIRECTORY")
				}
				s.data, err = filepath.Abs(url)
				return err
			},
		},
		{
			kind: "postgres", urls: postgresURLPattern, shared: true,
			flags: []string{
				"database-url", "database-url-file", "did", "schema", "postgres-pool-min", "postgres-pool-max", "postgres-timeout",
				"postgres-command-timeout", "postgres-max-retries", "postgres-retry-delay", "migration-lock-timeout", "migration-wait",
				"postgres-pooler", "run-migrations-on-startup", "postgres-vectors", "postgres-half-vectors", "postgres-age",
			},
			resolve: (*storageFlags).resolvePostgres,
			open: func(ctx context.Context, s *storage, log *slog.Logger) (store.Store, error) {
				s.cfg.Logger = log
				s.age.Postgres = s.cfg
				st, err := age.Open(ctx, s.age)
				if err != nil { // st is a nil *age.Store
					return nil, explainConnection(err)
				}
				return st, nil
			},
			migrations: func(ctx context.Context, s *storage) ([]migration, error) {
				all, err := convertMigrations(postgres.Migrations(ctx, s.cfg))
				if err != nil {
					return nil, explainConnection(err)
				}
				return all, nil
			},
			schemes: databaseSchemes, example: "postgres://",
			locate: locatePostgres,
		},
		{
			kind: "memory", inMemory: true,
			resolve: func(*storageFlags, *app, *storage, string) error { return nil },
			open:    func(context.Context, *storage, *slog.Logger) (store.Store, error) { return inmem.New(), nil },

			schemes: []string{"memory"}, example: "memory",
			locate: func(*app, *storage, string) error { return nil },
		},
		{
			kind: "s3", shared: true, contracts: []string{"blobs"}, schemes: []string{"s3"}, example: "s3://BUCKET",
		},
		{
			kind: "redis", shared: true, contracts: []string{"transcripts", "session states"}, schemes: []string{"redis", "rediss"}, example: "redis://",
		},
	}
}

// convertMigrations converts the migrations of a backend.
func convertMigrations[M sqlite.Migration | postgres.Migration](known []M, err error) ([]migration, error) {
	all := make([]migration, len(known))
	for i, m := range known {
		all[i] = migration(m)
	}
	return all, err
}

// backendOf returns a kind of storage by its name.
func backendOf(kind string) (backend, error) {
	all := storages()
	i := slices.IndexFunc(all, func(b backend) bool { return b.kind == kind })
	if i < 0 {
		return backend{}, fmt.Errorf("--storage is %q, want %s", kind, kinds(func(*backend) bool { return true }))
	}
	return all[i], nil
}

// kinds returns the names of the backends that match, as text.
func kinds(match func(*backend) bool) string {
	var names []string
	for _, b := range storages() {
		if match(&b) {
			names = append(names, b.kind)
		}
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// backendByURL returns the kind of storage if none is set, and the name of the setting that selects it:
// the kind of the database URL, else the default. It ignores DATABASE_URL if that is for another database
// system, since other programs use it too.
func backendByURL(dsn string, from origin) (selected backend, by string) {
	all := storages()
	if dsn == "" {
		return all[0], ""
	}
	i := slices.IndexFunc(all, func(b backend) bool { return b.urls != nil && b.urls.MatchString(dsn) })
	switch {
	case i >= 0:
		return all[i], from.name
	case from.name == "DATABASE_URL":
		return all[0], ""
	}
	// An invalid URL is an error of the first kind that has URLs: data must not go to another store.
	return all[slices.IndexFunc(all, func(b backend) bool { return b.urls != nil })], from.name
}

// backendFlags returns the flags of all kinds that have an effect with one kind only.
func backendFlags() (names []string) {
	for _, b := range backends() {
		names = append(names, b.flags...)
	}
	return names
}
