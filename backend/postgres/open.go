package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-dev/holdfast/a2a"
)

// settings are made for each session, where there is one: plans are made once, and
// each of our statements is to be answered from an index, however small its tables
// were when it was planned.
var settings = map[string]string{
	"application_name":                    "holdfast",
	"plan_cache_mode":                     "force_generic_plan",
	"enable_seqscan":                      "off",
	"enable_hashjoin":                     "off",
	"enable_mergejoin":                    "off",
	"enable_sort":                         "off",
	"jit":                                 "off",
	"default_transaction_isolation":       "read committed",
	"idle_in_transaction_session_timeout": "60s",
	// A transaction whose peer has vanished in the middle of it is none that idles: it
	// ends when the server misses its peer. Over a socket of Unix they say nothing.
	"tcp_keepalives_idle":     "10s",
	"tcp_keepalives_interval": "5s",
	"tcp_keepalives_count":    "3",
	"tcp_user_timeout":        "25s",
}

// committers is how many transactions of changes there may be at the same time.
const committers = 2

// Open opens a store. Its errors say what to do, and never hold the password.
func Open(ctx context.Context, cfg Config) (_ *Store, err error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, location: maskURL(cfg.URL), log: cfg.Logger, queue: make(chan *request, queueLength), news: newNews()}
	s.reads.read, s.checks.read = s.readGroup, s.readGroupVersions
	s.pks = &pkSource{s: s}
	s.calls = make(slots, cfg.PoolMax-cfg.reserved())
	s.lists = make(slots, max(1, cap(s.calls)/2))
	poolConfig, err := s.poolConfig()
	if err != nil {
		return nil, err
	}
	if s.pool, err = pgxpool.NewWithConfig(ctx, poolConfig); err != nil {
		return nil, s.openError(ctx, err)
	}
	err = s.repeat(ctx, "open", func(ctx context.Context, c *pgx.Conn) error { return s.inspect(ctx, c) })
	if err == nil {
		err = s.migrate(ctx, poolConfig.ConnConfig)
	}
	if err != nil {
		s.pool.Close()
		return nil, s.openError(ctx, err)
	}
	s.start()
	return s, nil
}

func (s *Store) start() {
	s.workers.Go(s.dispatch)
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	s.workers.Go(func() { s.tend(ctx) })
	s.workers.Go(func() { s.tell(ctx) })
}

func (s *Store) poolConfig() (*pgxpool.Config, error) {
	p, err := pgxpool.ParseConfig(s.cfg.URL)
	if err != nil { // its text may hold parts of the URL
		return nil, fmt.Errorf("postgres: URL %s cannot be used: want postgres://user:password@host:port/database?sslmode=...", s.location)
	}
	p.MinConns, p.MaxConns = int32(s.cfg.PoolMin), int32(s.cfg.PoolMax) //nolint:gosec // small
	cc := p.ConnConfig
	cc.RuntimeParams["client_encoding"] = "UTF8" // whatever the user or the database are set to; poolers know it
	cc.OnNotice = noteNotice
	cc.ConnectTimeout = min(s.cfg.Timeout, 10*time.Second)
	if s.cfg.Pooler {
		cc.DefaultQueryExecMode = pgx.QueryExecModeExec
		cc.StatementCacheCapacity, cc.DescriptionCacheCapacity = 0, 0
	} else {
		bound := s.boundTransactions(cc.RuntimeParams)
		p.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
			s.checkClock(ctx, c.PgConn())
			if bound == nil {
				return nil
			}
			return bound(ctx, c)
		}
		all := maps.Clone(settings)
		all["lock_timeout"] = strconv.FormatInt(s.cfg.lockTimeout().Milliseconds(), 10)
		for name, value := range all {
			if _, ok := cc.RuntimeParams[name]; !ok {
				cc.RuntimeParams[name] = value
			}
		}
	}
	// A call that is given up stops its command and keeps the connection, except
	// behind a pooler: PgBouncer 1.18 to 1.20 crash when one who asks for a command to
	// be stopped does not wait for the answer, so there the connection is closed.
	if !s.cfg.Pooler {
		cc.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
			return &pgconn.CancelRequestContextWatcherHandler{Conn: c, DeadlineDelay: time.Second}
		}
	}
	return p, nil
}

