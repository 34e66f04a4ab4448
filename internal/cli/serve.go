package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/memory"
	"github.com/holdfast-dev/holdfast/server"
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
	TokensFile  string   `placeholder:"FILE" envvar:"HOLDFAST_TOKENS_FILE" group:"Access:" help:"Tokens from a file, one TOKEN=PRINCIPAL a line; # begins a comment. SIGHUP reads it again."`
	TLSCert     string   `name:"tls-cert" placeholder:"FILE" envvar:"HOLDFAST_TLS_CERT" group:"Access:" help:"Serve HTTPS with this certificate: a PEM file with the chain. SIGHUP reads it again."`
	TLSKey      string   `name:"tls-key" placeholder:"FILE" envvar:"HOLDFAST_TLS_KEY" group:"Access:" help:"The private key of --tls-cert, as PEM."`
	CORSOrigins []string `name:"cors-origin" placeholder:"ORIGIN" envvar:"HOLDFAST_CORS_ORIGIN" group:"Access:" help:"A web origin whose pages may call the agent, such as https://example.com; * is any."`
	MaxBody     size     `placeholder:"SIZE" envvar:"HOLDFAST_MAX_BODY" default:"10MiB" group:"Access:" help:"The largest request taken. Default: ${default}."`
	MaxLists    int      `placeholder:"N" envvar:"HOLDFAST_MAX_LISTS" default:"8" group:"Access:" help:"How many lists are read from the store at once, 2 or more; one owner reads half of them. Default: ${default}."`
	MaxStreams  int      `placeholder:"N" envvar:"HOLDFAST_MAX_STREAMS" default:"10000" group:"Access:" help:"How many streams may be open at once; with tokens, one owner has half of them. Default: ${default}."`
	MaxBatch    size     `placeholder:"SIZE" envvar:"HOLDFAST_MAX_BATCH" default:"32MiB" group:"Access:" help:"How large the responses of a batch may be together; items beyond it get an error. Default: ${default}."`

	Dialect string `placeholder:"NAME" envvar:"HOLDFAST_DIALECT" default:"a2a" enum:"a2a,bindu" group:"Access:" help:"How answers are spelled: a2a, as the protocol says, or bindu, with results in snake_case, for clients of agents made with Bindu. Requests may have either spelling. Default: ${default}."`

	webhookFlags

	fileFlags

	MaxTask     size `placeholder:"SIZE" envvar:"HOLDFAST_MAX_TASK" default:"128MiB" group:"Work:" help:"How much content a task may have: messages, artifacts and what was replaced in them. At most a third of what one owner may hold of --memory. Default: ${default}."`
	MaxContext  size `placeholder:"SIZE" envvar:"HOLDFAST_MAX_CONTEXT" default:"8GiB" group:"Work:" help:"How much content all tasks of a context may have. Default: ${default}."`
	Memory      size `placeholder:"SIZE" envvar:"HOLDFAST_MEMORY" group:"Work:" help:"Memory that the process may use; half of it is for what is large: requests, responses, tasks, webhook bodies, files. One owner may hold half of that half. Default: three quarters of the limit of the cgroup or of the machine's memory."`
	Concurrency int  `placeholder:"N" envvar:"HOLDFAST_CONCURRENCY" default:"256" group:"Work:" help:"How many tasks run at once. Default: ${default}."`

	ReservedTurns int `placeholder:"N" envvar:"HOLDFAST_RESERVED_TURNS" default:"-1" group:"Work:" help:"How many of these are kept for owners that run few: one that runs an eighth of this number or more gets none of them. 0 is none, -1 a quarter of --concurrency with tokens, else none. Default: ${default}."`

	MaxQueued int `placeholder:"N" envvar:"HOLDFAST_MAX_QUEUED" default:"100000" group:"Work:" help:"How many tasks may wait to run; new ones are refused above it. Default: ${default}."`

	MaxQueuedPerOwner int `placeholder:"N" envvar:"HOLDFAST_MAX_QUEUED_PER_OWNER" group:"Work:" help:"How many tasks of one owner may wait to run. Default: half of --max-queued with tokens, else all."`

	ReadCache size `placeholder:"SIZE" envvar:"HOLDFAST_READ_CACHE" group:"Work:" help:"Memory for finished tasks as they were encoded for responses, so that reading them again is cheap. Default: 32MiB, at most 1/16 of --memory."`

	TaskTimeout time.Duration `placeholder:"DURATION" envvar:"HOLDFAST_TASK_TIMEOUT" default:"1h" group:"Work:" help:"The longest a turn of a task may run; 0 is no limit. Default: ${default}."`
	MaxAttempts int           `placeholder:"N" envvar:"HOLDFAST_MAX_ATTEMPTS" default:"5" group:"Work:" help:"How often a turn is begun, when its process dies, before the task fails. Default: ${default}."`
	Lease       time.Duration `placeholder:"DURATION" envvar:"HOLDFAST_LEASE" default:"15s" group:"Work:" help:"How long a task of a process that died waits for another. Default: ${default}."`
	StopGrace   time.Duration `placeholder:"DURATION" envvar:"HOLDFAST_STOP_GRACE" default:"10s" group:"Work:" help:"How long running tasks may take to finish when the server stops. What is left is run again at the next start. Default: ${default}."`

	Retention []string `placeholder:"KIND=AGE" envvar:"HOLDFAST_RETENTION" group:"Work:" help:"How long data is kept, such as completed=90d,failed=365d,idempotency=7d. KIND is a final state of tasks, tasks (all final states without an age of their own), contexts (without tasks), described-contexts (without tasks, but created or changed by a client), idempotency, attempts or dead-letters (of webhooks); AGE is in days (90d), a duration (36h) or 0: kept for ever. Default: tasks and described-contexts are kept, the rest for 30d."`

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
	cert    *certificate // nil: no TLS
	notes   []string     // what the operator should know about the settings
}

