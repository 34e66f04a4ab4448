package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/dustin/go-humanize"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/cli/command"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/memory"
)

// serveCmd runs an agent server.
type serveCmd struct {
	Addr string `placeholder:"HOST:PORT" envvar:"" help:"Listen address (default 127.0.0.1:3773, or $HOST and $PORT if set)."`
	URL  string `field:"Card.URL" placeholder:"URL" envvar:"" help:"Public URL in the agent card (default the address of the request)."`
	Name string `placeholder:"NAME" envvar:"" help:"Agent name in the agent card (default the name of the agent)."`

	agentFlags

	// Transports has grpc if the program has gRPC.
	Transports kong.Plugins `embed:"" group:"gRPC:"`

	grpc grpcFlags

	Data string `placeholder:"DIR" envvar:"" default:"./holdfast-data" group:"Storage:" help:"SQLite data directory, for one process at a time."`

	storageFlags
	RunMigrationsOnStartup bool `field:"postgres.Migrate" envvar:"" also:"STORAGE__RUN_MIGRATIONS_ON_STARTUP" group:"PostgreSQL:" help:"Apply pending migrations at startup. Otherwise serve rejects an outdated schema; run holdfast migrate up."`

	accessFlags
	identityFlags
	requestFlags
	cardFlags
	webhookFlags
	fileFlags
	workFlags
	logFlags
}

// agentFlags choose the agent.
type agentFlags struct {
	Agent       string        `placeholder:"NAME" envvar:"" group:"Agent:" help:"Built-in agent: summarize, conformance or echo (default summarize)."`
	Remember    bool          `envvar:"" group:"Agent:" help:"The agent summarize keeps what it reads, and answers questions from it (docs/memory.md)."`
	Exec        string        `field:"exec.CommandLine" placeholder:"COMMAND" envvar:"" group:"Agent:" help:"Program that implements the agent. It is started for each turn and uses JSON lines on stdin and stdout (docs/exec.md). No shell interprets the command."`
	ExecPlain   bool          `field:"exec.Plain" envvar:"" group:"Agent:" help:"The program does not use JSON lines: it reads the message text from stdin and prints the answer."`
	ExecTimeout time.Duration `field:"exec.Timeout" envvar:"" group:"Agent:" help:"Maximum duration of one execution of the program (default --task-timeout)."`
	ExecDir     string        `field:"exec.Dir" placeholder:"DIR" envvar:"" group:"Agent:" help:"Working directory of the program (default the current directory)."`
	PageDelay   time.Duration `hidden:"" envvar:"" help:"Pause before each page that the summarizer reads, for demonstrations."`
}

// accessFlags determine who can call the agent.
type accessFlags struct {
	Tokens      []string `name:"token" secret:"" placeholder:"TOKEN=PRINCIPAL" envvar:"HOLDFAST_TOKENS" group:"Access:" help:"Bearer token and its principal. Repeatable, or separated by commas. Without tokens every client has access, as the same owner."`
	TokensFile  string   `placeholder:"FILE" envvar:"" group:"Access:" help:"File with tokens, one TOKEN=PRINCIPAL per line; # starts a comment. SIGHUP reloads it."`
	TLSCert     string   `placeholder:"FILE" envvar:"" group:"Access:" help:"Serve HTTPS with this certificate, a PEM file with the chain. SIGHUP reloads it."`
	TLSKey      string   `placeholder:"FILE" envvar:"" group:"Access:" help:"Private key of --tls-cert, a PEM file."`
	CORSOrigins []string `field:"Security.CORSOrigins" name:"cors-origin" placeholder:"ORIGIN" envvar:"" group:"Access:" help:"Web origin with pages that may call the agent, such as https://example.com; * is any. Repeatable (default none)."`
	Proxies     []string `field:"Security.TrustedProxies" name:"trusted-proxies" placeholder:"CIDR" envvar:"" group:"Access:" help:"Network or address of a proxy that sets X-Forwarded-Proto, -Host and -Prefix: without --url, the agent card has the address that they name. Repeatable (default none)."`
}

