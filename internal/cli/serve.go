package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
)

// serveCmd starts an agent.
type serveCmd struct {
	Addr string `placeholder:"HOST:PORT" envvar:"HOLDFAST_ADDR" help:"Where to listen. Default: 127.0.0.1:3773, or $HOST and $PORT where they are set."`
	URL  string `placeholder:"URL" envvar:"HOLDFAST_URL" help:"The public URL that the agent card tells. Default: the address a request came to."`
	Name string `placeholder:"NAME" envvar:"HOLDFAST_NAME" help:"The agent's name on its card. Default: that of the agent."`

	Agent       string        `placeholder:"NAME" envvar:"HOLDFAST_AGENT" group:"Agent:" help:"A built-in agent: summarize (the default), conformance or echo."`
	Exec        string        `placeholder:"COMMAND" envvar:"HOLDFAST_EXEC" group:"Agent:" help:"A program is the agent: it is started for each turn and talks JSON lines on stdin and stdout (docs/exec.md). No shell reads the command."`
	ExecPlain   bool          `envvar:"HOLDFAST_EXEC_PLAIN" group:"Agent:" help:"The program knows no JSON lines: it reads the message's text on stdin and prints the answer."`
	ExecTimeout time.Duration `placeholder:"DURATION" envvar:"HOLDFAST_EXEC_TIMEOUT" group:"Agent:" help:"The longest a run of the program may take. Default: --task-timeout."`
	ExecDir     string        `placeholder:"DIR" envvar:"HOLDFAST_EXEC_DIR" group:"Agent:" help:"Where the program runs. Default: the current directory."`
	PageDelay   time.Duration `hidden:"" envvar:"HOLDFAST_PAGE_DELAY" help:"A pause before each page that the summarizer reads, to watch it at work."`

	Data string `placeholder:"DIR" envvar:"HOLDFAST_DATA" default:"./holdfast-data" group:"Storage:" help:"Where SQLite keeps the data. One process at a time. Default: ${default}."`

	storageFlags
	RunMigrationsOnStartup bool `envvar:"HOLDFAST_RUN_MIGRATIONS_ON_STARTUP" also:"STORAGE__RUN_MIGRATIONS_ON_STARTUP" group:"PostgreSQL:" help:"Bring the schema up to date at the start. Else a schema that is not is refused: holdfast migrate up."`

	Tokens      []string `name:"token" secret:"" placeholder:"TOKEN=PRINCIPAL" envvar:"HOLDFAST_TOKENS" group:"Access:" help:"A bearer token and whom it stands for; again for more, or with commas. Without any token everybody is let in as the same owner."`
	TokensFile  string   `placeholder:"FILE" envvar:"HOLDFAST_TOKENS_FILE" group:"Access:" help:"Tokens from a file, one TOKEN=PRINCIPAL a line; # begins a comment."`
	CORSOrigins []string `name:"cors-origin" placeholder:"ORIGIN" envvar:"HOLDFAST_CORS_ORIGIN" group:"Access:" help:"A web origin whose pages may call the agent, such as https://example.com; * is any."`
	MaxBody     size     `placeholder:"SIZE" envvar:"HOLDFAST_MAX_BODY" default:"10MiB" group:"Access:" help:"The largest request taken. Default: ${default}."`

	Dialect string `placeholder:"NAME" envvar:"HOLDFAST_DIALECT" default:"a2a" enum:"a2a,bindu" group:"Access:" help:"How answers are spelled: a2a, as the protocol says, or bindu, with results in snake_case, for clients of agents made with Bindu. Requests may have either spelling. Default: ${default}."`

	webhookFlags

	fileFlags

	Concurrency int           `placeholder:"N" envvar:"HOLDFAST_CONCURRENCY" default:"256" group:"Work:" help:"How many tasks run at once. Default: ${default}."`
	TaskTimeout time.Duration `placeholder:"DURATION" envvar:"HOLDFAST_TASK_TIMEOUT" default:"1h" group:"Work:" help:"The longest a turn of a task may run; 0 is no limit. Default: ${default}."`
	MaxAttempts int           `placeholder:"N" envvar:"HOLDFAST_MAX_ATTEMPTS" default:"5" group:"Work:" help:"How often a turn is begun, when its process dies, before the task fails. Default: ${default}."`
	Lease       time.Duration `placeholder:"DURATION" envvar:"HOLDFAST_LEASE" default:"15s" group:"Work:" help:"How long a task of a process that died waits for another. Default: ${default}."`
	StopGrace   time.Duration `placeholder:"DURATION" envvar:"HOLDFAST_STOP_GRACE" default:"10s" group:"Work:" help:"How long running tasks may take to finish when the server stops. What is left is run again at the next start. Default: ${default}."`

	LogLevel  string `placeholder:"LEVEL" envvar:"HOLDFAST_LOG_LEVEL" default:"info" enum:"debug,info,warn,error" group:"Log:" help:"debug (every request), info, warn or error. Default: ${default}."`
	LogFormat string `placeholder:"FORMAT" envvar:"HOLDFAST_LOG_FORMAT" default:"text" enum:"text,json" group:"Log:" help:"text or json, on stderr. Default: ${default}."`
}