// prepare finds out what the settings mean, or all that is wrong with them. It
// starts and opens nothing.
func (c *serveCmd) prepare(a *app, log *slog.Logger) (r ready, err error) {
	errs := append(a.set.emptyFlags(), c.checkAddress(a), c.check())
	add := func(err error) { errs = append(errs, err) }
	r.storage, err = c.storageFlags.choose(a, c.Data)
	add(err)
	r.storage.cfg.Migrate = c.RunMigrationsOnStartup
	r.tokens, err = c.tokens()
	add(err)
	r.agent, err = c.chooseAgent(a, log)
	add(err)
	r.pushes, err = c.webhookFlags.choose(a)
	add(err)
	add(c.fileFlags.check())
	r.cert, err = c.certificate()
	add(err)
	r.notes = append(r.storage.notes, r.pushes.notes...)
	return r, a.set.invalid(errs...)
}

// Run serves until ctx is done.
func (c *serveCmd) Run(ctx context.Context, a *app) (err error) {
	log := c.logger(a)
	r, err := c.prepare(a, log)
	if err != nil {
		return err
	}
	for _, text := range a.unknownOwn() {
		log.Warn("unknown setting", "detail", text, "see", a.name+" help environment")
	}
	for _, note := range r.notes {
		log.Warn("setting without effect", "detail", note)
	}
	ln, err := listen(ctx, c.address(a))
	if err != nil {
		return err
	}
	cfg := c.config(r.agent.config, r.tokens, log)
	cfg.Webhooks = c.webhookFlags.config(r.pushes)
	cfg.Files = c.fileFlags.config()
	if r.cert != nil {
		ln = r.cert.listen(ln)
	}
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
		return errors.Join(err, ln.Close())
	}
	a.out.passing = true // a server does not end badly because nobody reads its banner
	b := banner{a: a, cfg: cfg, agent: r.agent, addr: ln.Addr(), tls: r.cert != nil, storage: r.storage, log: log, logged: c.LogFormat == "json"}
	b.print()
	defer context.AfterFunc(ctx, b.stopping)()
	tuning, tuned := context.WithCancel(ctx)
	defer tuned()
	limit := cmp.Or(int64(c.Memory), memory.Default())
	go a.tuneGC(tuning, limit, gcHeadroomOf(r.storage.kind, limit))
	a.reloads.Store(true)
	go (&reloader{cmd: c, agent: h, cert: r.cert, log: log}).run(tuning, a.hangups) //nolint:contextcheck // reading a file needs none
	if err := h.Serve(ctx, ln); err != nil && !stoppedLate(ctx, err) {
		return err
	}
	log.Info("stopped")
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
		{c.Memory != 0 && c.Memory < memory.Least, "--memory must be 64MiB or more"},
		{c.Concurrency < 1, "--concurrency must be 1 or more"},
		{c.ReservedTurns < -1 || c.ReservedTurns >= max(c.Concurrency, 1), fmt.Sprintf("--reserved-turns is %d, want less than %d (--concurrency), 0 for none, or -1 for the default", c.ReservedTurns, c.Concurrency)},
		{c.MaxQueued < 1, fmt.Sprintf("--max-queued is %d, want 1 or more", c.MaxQueued)},
		{c.MaxQueuedPerOwner < 0 || c.MaxQueuedPerOwner > c.MaxQueued, fmt.Sprintf("--max-queued-per-owner is %d, want 1 to %d (--max-queued), or 0 for the default", c.MaxQueuedPerOwner, c.MaxQueued)},
		{c.TaskTimeout < 0, "--task-timeout must not be negative"},
		{c.MaxAttempts < 1, "--max-attempts must be 1 or more"},
		{c.MaxLists < 2, fmt.Sprintf("--max-lists is %d, want 2 or more", c.MaxLists)},
		{c.MaxStreams < 1, fmt.Sprintf("--max-streams is %d, want 1 or more", c.MaxStreams)},
		{c.Lease < 100*time.Millisecond, "--lease must be 100ms or more"},
		{c.StopGrace <= 0, "--stop-grace must be more than 0"},
	} {
		if f.bad {
			errs = append(errs, errors.New(f.text))
		}
	}
	if c.URL != "" {
		errs = append(errs, under("--url", server.CheckURL(c.URL)))
	}
	_, err := c.retention()
	errs = append(errs, under("--retention", err))
	for _, origin := range c.CORSOrigins {
		errs = append(errs, under("--cors-origin", server.CheckOrigin(origin)))
	}
	return errors.Join(errs...)
}

