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

// sessionSettings are set in each session, except behind a pooler. Each statement is planned
// once and must use an index, even if its tables were small when it was planned.
var sessionSettings = map[string]string{
	"application_name":                    "holdfast",
	"plan_cache_mode":                     "force_generic_plan",
	"enable_seqscan":                      "off",
	"enable_hashjoin":                     "off",
	"enable_mergejoin":                    "off",
	"enable_sort":                         "off",
	"jit":                                 "off",
	"default_transaction_isolation":       "read committed",
	"idle_in_transaction_session_timeout": "60s",
	// If a client disappears during a statement, the idle timeout does not apply to its
	// transaction: the server ends it when TCP reports the loss. Unix sockets ignore these
	// settings.
	"tcp_keepalives_idle":     "10s",
	"tcp_keepalives_interval": "5s",
	"tcp_keepalives_count":    "3",
	"tcp_user_timeout":        "25s",
}

// maxCommitters is the maximum number of concurrent transactions that apply changes.
const maxCommitters = 2

// Open opens a store. Its errors describe how to fix the problem and never contain the
// password.
func Open(ctx context.Context, cfg Config) (_ *Store, err error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	s := newStore(cfg)
	poolConfig, err := s.poolConfig()
	if err != nil {
		return nil, err
	}
	if s.pool, err = pgxpool.NewWithConfig(ctx, poolConfig); err != nil {
		return nil, s.cfg.openError(ctx, err)
	}
	err = s.retry(ctx, "open", func(ctx context.Context, c *pgx.Conn) error { return s.checkServer(ctx, c) })
	if err == nil {
		err = (&migrations{database: s.database}).migrate(ctx, poolConfig.ConnConfig)
	}
	if err == nil {
		err = s.retry(ctx, "open", s.cfg.checkGraphs)
	}
	if err != nil {
		s.pool.Close()
		return nil, s.cfg.openError(ctx, err)
	}
	s.start()
	return s, nil
}

func (s *Store) start() {
	s.workers.Go(s.dispatch)
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	s.workers.Go(func() { s.maintain(ctx) })
	s.workers.Go(func() { s.runEras(ctx) })
	s.workers.Go(func() { s.sendNotifications(ctx) })
	if s.hosts != nil {
		for _, server := range s.hosts.servers {
			s.workers.Go(func() { server.run(ctx) })
		}
	}
	if s.cfg.Vectors {
		s.workers.Go(func() { s.vectors.run(ctx) })
	}
}

func (s *database) poolConfig() (*pgxpool.Config, error) {
	p, err := pgxpool.ParseConfig(s.cfg.URL)
	if err != nil { // its text may contain parts of the URL
		return nil, fmt.Errorf("postgres: URL %s cannot be used: want postgres://user:password@host:port/database?sslmode=...", s.location)
	}
	p.MinConns, p.MaxConns = int32(s.cfg.PoolMin), int32(s.cfg.PoolMax) // small
	cc := p.ConnConfig
	cc.RuntimeParams["client_encoding"] = "UTF8" // overrides settings of the role and the database; poolers accept it
	cc.OnNotice = noteNotice
	cc.ConnectTimeout = min(s.cfg.Timeout, 10*time.Second)
	s.hosts = watchHosts(cc, s.log)
	p.BeforeConnect = func(_ context.Context, cc *pgx.ConnConfig) error {
		s.hosts.omitHanging(cc)
		return nil
	}
	var limitTransactions func(ctx context.Context, c *pgx.Conn) error
	p.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		c.PgConn().CustomData()[generationKey] = s.generation.Load()
		if s.cfg.Pooler {
			return nil
		}
		s.clock.check(ctx, c.PgConn())
		if limitTransactions == nil {
			return nil
		}
		return limitTransactions(ctx, c)
	}
	if s.cfg.Pooler {
		cc.DefaultQueryExecMode = pgx.QueryExecModeExec
		cc.StatementCacheCapacity, cc.DescriptionCacheCapacity = 0, 0
	} else {
		limitTransactions = s.cfg.limitTransactions(cc.RuntimeParams)
		all := maps.Clone(sessionSettings)
		all["lock_timeout"] = strconv.FormatInt(s.cfg.lockTimeout().Milliseconds(), 10)
		for name, value := range all {
			if _, ok := cc.RuntimeParams[name]; !ok {
				cc.RuntimeParams[name] = value
			}
		}
	}
	// A canceled call cancels its command and keeps the connection. Behind a pooler it closes
	// the connection instead: PgBouncer 1.18 to 1.20 crash when the client that sends a cancel
	// request does not wait for the response.
	if !s.cfg.Pooler {
		cc.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
			return &pgconn.CancelRequestContextWatcherHandler{Conn: c, DeadlineDelay: time.Second}
		}
	}
	return p, nil
}

