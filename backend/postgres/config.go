package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/config"
)

// Config describes a database and how the store uses it. Zero fields have defaults.
type Config struct {
	// URL is the database URL, with the scheme postgres://, postgresql:// or
	// postgresql+asyncpg://. No log line and no error contains its password.
	URL string
	// Schema is the schema of the tables. The first migration creates it. Stores on
	// different schemas are independent. Default "holdfast".
	Schema string
	// PoolMin is the number of connections that stay open, default 2, negative for none.
	// PoolMax is the maximum number of connections, default 10. Client calls leave four
	// connections, or half of PoolMax if that is less, to commits, claims and renewals.
	// Lists use at most half of the rest.
	PoolMin int `default:"2" max:"10000"`
	PoolMax int `default:"10" min:"1" max:"10000"`
	// Timeout is how long a call waits for a connection. Default one minute.
	Timeout time.Duration `default:"60s" min:"1ns"`
	// CommandTimeout is the time limit of one command. Default 30 seconds.
	CommandTimeout time.Duration `default:"30s" min:"1ns"`
	// MaxRetries is the maximum number of retries of a command after a transient failure,
	// default 3, negative for none. RetryDelay is the pause before the first retry, default
	// one second; it doubles with each retry and has jitter. After a conflict with another
	// command the pause starts at five milliseconds, which a negative RetryDelay selects
	// for all failures.
	MaxRetries int           `default:"3"`
	RetryDelay time.Duration `default:"1s"`
	// Migrate lets Open apply pending migrations. Without it Open fails if any are pending.
	Migrate bool
	// MigrationLockTimeout is how long a statement of a migration waits for a lock, default
	// two seconds. While it waits, statements of running replicas queue behind it. After the
	// timeout they proceed, and the migration is retried. MigrationWait is how long it is
	// retried, default ten minutes. It also limits how long CREATE INDEX CONCURRENTLY waits
	// for older transactions, which blocks no statement.
	MigrationLockTimeout time.Duration `default:"2s" min:"1ms"`
	MigrationWait        time.Duration `default:"10m" min:"1ms"`
	// Pooler must be set behind a connection pooler in transaction mode, such as PgBouncer.
	// The store then uses neither prepared statements nor session settings, which costs
	// about a third of the throughput.
	Pooler bool
	// Vectors lets the store keep documents with embeddings; see [Store.Vectors]. It needs the
	// extension pgvector 0.8 or later, which the first migration creates if the server has it,
	// and migrations of their own.
	Vectors bool
	// HalfVectors builds indexes of embeddings with half precision, which need half the memory.
	// Searches compute scores from the embeddings as they were stored. Embeddings with more than
	// 2000 components are always indexed this way, and those with more than 4000 not at all.
	HalfVectors bool
	// CheckGraphs is called on a connection when the store opens, again after transient failures.
	// prefix is the [GraphPrefix] of the schema. A package that keeps copies of graphs, such as package
	// age, sets it. Without it, Open fails if graphs have copies.
	CheckGraphs func(ctx context.Context, c *pgx.Conn, prefix string) error
	// Logger receives what no call can return. Nil discards it.
	Logger *slog.Logger

	files     fs.FS // has the directories of migrations; nil means the embedded ones
	indexFrom int64 // number of documents from which a collection gets an index; 0 means indexFrom
}

// reserved returns the number of connections that client calls leave to commits, claims and
// renewals of leases.
func (c *Config) reserved() int { return min(4, c.PoolMax/2) }

// lockTimeout returns how long a statement waits for a lock: longer than the server's
// default deadlock_timeout of one second, unless CommandTimeout is short.
func (c *Config) lockTimeout() time.Duration { return min(2*time.Second, c.CommandTimeout/4) }

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// Check returns an error that lists all invalid settings. It opens nothing.
func (c Config) Check() error { return c.setDefaults() }

// setDefaults replaces zero fields by their defaults and reports all invalid fields.
func (c *Config) setDefaults() error {
	e := config.Apply("postgres", c)
	if c.Schema == "" {
		c.Schema = "holdfast"
	}
	e.Reject(!schemaName.MatchString(c.Schema) || strings.HasPrefix(c.Schema, "pg_"), "Schema", c.Schema,
		"up to 63 of a-z, 0-9 and _, starting with no digit and not with pg_")
	c.PoolMin, c.MaxRetries = max(min(c.PoolMin, c.PoolMax), 0), max(c.MaxRetries, 0)
	if c.RetryDelay < 0 {
		c.RetryDelay = conflictDelay
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.indexFrom == 0 {
		c.indexFrom = indexFrom
	}
	if c.files == nil {
		c.files = migrationFiles
	}
	var err error
	c.URL, err = libpqURL(c.URL)
	e.Add("URL", err)
	return e.OrNil()
}

// libpqURL returns a URL in the form of libpq, which does not decode "+" as a space. Its
// errors do not contain the URL.
func libpqURL(text string) (string, error) {
	if text == "" {
		return "", errors.New("is empty, want postgres://user:password@host:port/database")
	}
	u, err := url.Parse(text)
	if err != nil {
		return "", errors.New("cannot be parsed: want postgres://user:password@host:port/database, with special characters of the password as %XX")
	}
	switch u.Scheme {
	case "postgres", "postgresql", "postgresql+asyncpg":
	default:
		return "", fmt.Errorf("has the scheme %q, want postgres://, postgresql:// or postgresql+asyncpg://", u.Scheme+"://")
	}
	_, rest, _ := strings.Cut(text, ":")
	place, params, _ := strings.Cut(rest, "?")
	if params = libpqParams(params); params != "" {
		params = "?" + params
	}
	return "postgres:" + place + params, nil
}

// libpqParams renames the parameter ssl of asyncpg to sslmode, or removes it if sslmode is set.
func libpqParams(params string) string {
	var pairs []string
	has := func(pair, name string) bool { return strings.HasPrefix(pair, name+"=") }
	all := strings.Split(params, "&")
	named := slices.ContainsFunc(all, func(pair string) bool { return has(pair, "sslmode") })
	for _, pair := range all {
		switch {
		case pair == "ssl=", has(pair, "ssl") && named:
		case has(pair, "ssl"):
			pairs = append(pairs, "sslmode="+strings.TrimPrefix(pair, "ssl="))
		default:
			pairs = append(pairs, pair)
		}
	}
	return strings.Join(pairs, "&")
}

// maskURL returns a URL with its password masked and without parameters.
func maskURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	masked := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	if u.Host == "" && u.User == nil && u.Path == "" { // the environment has all settings
		return u.Scheme + "://"
	}
	if name := u.User.Username(); name != "" {
		masked.User = url.User(name)
		if _, ok := u.User.Password(); ok {
			return strings.Replace(masked.String(), "@", ":***@", 1)
		}
	}
	return masked.String()
}
