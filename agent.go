package holdfast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/memory"
	"github.com/holdfast-dev/holdfast/internal/safehttp"
	"github.com/holdfast-dev/holdfast/push"
	"github.com/holdfast-dev/holdfast/rpc"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/store"
)

// DefaultDataDir is where an Agent keeps its data when nothing else is said.
const DefaultDataDir = "holdfast-data"

// lastAnswers is how long blocking requests are held once no task runs any more:
// what they wait for will be run by another process.
const lastAnswers = 50 * time.Millisecond

// defaultPerAddress is how many webhooks of one public address are called at once.
const defaultPerAddress = 8

// Agent is a handler made into a service. Make one with [New]; then either call
// [Agent.ListenAndServe], or Start, use Handler in a server of your own, and Stop.
// It is safe for concurrent use.
type Agent struct {
	cfg    Config
	store  store.Store
	owned  bool // the store is ours to close
	engine *engine.Engine
	push   *push.Service // nil: webhooks are off
	server *server.Server
}

// New returns an agent, or all that is wrong with cfg. It opens the store: only
// one process at a time can have the default store of a DataDir. Call
// [Agent.Stop] to release it, also when the agent was never started.
func New(cfg Config, h Handler) (*Agent, error) {
	cfg, err := cfg.withDefaults(h)
	if err != nil {
		return nil, err
	}
	a := &Agent{cfg: cfg, store: cfg.Store}
	if a.store == nil {
		if a.store, err = sqlite.Open(context.Background(), sqlite.Config{Dir: cfg.DataDir, Logger: cfg.Logger}); err != nil {
			return nil, err
		}
		a.owned = true
	}
	if err := a.assemble(h); err != nil {
		return nil, errors.Join(err, a.closeStore())
	}
	return a, nil
}