// Help has examples.
func (serveCmd) Help() string {
	return `Everything that was accepted is kept in --data, or in a PostgreSQL database, and survives crashes: tasks that were running are run again at the next start. The first SIGINT or SIGTERM stops the server in good order, the second at once.

Examples:

    holdfast serve
    holdfast serve --addr 127.0.0.1:8080 --storage memory
    holdfast serve --exec "python3 agent.py" --name my-agent
    DATABASE_URL=postgres://user:secret@db/agent?sslmode=verify-full holdfast serve
    holdfast serve --exec "tr a-z A-Z" --exec-plain
    holdfast serve --addr 0.0.0.0:3773 --tokens-file tokens.txt --url https://agent.example.com/`
}

// size is a number of bytes, written as 10MiB, 10MB or 10485760.
type size int64

// UnmarshalText reads a size.
func (s *size) UnmarshalText(text []byte) error {
	n, err := humanize.ParseBytes(string(text))
	if err != nil || n == 0 || n > 1<<40 {
		return fmt.Errorf("want a size such as 10MiB, but got %q", text)
	}
	*s = size(n)
	return nil
}

// ready is what serve and config make of the settings.
type ready struct {
	storage storage
	tokens  []holdfast.Token
	agent   chosen
	pushes  pushes
}

// prepare finds out what the settings mean, or all that is wrong with them. It
// starts and opens nothing.
func (c *serveCmd) prepare(a *app, log *slog.Logger) (r ready, err error) {
	var errs [7]error
	r.storage, errs[0] = c.storageFlags.choose(a, c.Data)
	r.storage.cfg.Migrate = c.RunMigrationsOnStartup
	r.tokens, errs[1] = c.tokens()
	errs[2] = c.check()
	if _, _, err := net.SplitHostPort(c.address(a)); err != nil {
		errs[3] = fmt.Errorf("--addr is %q, want HOST:PORT such as 127.0.0.1:3773", c.address(a))
	}
	r.agent, errs[4] = c.chooseAgent(a, log)
	r.pushes, errs[5] = c.webhookFlags.choose(a)
	errs[6] = c.fileFlags.check()
	if err := errors.Join(errs[:]...); err != nil {
		return r, usagef("%s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return r, nil
}

// Run serves until ctx is done.
func (c *serveCmd) Run(ctx context.Context, a *app) (err error) {
	log := c.logger(a)
	r, err := c.prepare(a, log)
	if err != nil {
		return err
	}
	a.warnUnknownVariables()
	for _, note := range r.storage.notes {
		log.Warn("settings without effect", "detail", note)
	}
	ln, err := listen(ctx, c.address(a))
	if err != nil {
		return err
	}
	cfg := c.config(r.agent.config, r.tokens, log)
	cfg.Webhooks = c.webhookFlags.config(r.pushes)
	cfg.Files = c.fileFlags.config()
	if cfg.DataDir = r.storage.data; r.storage.kind != kindSQLite {
		if cfg.Store, err = r.storage.open(ctx, a, log); err != nil {
			return errors.Join(err, ln.Close())
		}
		defer func() { err = errors.Join(err, cfg.Store.Close()) }() //nolint:contextcheck // closed also when ctx is done
	}
	if r.storage.kind == kindPostgres {
		log.Info("database", "url", r.storage.url, "schema", r.storage.cfg.Schema, "chosen_by", r.storage.chosen)
	}
	h, err := holdfast.New(cfg, r.agent.handler) //nolint:contextcheck // opening the store must not end half-way
	if err != nil {
		return errors.Join(configError(err), ln.Close())
	}
	a.out.passing = true // a server does not end badly because nobody reads its banner
	b := banner{a: a, cfg: cfg, agent: r.agent, addr: ln.Addr(), storage: r.storage}
	b.print()
	defer context.AfterFunc(ctx, b.stopping)()
	tuning, tuned := context.WithCancel(ctx)
	defer tuned()
	go a.tuneGC(tuning)
	if err := h.Serve(ctx, ln); err != nil && !stoppedLate(ctx, err) {
		return err
	}
	a.say("stopped")
	return nil
}

// stoppedLate reports whether err only says that the grace period was over
// before all was finished, which is what stopping in good order may come to.
func stoppedLate(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled))
}