// requestFlags determine how requests are served.
type requestFlags struct {
	Streaming  bool   `field:"!Requests.StreamingOff" negatable:"" default:"true" envvar:"" group:"Access:" help:"Serve streams (default on). With --no-streaming, streaming methods are rejected and the agent card declares no streaming."`
	MaxBody    size   `field:"Requests.MaxBodyBytes" envvar:"" group:"Access:" help:"Maximum request body size."`
	MaxLists   int    `field:"Requests.MaxLists" envvar:"" group:"Access:" help:"Maximum number of lists that are read from the store concurrently, 2 or more; half of it for one owner."`
	MaxStreams int    `field:"Requests.MaxStreams" envvar:"" group:"Access:" help:"Maximum number of open streams; with tokens, half of it for one owner."`
	MaxBatch   size   `field:"Requests.MaxBatchBytes" envvar:"" group:"Access:" help:"Maximum total size of the responses of a batch; items beyond it return an error."`
	Dialect    string `field:"Protocol.Dialect" placeholder:"NAME" envvar:"" default:"a2a" enum:"a2a,bindu" group:"Access:" help:"JSON codec of responses: a2a (as in the specification) or bindu (results in snake_case, for clients of Bindu agents). Requests may use either."`
	HTTPErrors string `field:"Protocol.HTTPErrors" name:"http-errors" placeholder:"VERSION" envvar:"" default:"1.0.1" enum:"1.0.1,1.0.0" group:"Access:" help:"Patch version of A2A 1.0 that determines the statuses of errors over HTTP+JSON and gRPC: 1.0.1, or 1.0.0 (409 for a task that cannot be canceled, 415 for a media type, 502 for an invalid response of an agent)."`
	JSONErrors bool   `field:"Requests.JSONErrors" name:"json-errors" envvar:"" group:"Access:" help:"Return the error of a streaming method over JSON-RPC as JSON, not as an event, also to clients that accept only events. The official kit for A2A 1.0 requires it; the official client in Go cannot read it."`
}

// workFlags limit tasks and what is kept of them.
type workFlags struct {
	MaxTask           size          `field:"Limits.TaskBytes" envvar:"" group:"Work:" help:"Maximum content size of a task: messages, artifacts and their replaced versions. At most a third of one owner's share of --memory."`
	MaxContext        size          `field:"Limits.ContextBytes" envvar:"" group:"Work:" help:"Maximum content size of all tasks of a context."`
	Memory            size          `field:"Memory" envvar:"" group:"Work:" help:"Memory that the process may use. Half of it is for large content: requests, responses, tasks, webhook bodies and files; one owner gets at most half of that half (default three quarters of the cgroup limit or of the machine's memory)."`
	Concurrency       int           `field:"Turns.Concurrency" envvar:"" group:"Work:" help:"Maximum number of tasks that run concurrently."`
	ReservedTurns     int           `field:"Turns.Reserved" envvar:"" default:"-1" group:"Work:" help:"Part of --concurrency that is reserved for owners with few running tasks, fewer than an eighth of this number. 0 is none, -1 is a quarter of --concurrency with tokens, else none."`
	MaxQueued         int           `field:"Limits.Queued" envvar:"" group:"Work:" help:"Maximum number of waiting tasks; above it new tasks are rejected."`
	MaxQueuedPerOwner int           `field:"Limits.QueuedPerOwner" envvar:"" group:"Work:" help:"Maximum number of waiting tasks of one owner; it falls as the queue fills, so that several owners cannot fill it together (default half of --max-queued with tokens, else all)."`
	ReadCache         size          `field:"Requests.ReadCacheBytes" envvar:"" group:"Work:" help:"Size of the cache of encoded responses of finished tasks (default 32MiB, at most 1/16 of --memory)."`
	TaskTimeout       time.Duration `field:"Turns.Timeout" envvar:"" group:"Work:" help:"Maximum duration of a turn of a task; 0 is no limit."`
	MaxAttempts       int           `field:"Turns.MaxAttempts" envvar:"" group:"Work:" help:"Maximum number of attempts of a turn; then its task fails."`
	Lease             time.Duration `field:"Turns.Lease" envvar:"" group:"Work:" help:"Time that a process may hold a task without renewing its lease; after that another process may claim it."`
	StopGrace         time.Duration `field:"StopGrace" envvar:"" group:"Work:" help:"Maximum time that running tasks may take to finish when the server stops; the others run again at the next start."`
	Retention         []string      `placeholder:"KIND=AGE" envvar:"" group:"Work:" help:"Age at which data is removed, such as completed=90d,failed=365d,idempotency=7d. KIND is a final task state, tasks (all final states without their own age), contexts (without tasks), described-contexts (without tasks, but created or changed by a client), idempotency, state (of sessions, and boards), transcripts, attempts or dead-letters (of webhooks). AGE is in days (90d), a duration (36h), or 0 for never (default never for tasks and described-contexts, 30d for the rest)."`
}