func (c Config) withDefaults(h Handler) (Config, error) {
	var errs []error
	if c.Name == "" {
		errs = append(errs, errors.New("Name is required"))
	}
	if h == nil {
		errs = append(errs, errors.New("a handler is required"))
	}
	if c.Store != nil && c.DataDir != "" {
		errs = append(errs, errors.New("Store and DataDir must not both be set"))
	}
	if c.StopGrace < 0 {
		errs = append(errs, fmt.Errorf("StopGrace is %s, want 0 or more", c.StopGrace))
	}
	if c.Memory == 0 {
		c.Memory = memory.Default()
	}
	if c.ReadCacheBytes == 0 {
		c.ReadCacheBytes = min(32<<20, c.Memory/16)
	}
	if c.Memory < memory.Least {
		errs = append(errs, fmt.Errorf("Memory is %d, want at least %d", c.Memory, memory.Least))
	}
	if len(errs) > 0 {
		return c, fmt.Errorf("holdfast config: %w", errors.Join(errs...))
	}
	if c.Description == "" {
		c.Description = c.Name
	}
	if c.Version == "" {
		c.Version = "0.0.0"
	}
	if c.DataDir == "" {
		c.DataDir = DefaultDataDir
	}
	if c.StopGrace == 0 {
		c.StopGrace = 10 * time.Second
	}
	if len(c.InputModes) == 0 {
		c.InputModes = []string{"text/plain"}
	}
	if len(c.OutputModes) == 0 {
		c.OutputModes = []string{"text/plain"}
	}
	if len(c.Skills) == 0 {
		c.Skills = []a2a.AgentSkill{{ID: "default", Name: c.Name, Description: c.Description, Tags: []string{"agent"}}}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

func (a *Agent) assemble(h Handler) (err error) {
	cfg := a.cfg
	budget := memory.OfProcess(cfg.Memory)
	files, err := newFileReader(cfg.Files, cfg.Webhooks, len(cfg.Tokens) > 0, cfg.Logger)
	if err != nil {
		return err
	}
	a.engine, err = engine.New(engine.Config{
		Store:         a.store,
		Handler:       func(ctx context.Context, t *engine.Turn) error { return h.Handle(ctx, &Turn{turn: t, files: files}) },
		NewID:         newID,
		Logger:        cfg.Logger,
		Concurrency:   cfg.Concurrency,
		Reserved:      cfg.ReservedTurns,
		Lease:         cfg.Lease,
		TaskTimeout:   cfg.TaskTimeout,
		MaxAttempts:   cfg.MaxAttempts,
		RetryDelay:    cfg.RetryDelay,
		RetryDelayMax: max(cfg.RetryDelay, time.Minute),
		HandlerGrace:  cfg.HandlerGrace,
		FlushInterval: cfg.FlushInterval,
		Retention:     cfg.Retention,
		Limits:        cfg.Limits,
		MultiOwner:    len(cfg.Tokens) > 0,
		OutputModes:   cfg.OutputModes,
		Memory:        budget,
	})
	if err != nil {
		return err
	}
	if !cfg.Webhooks.Off {
		if a.push, err = newPush(cfg.Webhooks, cfg.Retention, a.store, budget, cfg.Logger); err != nil {
			return err
		}
	}
	a.server, err = server.New(server.Config{
		Engine:          a.engine,
		Push:            a.push,
		Card:            a.card(),
		Dialect:         rpc.Dialect(cfg.Dialect),
		Tokens:          serverTokens(cfg.Tokens),
		Memory:          budget,
		MaxBody:         cfg.MaxBodyBytes,
		Files:           files.places,
		MaxLists:        cfg.MaxLists,
		MaxStreams:      cfg.MaxStreams,
		MaxBatchBytes:   cfg.MaxBatchBytes,
		ReadCache:       cfg.ReadCacheBytes,
		BlockingTimeout: cfg.BlockingTimeout,
		CORSOrigins:     cfg.CORSOrigins,
		StopGrace:       lastAnswers,
		Logger:          cfg.Logger,
	})
	return err
}

func serverTokens(tokens []Token) []server.Token {
	list := make([]server.Token, len(tokens))
	for i, t := range tokens {
		list[i] = server.Token{Token: t.Token, Principal: t.Principal}
	}
	return list
}

// SetTokens replaces Config.Tokens for requests from now on. It reports everything that
// is wrong with the new tokens and keeps the old ones then. An agent without tokens cannot
// get any while it runs, nor the other way round. Safe for concurrent use.
func (a *Agent) SetTokens(tokens []Token) error { return a.server.SetTokens(serverTokens(tokens)) }

// newPush returns the service that calls webhooks, or all that is wrong with w. It warns
// of addresses that are not public and may be called.
func newPush(w Webhooks, keep engine.Retention, kept store.Store, budget *memory.Budget, logger *slog.Logger) (*push.Service, error) {
	if w.PerAddress < 0 {
		return nil, fmt.Errorf("webhooks config: PerAddress is %d, want at least 1", w.PerAddress)
	}
	sender, policy, err := newSender(w, safehttp.ClientConfig{Timeout: w.Timeout, MaxPerAddress: cmp.Or(w.PerAddress, defaultPerAddress)}, w.AllowNets, w.AllowHosts)
	if err != nil {
		return nil, fmt.Errorf("webhooks config: %w", err)
	}
	lease := w.Lease
	if lease == 0 {
		lease = max(30*time.Second, 2*w.Timeout) // a lease must outlast an attempt
	}
	if len(policy.AllowNets) > 0 || len(policy.AllowHosts) > 0 {
		logger.Warn("webhooks may go to addresses that are not public: whoever may send a message can have these called",
			"nets", fmt.Sprint(policy.AllowNets), "hosts", fmt.Sprint(policy.AllowHosts))
	}
	if len(w.Keys) == 0 && kept.Info().Durable {
		logger.Warn("tokens and signing secrets of webhooks are stored unencrypted: set keys with Webhooks.Keys, --push-secret-key or PUSH_SECRET_KEYS")
	}
	return push.New(push.Config{
		Store: kept, NewID: newID, Sender: sender, Policy: policy, Agent: w.agent(), Logger: logger,
		Global: push.Global{URL: w.URL, Token: w.Token, Secret: w.Secret}, Keys: w.Keys,
		PerTask: w.PerTask, PerMinute: w.PerMinute, InFlight: w.InFlight, PerEndpoint: w.PerEndpoint, PerOwner: w.PerOwner,
		Timeout: w.Timeout, Lease: lease, Memory: budget,
		KeepAttempts: orForever(keep.Age(engine.RetainAttempts)), KeepDead: orForever(keep.Age(engine.RetainDead)),
	})
}

// orForever returns an age of [engine.Retention] as package push spells it.
func orForever(age time.Duration) time.Duration {
	if age == 0 {
		return -1
	}
	return age
}

// agent is the user agent of requests.
func (w *Webhooks) agent() string {
	if w.Agent != "" {
		return w.Agent
	}
	info, _ := debug.ReadBuildInfo()
	return push.UserAgent("holdfast", moduleVersion(info))
}

// newSender returns what makes requests to URLs of strangers: as cfg says, to where w and the
// allowed addresses let them go.
func newSender(w Webhooks, cfg safehttp.ClientConfig, nets, hosts []string) (*safehttp.Client, safehttp.Policy, error) {
	policy, err := safehttp.ParsePolicy(safehttp.PolicyParams{AllowNets: nets, AllowHosts: hosts, NAT64: w.NAT64, RequireHTTPS: w.RequireHTTPS})
	if w.EgressProxy != "" {
		u, proxyErr := url.Parse(w.EgressProxy)
		if proxyErr != nil {
			proxyErr = errors.New("egress proxy: is not a URL") // which may hold a password
		}
		cfg.EgressProxy, err = u, errors.Join(err, proxyErr)
	}
	if err != nil {
		return nil, policy, err
	}
	cfg.Policy = policy
	sender, err := safehttp.New(cfg)
	return sender, policy, err
}

// newID returns a UUIDv7: ids that sort by time keep the stores' indexes dense.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

func (a *Agent) card() a2a.AgentCard {
	return a2a.AgentCard{
		Name: a.cfg.Name, Description: a.cfg.Description, Version: a.cfg.Version, URL: a.cfg.URL,
		Provider: a.cfg.Provider, Skills: a.cfg.Skills,
		DefaultInputModes: a.cfg.InputModes, DefaultOutputModes: a.cfg.OutputModes,
	}
}

// Start begins to run tasks, those that an earlier process left unfinished
// first among them, and to call webhooks.
func (a *Agent) Start(ctx context.Context) error {
	if err := a.engine.Start(ctx); err != nil || a.push == nil {
		return err
	}
	if err := a.push.Start(ctx); err != nil {
		stopNow, cancel := context.WithCancel(context.WithoutCancel(ctx))
		cancel()
		return errors.Join(err, a.engine.Stop(stopNow))
	}
	return nil
}

// Handler serves the agent over HTTP: JSON-RPC, server-sent events, the agent
// card and health. It may be mounted at the root of any server.
func (a *Agent) Handler() http.Handler { return a.server }

// Stop ends the agent: no new work is taken, running handlers may finish until
// ctx is done, then they are told to return and their tasks are handed back to be
// run later. Webhooks are told what is due until ctx is done; the rest is told later.
// It closes the store unless that was given in the Config. Stopping twice is harmless.
func (a *Agent) Stop(ctx context.Context) error {
	stopped := a.engine.Stop(ctx)
	a.server.Drain()
	return errors.Join(stopped, a.stopPush(ctx), a.closeStore())
}

// stopPush stops to call webhooks, once they know how the last tasks have ended.
func (a *Agent) stopPush(ctx context.Context) error {
	if a.push == nil {
		return nil
	}
	enough, cancel := context.WithTimeout(ctx, a.cfg.StopGrace)
	defer cancel()
	a.push.Drain(enough)
	return a.push.Stop(ctx)
}

func (a *Agent) closeStore() error {
	if !a.owned {
		return nil
	}
	return a.store.Close()
}

// ListenAndServe starts the agent and serves it on a TCP address until ctx is
// done, then stops it gracefully, within StopGrace. It logs the address and returns
// nil after a graceful stop.
func (a *Agent) ListenAndServe(ctx context.Context, addr string) error {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return errors.Join(err, a.closeStore())
	}
	a.cfg.Logger.Info("listening", "url", "http://"+ln.Addr().String(), "data", a.store.Info().Location)
	return a.Serve(ctx, ln)
}

// Serve is ListenAndServe on a listener, which it closes.
func (a *Agent) Serve(ctx context.Context, ln net.Listener) error {
	if err := a.Start(ctx); err != nil {
		err = errors.Join(err, ln.Close())
		if errors.Is(err, engine.ErrStarted) {
			return err // whoever started it stops it
		}
		return errors.Join(err, a.closeStore())
	}
	serving, halt := context.WithCancel(context.WithoutCancel(ctx))
	defer halt()
	served := make(chan error, 1)
	go func() { served <- a.server.Serve(serving, ln) }()
	select {
	case err := <-served:
		return errors.Join(err, a.Stop(serving))
	case <-ctx.Done():
	}
	// Tasks come to their end first, so that those who follow them are told.
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.cfg.StopGrace)
	defer cancel()
	stopped := a.engine.Stop(grace)
	halt()
	return errors.Join(<-served, stopped, a.stopPush(grace), a.closeStore())
}