// limitTransactions returns a function that sets transaction_timeout on a new connection to
// twice the command timeout, if the server is PostgreSQL 17 or later. It returns nil if the
// URL sets it.
func (c *Config) limitTransactions(urlParams map[string]string) func(ctx context.Context, c *pgx.Conn) error {
	const name = "transaction_timeout"
	if _, ok := urlParams[name]; ok {
		return nil
	}
	text := fmt.Sprintf("SET %s = %d", name, min(2*c.CommandTimeout, 24*time.Hour).Milliseconds())
	return func(ctx context.Context, c *pgx.Conn) error {
		if majorVersion(c.PgConn().ParameterStatus("server_version")) < 17 {
			return nil
		}
		_, err := c.Exec(ctx, text)
		return err
	}
}

// majorVersion returns the leading number of a version, 0 if there is none.
func majorVersion(text string) int {
	end := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(text)
	}
	n, _ := strconv.Atoi(text[:end])
	return n
}

// checkServer checks the version and settings of the server, and reads its clock.
func (s *database) checkServer(ctx context.Context, c *pgx.Conn) error {
	var encoding, off string
	var version int64
	const text = `SELECT current_setting('server_encoding'), current_setting('server_version_num')::bigint,
		(SELECT coalesce(string_agg(name || ' is off', ' and ' ORDER BY name), '') FROM pg_settings WHERE name IN ('fsync', 'synchronous_commit') AND setting = 'off')`
	err := s.eachRow(ctx, c, text, func(r record) error {
		encoding, version, off = r.text(0), r.int(1), r.text(2)
		return nil
	})
	switch {
	case err != nil:
		return err
	case encoding != "UTF8":
		return a2a.Errorf(a2a.CodeInternal, "database encoding is %s, want UTF8: create the database with ENCODING 'UTF8' TEMPLATE template0", encoding)
	case version < minServerVersion:
		return a2a.Errorf(a2a.CodeInternal, "server version is %d, want PostgreSQL 13 or later", version/10000)
	}
	if off != "" {
		s.log.Warn("database is not durable: a crash of its machine may lose acknowledged changes", "reason", off)
	}
	return s.readClock(ctx, c)
}

// minServerVersion is the first supported server_version_num.
const minServerVersion = 130000

// openError returns err with a code and a text that describes the problem and its fix.
func (c *Config) openError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	code, text := classify(err)
	cause := err
	var coded *a2a.Error
	if errors.As(err, &coded) {
		if code, text = coded.Code, coded.Message; err.Error() == coded.Error() { // its message is already in text
			cause = coded.Err
		}
	}
	switch state := sqlState(err); state {
	case "28P01", "28000":
		code, text = a2a.CodeInternal, "authentication failed: check user and password of the URL, and pg_hba.conf"
	case "3D000":
		code, text = a2a.CodeInternal, "database does not exist: create it, or name another one in the URL"
	case stateTooManyConnections:
		text = "too many connections: raise max_connections or the limit of the user, or lower PoolMax"
	case stateInsufficientPrivilege:
		code, text = a2a.CodeInternal, "the user may not use or create schema "+c.Schema+": grant CREATE on the database for migrations, else USAGE on the schema and its tables"
	case stateProtocolViolation:
		if !c.Pooler {
			code, text = a2a.CodeInternal, "a pooler in front of it rejects session settings, and Config.Pooler is not set"
			cause = errors.Join(ErrPooler, cause)
		}
	case stateUndefinedObject:
		if name := unknownParameter.FindStringSubmatch(err.Error()); name != nil {
			code, text = a2a.CodeInternal, fmt.Sprintf("unknown parameter %q in the URL: remove it", name[1])
		}
	case "":
		switch {
		case strings.Contains(err.Error(), "server refused TLS connection"):
			code, text = a2a.CodeUnavailable, "the server does not support TLS: turn it on there, or set sslmode to disable or prefer in the URL"
		case coded == nil || unanswered(err):
			code, text = a2a.CodeUnavailable, "no response: check that the server is running, and host, port and sslmode of the URL"
		}
	}
	return a2a.Wrap(code, c.maskPassword(cause), "PostgreSQL at %s: %s", maskURL(c.URL), text)
}

var unknownParameter = regexp.MustCompile(`parameter "([^"]+)"`)

// ErrPooler is part of the errors of Open when a pooler in transaction mode is in front of
// the database and Config.Pooler is not set.
var ErrPooler = errors.New("postgres: Config.Pooler must be set")

// maskPassword returns err without the password of the URL.
func (c *Config) maskPassword(err error) error {
	u, e := pgx.ParseConfig(c.URL)
	if err != nil && e == nil && u.Password != "" && strings.Contains(err.Error(), u.Password) {
		return errors.New(strings.ReplaceAll(err.Error(), u.Password, "***"))
	}
	return err
}