// logFlags configure the log.
type logFlags struct {
	LogLevel  string `placeholder:"LEVEL" envvar:"" default:"info" enum:"debug,info,warn,error" group:"Log:" help:"Log level: debug (every request), info, warn or error."`
	LogFormat string `placeholder:"FORMAT" envvar:"" default:"text" enum:"text,json" group:"Log:" help:"Log format on stderr: text or json."`
}

// size is a number of bytes, written as 10MiB, 10MB or 10485760.
type size int64

func (s size) String() string { return humanize.IBytes(uint64(s)) }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *size) UnmarshalText(text []byte) error {
	n, err := humanize.ParseBytes(string(text))
	if err != nil || n == 0 || n > 1<<40 {
		return fmt.Errorf("want a size such as 10MiB, but got %q", text)
	}
	*s = size(n)
	return nil
}

// serveSettings are the validated settings of serve and config.
type serveSettings struct {
	storage storage
	agent   chosenAgent
	access  access
	cfg     holdfast.Config
	cert    *certificate // nil without TLS
	notes   []string     // about settings without effect
}

// prepare validates the settings and returns all problems as one error. It starts and opens nothing.
func (c *serveCmd) prepare(a *app, log *slog.Logger) (r serveSettings, err error) {
	errs := append(a.set.emptyFlags(), c.checkAddress(a), c.checkGRPC(a))
	r.agent, err = c.chooseAgent(a, log)
	others := []error{err}
	r.cfg = r.agent.config
	a.set.bind("", &r.cfg)
	if c.Name != "" {
		r.cfg.Name = c.Name
	}
	r.cfg.Name = cmp.Or(r.cfg.Name, "unknown")
	r.cfg.Card.Version, r.cfg.Webhooks.UserAgent, r.cfg.Logger = readBuild().Version, userAgent(), log
	r.cfg.Retention, err = engine.ParseRetention(strings.Join(c.Retention, ","))
	if err != nil {
		r.cfg.Retention = nil
		errs = append(errs, prefixLines("--retention", err))
	}
	add := func(err error) { others = append(others, err) }
	r.cfg.Webhooks.Keys, err = c.keys(a)
	add(err)
	r.access, err = c.access(&r.cfg)
	add(err)
	skills, err := c.describeCard(&r.cfg)
	add(err)
	if r.access.auth != nil {
		r.cfg.Turns.Admit = r.access.auth.Admit(skills)
	}
	r.storage, err = c.resolve(a, c.Data)
	add(err)
	r.cert, err = c.certificate()
	add(err)
	r.notes = append(r.storage.notes, c.notes(a)...)
	errs = append(errs, a.set.checkBounds(false)...)
	errs = append(errs, a.set.problemsOf("", c.allowHint(r.cfg.Check()), "")...)
	return r, a.set.validationError(append(errs, others...)...)
}

// Run serves until ctx is done.
func (c *serveCmd) Run(ctx context.Context, a *app) (err error) {
	log := c.logger(a)
	r, err := c.prepare(a, log)
	if err != nil {
		return err
	}
	for _, text := range a.unknownVariableWarnings() {
		log.Warn("unknown setting", "detail", text, "see", a.name+" help environment")
	}
	for _, note := range r.notes {
		log.Warn("setting without effect", "detail", note)
	}
	cfg := r.cfg
	ln, err := listen(ctx, "--addr", c.address(a))
	if err != nil {
		return err
	}
	over, err := c.listenGRPC(ctx, a, &cfg)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	if r.cert != nil {
		ln = r.cert.tlsListener(ln)
	}
	if cfg.Store, err = r.storage.open(ctx, a, log); err != nil {
		return errors.Join(err, closeAll(ln, over))
	}
	defer func() { err = errors.Join(err, cfg.Store.Close()) }() // closed also when ctx is done
	defer r.access.start(ctx, cfg.Store)()
	others, err := r.storage.openContracts(ctx, a, openContractsParams{main: cfg.Store, log: log, age: cfg.Retention.Age})
	if err != nil {
		return errors.Join(err, closeAll(ln, over))
	}
	defer func() { err = errors.Join(err, others.Close()) }()
	cfg.Contracts = others.Contracts
	for i := range r.storage.contracts {
		c := &r.storage.contracts[i]
		log.Info("store", "of", c.Name, "url", maskURL(c.url), "chosen_by", a.set.origins[c.Setting].name)
	}
	if r.storage.url != "" {
		log.Info("database", "url", r.storage.url, "schema", r.storage.cfg.Schema, "chosen_by", r.storage.chosenBy)
	}
	cfg.Security.Warnings = r.access.warnings(&cfg, ln.Addr(), r.cert != nil)
	h, err := holdfast.New(cfg, r.agent.handler) // opening the store must not end half-way
	if err != nil {
		return errors.Join(err, closeAll(ln, over))
	}
	a.Out.BestEffort = true // a write error of the banner must not change the exit code
	b := banner{a: a, cfg: cfg, access: &r.access, agent: r.agent, addr: ln.Addr(), grpc: over, tls: r.cert != nil, storage: r.storage, log: log, jsonLog: c.LogFormat == "json"}
	b.print()
	defer context.AfterFunc(ctx, b.stopping)()
	tuning, tuned := context.WithCancel(ctx)
	defer tuned()
	limit := cmp.Or(int64(c.Memory), memory.Default())
	go a.tuneGC(tuning, limit, gcHeadroomOf(r.storage.inMemory, limit))
	go r.storage.probeEmbedder(tuning, log)
	a.reloads.Store(true)
	go (&reloader{cmd: c, access: &r.access, cert: r.cert, log: log}).run(tuning, a.hangups) // needs no wait at the end: it only reads files
	if err := c.serve(ctx, a, h, ln, over, r.cert); err != nil && !graceExpired(ctx, err) {
		return err
	}
	log.Info("stopped")
	return nil
}