// boundTransactions has the server end transactions that outlive their commands by
// far, from PostgreSQL 17 on, which is the first that can. It does not overrule the URL.
func (s *Store) boundTransactions(said map[string]string) func(ctx context.Context, c *pgx.Conn) error {
	const name = "transaction_timeout"
	if _, ok := said[name]; ok {
		return nil
	}
	text := fmt.Sprintf("SET %s = %d", name, min(2*s.cfg.CommandTimeout, 24*time.Hour).Milliseconds())
	return func(ctx context.Context, c *pgx.Conn) error {
		if majorVersion(c.PgConn().ParameterStatus("server_version")) < 17 {
			return nil
		}
		_, err := c.Exec(ctx, text)
		return err
	}
}

// majorVersion returns the number that a version begins with, 0 for none.
func majorVersion(text string) int {
	end := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(text)
	}
	n, _ := strconv.Atoi(text[:end])
	return n
}

// inspect looks whether the database is one that can be used, and at its clock.
func (s *Store) inspect(ctx context.Context, c *pgx.Conn) error {
	var encoding, off string
	var version int64
	const text = `SELECT current_setting('server_encoding'), current_setting('server_version_num')::bigint,
		(SELECT coalesce(string_agg(name || ' is off', ' and ' ORDER BY name), '') FROM pg_settings WHERE name IN ('fsync', 'synchronous_commit') AND setting = 'off')`
	err := s.each(ctx, c, text, func(r record) error {
		encoding, version, off = r.text(0), r.int(1), r.text(2)
		return nil
	})
	switch {
	case err != nil:
		return err
	case encoding != "UTF8":
		return a2a.Errorf(a2a.CodeInternal, "its encoding is %s, want UTF8: create the database with ENCODING 'UTF8' TEMPLATE template0", encoding)
	case version < oldest:
		return a2a.Errorf(a2a.CodeInternal, "its version is %d, want PostgreSQL 13 or later", version/10000)
	}
	if off != "" {
		s.log.Warn("the database acknowledges what is not on its disk yet: a crash of its machine may lose it", "because", off)
	}
	return s.readClock(ctx, c)
}

// oldest is the first version of PostgreSQL with all that is used here.
const oldest = 130000

// openError says what is wrong with the database and what to do.
func (s *Store) openError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	code, text := classify(err)
	cause := err
	var coded *a2a.Error
	if errors.As(err, &coded) {
		if code, text = coded.Code, coded.Message; err.Error() == coded.Error() { // its message is told already
			cause = coded.Err
		}
	}
	switch state := sqlState(err); state {
	case "28P01", "28000":
		code, text = a2a.CodeInternal, "user or password are refused: look at the URL and at pg_hba.conf"
	case "3D000":
		code, text = a2a.CodeInternal, "there is no such database: create it, or name another in the URL"
	case stateTooMany:
		text = "it takes no more connections: raise max_connections or the limit of the user, or lower PoolMax"
	case stateDenied:
		code, text = a2a.CodeInternal, "the user may not use or create schema "+s.cfg.Schema+": grant CREATE on the database for migrations, else USAGE on the schema and its tables"
	case stateStartParam:
		if !s.cfg.Pooler {
			code, text = a2a.CodeInternal, "a pooler is in front of it that takes no session settings, and was not said to be one"
			cause = errors.Join(ErrPooler, cause)
		}
	case stateNoSetting:
		if name := unknownParameter.FindStringSubmatch(err.Error()); name != nil {
			code, text = a2a.CodeInternal, fmt.Sprintf("neither the program nor the server knows the parameter %q of the URL: take it out", name[1])
		}
	case "":
		switch {
		case strings.Contains(err.Error(), "server refused TLS connection"):
			code, text = a2a.CodeUnavailable, "the server does not support TLS: turn it on there, or set sslmode to disable or prefer in the URL"
		case coded == nil || unanswered(err):
			code, text = a2a.CodeUnavailable, "no answer: check that it is running, and host, port and sslmode of the URL"
		}
	}
	return a2a.Wrap(code, s.unmasked(cause), "PostgreSQL at %s: %s", s.location, text)
}

var unknownParameter = regexp.MustCompile(`parameter "([^"]+)"`)

// ErrPooler is part of the errors of Open where a pooler in transaction mode stands in
// front of the database and Config.Pooler does not say so.
var ErrPooler = errors.New("postgres: Config.Pooler is to be set")

// unmasked returns an error for the log, which must not hold the password.
func (s *Store) unmasked(err error) error {
	u, e := pgx.ParseConfig(s.cfg.URL)
	if err != nil && e == nil && u.Password != "" && strings.Contains(err.Error(), u.Password) {
		return errors.New(strings.ReplaceAll(err.Error(), u.Password, "***"))
	}
	return err
}
