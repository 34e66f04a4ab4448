package postgres

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Config says where a store is and how it talks to it.
type Config struct {
	// URL names the database: postgres://, postgresql:// or postgresql+asyncpg://.
	// A password in it appears in no log and no error.
	URL string
	// Schema holds the tables; it is made with the first migration. Default
	// "holdfast". Stores on different schemas know nothing of each other.
	Schema string
	// PoolMin connections are kept open, default 2, negative for none; PoolMax is
	// the most there are, default 10. Calls of clients leave four of them, or half if those
	// are fewer, to commits, claims and renewals; lists use half of the others.
	PoolMin, PoolMax int
	// Timeout is how long a call waits for a connection, default one minute.
	Timeout time.Duration
	// CommandTimeout bounds one command, default 30 seconds.
	CommandTimeout time.Duration
	// MaxRetries is how often a command that failed for a passing reason is tried
	// again, default 3, negative for never; RetryDelay is what it waits for the
	// first time, twice that for the second, with some chance, default one second,
	// negative for no more than after a conflict with other commands: that is some
	// milliseconds.
	MaxRetries int
	RetryDelay time.Duration
	// Migrate brings the schema up to date. Without it a store whose schema is not
	// is refused.
	Migrate bool
	// MigrationLockTimeout is how long a statement of a migration waits for a lock,
	// default two seconds: statements of running replicas queue behind it. After that the
	// migration gives way to them and is retried. MigrationWait is how long it is retried,
	// default ten minutes; it also bounds how long CREATE INDEX CONCURRENTLY waits for
	// older transactions, which blocks no statement.
	MigrationLockTimeout, MigrationWait time.Duration
	// Pooler is for a PgBouncer or the like in front that gives each transaction
	// any connection: statements are then not prepared and no session settings are
	// made, which costs about a third of the throughput.
	Pooler bool
	// Logger is told of what nobody is there to be answered; nil discards.
	Logger *slog.Logger

	files fs.FS // with the folder migrations; nil means the program's
}

// reserved is the number of connections that calls of clients leave to commits, claims
// and renewals of leases.
func (c *Config) reserved() int { return min(4, c.PoolMax/2) }

// lockTimeout is how long a statement waits for a lock: longer than the server takes
// to find a deadlock, unless commands are to be shorter still.
func (c *Config) lockTimeout() time.Duration { return min(2*time.Second, c.CommandTimeout/4) }

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// complete fills in defaults and reports all that is wrong.
func (c *Config) complete() error {
	var errs []error
	if c.Schema == "" {
		c.Schema = "holdfast"
	}
	if !schemaName.MatchString(c.Schema) || strings.HasPrefix(c.Schema, "pg_") {
		errs = append(errs, fmt.Errorf("postgres: Schema is %q, want up to 63 of a-z, 0-9 and _, beginning with no digit and not with pg_", c.Schema))
	}
	for _, n := range []struct {
		name    string
		value   *int
		zero    int
		canNone bool
	}{{"PoolMin", &c.PoolMin, 2, true}, {"PoolMax", &c.PoolMax, 10, false}, {"MaxRetries", &c.MaxRetries, 3, true}} {
		if *n.value < 0 && !n.canNone {
			errs = append(errs, fmt.Errorf("postgres: %s is %d, want it positive", n.name, *n.value))
		}
		if *n.value == 0 {
			*n.value = n.zero
		}
		*n.value = max(*n.value, 0)
	}
	c.PoolMin = min(c.PoolMin, c.PoolMax)
	if c.RetryDelay < 0 {
		c.RetryDelay = conflictDelay
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		zero  time.Duration
	}{
		{"Timeout", &c.Timeout, time.Minute},
		{"CommandTimeout", &c.CommandTimeout, 30 * time.Second},
		{"RetryDelay", &c.RetryDelay, time.Second},
		{"MigrationLockTimeout", &c.MigrationLockTimeout, 2 * time.Second},
		{"MigrationWait", &c.MigrationWait, 10 * time.Minute},
	} {
		if *d.value < 0 {
			errs = append(errs, fmt.Errorf("postgres: %s is %s, want it positive", d.name, *d.value))
		}
		if *d.value == 0 {
			*d.value = d.zero
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.files == nil {
		c.files = migrationFiles
	}
	var err error
	if c.URL, err = plainURL(c.URL); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// plainURL returns a URL as libpq knows it, which takes a plus for itself. Its errors do
// not repeat it.
func plainURL(text string) (string, error) {
	if text == "" {
		return "", errors.New("postgres: URL is empty, want postgres://user:password@host:port/database")
	}
	u, err := url.Parse(text)
	if err != nil {
		return "", errors.New("postgres: URL cannot be read: want postgres://user:password@host:port/database, with special characters of the password as %XX")
	}
	switch u.Scheme {
	case "postgres", "postgresql", "postgresql+asyncpg":
	default:
		return "", fmt.Errorf("postgres: URL begins with %q, want postgres://, postgresql:// or postgresql+asyncpg://", u.Scheme+"://")
	}
	_, rest, _ := strings.Cut(text, ":")
	place, params, _ := strings.Cut(rest, "?")
	if params = likeLibpq(params); params != "" {
		params = "?" + params
	}
	return "postgres:" + place + params, nil
}

// likeLibpq names the parameter ssl, as asyncpg calls it, sslmode, unless that is there.
func likeLibpq(params string) string {
	var kept []string
	has := func(pair, name string) bool { return strings.HasPrefix(pair, name+"=") }
	all := strings.Split(params, "&")
	named := slices.ContainsFunc(all, func(pair string) bool { return has(pair, "sslmode") })
	for _, pair := range all {
		switch {
		case pair == "ssl=", has(pair, "ssl") && named:
		case has(pair, "ssl"):
			kept = append(kept, "sslmode="+strings.TrimPrefix(pair, "ssl="))
		default:
			kept = append(kept, pair)
		}
	}
	return strings.Join(kept, "&")
}

// maskURL returns a URL without its secrets.
func maskURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	masked := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	if u.Host == "" && u.User == nil && u.Path == "" { // all of it is in the environment
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