// graceExpired reports whether err only means that the grace period ended before all tasks finished,
// which is not a failure of serve.
func graceExpired(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled))
}

func (c *serveCmd) logger(a *app) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.LogLevel)) // checked by the enum
	opts := &slog.HandlerOptions{Level: level, ReplaceAttr: a.set.replaceSettings}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(a.Err.W, opts))
	}
	return slog.New(slog.NewTextHandler(a.Err.W, opts))
}

// prefixLines adds a setting's name to each line of an error.
func prefixLines(name string, err error) error {
	if err == nil {
		return nil
	}
	return errors.New(name + ": " + strings.ReplaceAll(err.Error(), "\n", "\n"+name+": "))
}

// checkAddress checks the syntax of the listen address.
func (c *serveCmd) checkAddress(a *app) error {
	setting := "--addr"
	if c.Addr == "" {
		setting = "environment variables HOST and PORT"
	}
	return checkHostPort(setting, c.address(a))
}

// address returns the listen address. Hosting platforms set PORT and HOST.
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

func (a *app) warnUnknownVariables() {
	for _, text := range a.unknownVariableWarnings() {
		a.Info("%s %s; see: %s help environment", a.Err.Red("warning:"), text, a.name)
	}
}

// unknownVariableWarnings returns a warning for each unknown variable with Holdfast's prefix.
func (a *app) unknownVariableWarnings() []string {
	var g grammar
	whole := &app{Console: a.Console, parts: a.parts} // without arguments: with the variables of all commands
	parser, err := whole.parser(&g)
	if err != nil {
		return nil
	}
	var texts []string
	for _, name := range a.env.unknown(parser.Model) {
		texts = append(texts, "the environment variable "+name+" is unknown to this version")
	}
	return texts
}

// listen retries an address in use: the system releases the address of a killed server with a delay.
const (
	addrInUseTimeout  = time.Second
	addrRetryInterval = 20 * time.Millisecond
)

// listen opens a listener on addr, the value of a setting.
func listen(ctx context.Context, setting, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	for until := time.Now().Add(addrInUseTimeout); errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(until) && ctx.Err() == nil; {
		time.Sleep(addrRetryInterval)
		ln, err = lc.Listen(ctx, "tcp", addr)
	}
	var op *net.OpError
	var dns *net.DNSError
	switch {
	case err == nil:
		return ln, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, a2a.Errorf(a2a.CodeUnavailable, "%s is in use by another server: stop it or choose another address with %s", addr, setting)
	case errors.Is(err, syscall.EACCES):
		return nil, command.Usagef("%s: no permission to listen on %s: choose a port above 1023", setting, addr)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, command.Usagef("%s: %s is not an address of this machine", setting, addr)
	case errors.As(err, &dns):
		return nil, command.Usagef("%s: host %q of %s not found", setting, dns.Name, addr)
	case errors.As(err, &op):
		err = op.Err
	}
	return nil, a2a.Errorf(a2a.CodeUnavailable, "cannot listen on %s: %s", addr, err)
}