func (c *serveCmd) logger(a *app) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.LogLevel)) // one of the enum
	opts := &slog.HandlerOptions{Level: level}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(a.err.w, opts))
	}
	return slog.New(slog.NewTextHandler(a.err.w, opts))
}

func (c *serveCmd) check() error {
	var errs []error
	for _, f := range []struct {
		bad  bool
		text string
	}{
		{c.Exec != "" && c.Agent != "", "--exec and --agent must not both be given"},
		{c.Exec == "" && (c.ExecPlain || c.ExecTimeout != 0 || c.ExecDir != ""), "--exec-plain, --exec-timeout and --exec-dir need --exec"},
		{c.ExecTimeout < 0, "--exec-timeout must not be negative"},
		{c.Concurrency < 1, "--concurrency must be 1 or more"},
		{c.TaskTimeout < 0, "--task-timeout must not be negative"},
		{c.MaxAttempts < 1, "--max-attempts must be 1 or more"},
		{c.Lease < 100*time.Millisecond, "--lease must be 100ms or more"},
		{c.StopGrace <= 0, "--stop-grace must be more than 0"},
	} {
		if f.bad {
			errs = append(errs, errors.New(f.text))
		}
	}
	return errors.Join(errs...)
}

// address is where to listen. PORT and HOST are what platforms set.
func (c *serveCmd) address(a *app) string {
	if c.Addr != "" {
		return c.Addr
	}
	host, port := a.env.get("HOST"), a.env.get("PORT")
	if host == "" {
		host = "127.0.0.1"
	}
	if port == "" {
		port = "3773"
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}

func (c *serveCmd) config(cfg holdfast.Config, tokens []holdfast.Token, log *slog.Logger) holdfast.Config {
	if c.Name != "" {
		cfg.Name = c.Name
	}
	cfg.Version = readBuild().Version
	cfg.URL = c.URL
	cfg.Dialect = c.Dialect
	cfg.Tokens = tokens
	cfg.Concurrency = c.Concurrency
	if cfg.TaskTimeout = c.TaskTimeout; c.TaskTimeout == 0 {
		cfg.TaskTimeout = -1
	}
	cfg.MaxAttempts = c.MaxAttempts
	cfg.Lease = c.Lease
	cfg.StopGrace = c.StopGrace
	cfg.MaxBodyBytes = int64(c.MaxBody)
	cfg.CORSOrigins = c.CORSOrigins
	cfg.Logger = log
	return cfg
}

func (a *app) warnUnknownVariables() {
	for _, text := range a.unknownOwn() {
		a.say("%s %s; see: %s help environment", a.err.red("warning:"), text, a.name)
	}
}

// unknownOwn tells of variables that look like ours and are not.
func (a *app) unknownOwn() []string {
	var g grammar
	parser, err := a.parser(&g)
	if err != nil {
		return nil
	}
	var texts []string
	for _, name := range a.env.unknown(parser.Model) {
		texts = append(texts, "the environment variable "+name+" means nothing to this version")
	}
	return texts
}

// A server that was killed has its address until the system has taken it apart,
// and its successor is often started before that.
const (
	addrPatience = time.Second
	addrRetry    = 20 * time.Millisecond
)

// listen opens the address, or says why that cannot be.
func listen(ctx context.Context, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	for until := time.Now().Add(addrPatience); errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(until) && ctx.Err() == nil; {
		time.Sleep(addrRetry)
		ln, err = lc.Listen(ctx, "tcp", addr)
	}
	var op *net.OpError
	switch {
	case err == nil:
		return ln, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, a2a.Errorf(a2a.CodeUnavailable, "%s is in use: another server listens there; end it, or choose another address with --addr", addr)
	case errors.Is(err, syscall.EACCES):
		return nil, a2a.Errorf(a2a.CodeUnavailable, "%s may not be used by this user: choose a port above 1023 with --addr", addr)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, a2a.Errorf(a2a.CodeUnavailable, "%s is not an address of this machine: choose another with --addr", addr)
	case errors.As(err, &op):
		err = op.Err
	}
	return nil, a2a.Errorf(a2a.CodeUnavailable, "cannot listen on %s: %s", addr, err)
}

// configError makes a mistake in the flags out of what the library says of its
// Config.
func configError(err error) error {
	var coded *a2a.Error
	if errors.As(err, &coded) {
		return err
	}
	text := err.Error()
	for _, prefix := range []string{"holdfast config: ", "server config: ", "engine config: "} {
		if rest, ok := strings.CutPrefix(text, prefix); ok {
			return usagef("%s", strings.NewReplacer("CORSOrigins:", "--cors-origin:", "Card.URL", "--url", "\n", "; ").Replace(rest))
		}
	}
	return err
}