func (c *serveCmd) retention() (engine.Retention, error) {
	return engine.ParseRetention(strings.Join(c.Retention, ","))
}

// under names the setting that an error is about, in each of its lines.
func under(name string, err error) error {
	if err == nil {
		return nil
	}
	return errors.New(name + ": " + strings.ReplaceAll(err.Error(), "\n", "\n"+name+": "))
}

// checkAddress checks the form of the address, without a look at the network.
func (c *serveCmd) checkAddress(a *app) error {
	setting := "--addr"
	if c.Addr == "" {
		setting = "environment variables HOST and PORT"
	}
	_, port, err := net.SplitHostPort(c.address(a))
	if err != nil {
		return fmt.Errorf("%s: want HOST:PORT such as 127.0.0.1:3773, but got %q", setting, c.address(a))
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%s: want a port from 0 to 65535, but got %q", setting, port)
	}
	return nil
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
	switch c.ReservedTurns {
	case -1: // as cfg says by itself
	case 0:
		cfg.ReservedTurns = -1
	default:
		cfg.ReservedTurns = c.ReservedTurns
	}
	if cfg.TaskTimeout = c.TaskTimeout; c.TaskTimeout == 0 {
		cfg.TaskTimeout = -1
	}
	cfg.MaxAttempts = c.MaxAttempts
	cfg.Lease = c.Lease
	cfg.StopGrace = c.StopGrace
	cfg.Memory = int64(c.Memory)
	cfg.Retention, _ = c.retention() // has been checked
	cfg.Limits.TaskBytes, cfg.Limits.ContextBytes = int(c.MaxTask), int(c.MaxContext)
	cfg.Limits.Queued, cfg.Limits.QueuedPerOwner = c.MaxQueued, c.MaxQueuedPerOwner
	cfg.MaxBodyBytes = int64(c.MaxBody)
	cfg.MaxLists = c.MaxLists
	cfg.MaxStreams = c.MaxStreams
	cfg.MaxBatchBytes = int64(c.MaxBatch)
	cfg.ReadCacheBytes = int64(c.ReadCache)
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
	var dns *net.DNSError
	switch {
	case err == nil:
		return ln, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, a2a.Errorf(a2a.CodeUnavailable, "%s is in use by another server: stop it or choose another address with --addr", addr)
	case errors.Is(err, syscall.EACCES):
		return nil, usagef("--addr: this user may not listen on %s: choose a port above 1023", addr)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, usagef("--addr: %s is not an address of this machine", addr)
	case errors.As(err, &dns):
		return nil, usagef("--addr: host %q of %s not found", dns.Name, addr)
	case errors.As(err, &op):
		err = op.Err
	}
	return nil, a2a.Errorf(a2a.CodeUnavailable, "cannot listen on %s: %s", addr, err)
}
