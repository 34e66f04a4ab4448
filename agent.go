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
	v03 "github.com/holdfast-dev/holdfast/a2a/v03"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/memory"
	"github.com/holdfast-dev/holdfast/internal/safehttp"
	"github.com/holdfast-dev/holdfast/rpc"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/webhook"
)

// DefaultDataDir is the default of [Config.DataDir].
const DefaultDataDir = "holdfast-data"

// blockingGrace is how long blocking requests wait after the last task of this process has
// stopped. The tasks that they wait for will continue in another process.
const blockingGrace = 50 * time.Millisecond

// defaultPerAddress is the default of Webhooks.PerAddress.
const defaultPerAddress = 8

// Agent serves a handler over HTTP. Create one with [New], then either call
// [Agent.ListenAndServe], or call Start, mount Handler in a server of your own, and call
// Stop. It is safe for concurrent use.
type Agent struct {
	cfg       Config
	store     store.Store
	ownsStore bool // Stop closes the store
	engine    *engine.Engine
	webhook   *webhook.Service // nil if webhooks are off
	server    *server.Server
}

// New returns an agent for h, or an error that lists all problems of cfg. It opens the
// default store if [Config.Store] is nil; only one process at a time can open the store of
// a [Config.DataDir]. Call [Agent.Stop] to release it, even if the agent was never started.
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
		a.ownsStore = true
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
		errs = append(errs, errors.New("handler is required"))
	}
	if c.Store != nil && c.DataDir != "" {
		errs = append(errs, errors.New("Store and DataDir must not both be set"))
	}
	if len(c.Tokens) > 0 {
		tokens, err := server.NewTokens(c.Tokens)
		if c.Authenticator != nil {
			err = errors.Join(err, errors.New("Tokens and Authenticator must not both be set"))
		}
		if c.Authenticator = tokens; err != nil {
			errs = append(errs, err)
		}
	}
	if c.Dialect != "" && c.Dialect != "a2a" && c.Dialect != "bindu" {
		errs = append(errs, fmt.Errorf("Dialect is %q, want \"a2a\" or \"bindu\"", c.Dialect))
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
	files, err := newFileReader(cfg.Files, cfg.Webhooks, cfg.Authenticator != nil, cfg.Logger)
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
		MultiOwner:    cfg.Authenticator != nil,
		OutputModes:   cfg.OutputModes,
		Memory:        budget,
	})
	if err != nil {
		return err
	}
	if !cfg.Webhooks.Off {
		if a.webhook, err = newWebhookService(cfg.Webhooks, cfg.Retention, a.store, budget, cfg.Logger); err != nil {
			return err
		}
	}
	a.server, err = server.New(server.Config{
		Engine:          a.engine,
		Webhook:         a.webhook,
		Card:            a.card(),
		Codecs:          []rpc.Codec{v03.Codec{Bindu: cfg.Dialect == "bindu"}},
		Authenticator:   cfg.Authenticator,
		Memory:          budget,
		MaxBody:         cfg.MaxBodyBytes,
		FileSlots:       files.slots,
		MaxLists:        cfg.MaxLists,
		MaxStreams:      cfg.MaxStreams,
		MaxBatchBytes:   cfg.MaxBatchBytes,
		ReadCache:       cfg.ReadCacheBytes,
		BlockingTimeout: cfg.BlockingTimeout,
		CORSOrigins:     cfg.CORSOrigins,
		StopGrace:       blockingGrace,
		Logger:          cfg.Logger,
	})
	return err
}

// SetTokens replaces [Config.Tokens] for subsequent requests. If any token is invalid, it
// returns an error that lists all problems and keeps the current tokens. It cannot turn
// authentication on or off. It is safe for concurrent use.
func (a *Agent) SetTokens(tokens []Token) error {
	current, ok := a.cfg.Authenticator.(*server.Tokens)
	if !ok || len(tokens) == 0 {
		return errors.New("tokens: authentication cannot be turned on or off while the agent runs")
	}
	return current.Set(tokens)
}

// newWebhookService returns the service that delivers events to webhooks, or an error that
// lists all problems of w. It logs a warning if w allows addresses that are not public.
func newWebhookService(w Webhooks, retention engine.Retention, st store.Store, budget *memory.Budget, logger *slog.Logger) (*webhook.Service, error) {
	if w.PerAddress < 0 {
		return nil, fmt.Errorf("webhooks config: PerAddress is %d, want at least 1", w.PerAddress)
	}
	sender, policy, err := newClient(w, safehttp.ClientConfig{Timeout: w.Timeout, MaxPerAddress: cmp.Or(w.PerAddress, defaultPerAddress)}, w.AllowNets, w.AllowHosts)
	if err != nil {
		return nil, fmt.Errorf("webhooks config: %w", err)
	}
	lease := w.Lease
	if lease == 0 {
		lease = max(30*time.Second, 2*w.Timeout) // longer than a delivery attempt
	}
	if len(policy.AllowNets) > 0 || len(policy.AllowHosts) > 0 {
		logger.Warn("webhooks may go to addresses that are not public: everyone who can send a message can cause requests to them",
			"nets", fmt.Sprint(policy.AllowNets), "hosts", fmt.Sprint(policy.AllowHosts))
	}
	if len(w.Keys) == 0 && st.Info().Durable {
		logger.Warn("tokens and signing secrets of webhooks are stored unencrypted: set keys with Webhooks.Keys, --webhook-encryption-key or PUSH_SECRET_KEYS")
	}
	return webhook.New(webhook.Config{
		Store: st, NewID: newID, Sender: sender, Policy: policy, UserAgent: w.userAgent(), Logger: logger,
		Global: webhook.Global{URL: w.URL, Token: w.Token, Secret: w.Secret}, Keys: w.Keys,
		PerTask: w.PerTask, PerMinute: w.PerMinute, InFlight: w.InFlight, PerEndpoint: w.PerEndpoint, PerOwner: w.PerOwner,
		Timeout: w.Timeout, Lease: lease, Memory: budget,
		KeepAttempts: webhookRetention(retention.Age(engine.RetainAttempts)), KeepDead: webhookRetention(retention.Age(engine.RetainDeadLetters)),
	})
}

// webhookRetention converts an age of [engine.Retention] to one of [webhook.Config], which
// are negative for data that is kept forever.
func webhookRetention(age time.Duration) time.Duration {
	if age == 0 {
		return -1
	}
	return age
}

// userAgent returns the User-Agent header of outgoing requests.
func (w *Webhooks) userAgent() string {
	if w.UserAgent != "" {
		return w.UserAgent
	}
	info, _ := debug.ReadBuildInfo()
	return webhook.UserAgent("holdfast", moduleVersion(info))
}

// newClient returns an HTTP client for URLs that clients supply. It reaches the addresses
// that w, nets and hosts allow.
func newClient(w Webhooks, cfg safehttp.ClientConfig, nets, hosts []string) (*safehttp.Client, safehttp.Policy, error) {
	policy, err := safehttp.ParsePolicy(safehttp.PolicyParams{AllowNets: nets, AllowHosts: hosts, NAT64: w.NAT64, RequireHTTPS: w.RequireHTTPS})
	if w.EgressProxy != "" {
		u, proxyErr := url.Parse(w.EgressProxy)
		if proxyErr != nil {
			proxyErr = errors.New("egress proxy: invalid URL") // without the URL, which may contain a password
		}
		cfg.EgressProxy, err = u, errors.Join(err, proxyErr)
	}
	if err != nil {
		return nil, policy, err
	}
	cfg.Policy = policy
	client, err := safehttp.New(cfg)
	return client, policy, err
}

// newID returns a UUIDv7. IDs that sort by time keep the indexes of the stores dense.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

func (a *Agent) card() a2a.AgentCard {
	return a2a.AgentCard{
		Name: a.cfg.Name, Description: a.cfg.Description, Version: a.cfg.Version, URL: a.cfg.URL,
		Provider: a.cfg.Provider, Skills: a.cfg.Skills,
		DefaultInputModes: a.cfg.InputModes, DefaultOutputModes: a.cfg.OutputModes,
	}
}

// Start starts to run tasks, first those that an earlier process left unfinished, and to
// deliver events to webhooks.
func (a *Agent) Start(ctx context.Context) error {
	if err := a.engine.Start(ctx); err != nil || a.webhook == nil {
		return err
	}
	if err := a.webhook.Start(ctx); err != nil {
		stopNow, cancel := context.WithCancel(context.WithoutCancel(ctx))
		cancel()
		return errors.Join(err, a.engine.Stop(stopNow))
	}
	return nil
}

// Handler returns the agent's HTTP handler: JSON-RPC, server-sent events, the agent card and
// health checks. Mount it at the root of any server.
func (a *Agent) Handler() http.Handler { return a.server }

// Stop stops the agent. It accepts no new work and waits for running handlers until ctx is
// done; after that it cancels their contexts and requeues their tasks. It also delivers due
// webhook events until ctx is done; the remaining ones are delivered after the next start.
// It closes the store unless [Config.Store] was set. Stop is idempotent.
func (a *Agent) Stop(ctx context.Context) error {
	stopped := a.engine.Stop(ctx)
	a.server.Drain()
	return errors.Join(stopped, a.stopWebhook(ctx), a.closeStore())
}

// stopWebhook stops the delivery to webhooks after the last events of the tasks are sent.
func (a *Agent) stopWebhook(ctx context.Context) error {
	if a.webhook == nil {
		return nil
	}
	drainCtx, cancel := context.WithTimeout(ctx, a.cfg.StopGrace)
	defer cancel()
	a.webhook.Drain(drainCtx)
	return a.webhook.Stop(ctx)
}

func (a *Agent) closeStore() error {
	if !a.ownsStore {
		return nil
	}
	return a.store.Close()
}

// ListenAndServe starts the agent and serves it on a TCP address until ctx is done. Then it
// stops gracefully within [Config.StopGrace] and returns nil. It logs the address.
func (a *Agent) ListenAndServe(ctx context.Context, addr string) error {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return errors.Join(err, a.closeStore())
	}
	a.cfg.Logger.Info("listening", "url", "http://"+ln.Addr().String(), "data", a.store.Info().Location)
	return a.Serve(ctx, ln)
}

// Serve is like [Agent.ListenAndServe] for a listener, which it closes.
func (a *Agent) Serve(ctx context.Context, ln net.Listener) error {
	if err := a.Start(ctx); err != nil {
		err = errors.Join(err, ln.Close())
		if errors.Is(err, engine.ErrStarted) {
			return err // the caller that started the agent stops it
		}
		return errors.Join(err, a.closeStore())
	}
	serveCtx, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	served := make(chan error, 1)
	go func() { served <- a.server.Serve(serveCtx, ln) }()
	select {
	case err := <-served:
		return errors.Join(err, a.Stop(serveCtx))
	case <-ctx.Done():
	}
	// Stop the engine first, so that open streams receive the last events of their tasks.
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.cfg.StopGrace)
	defer cancel()
	stopped := a.engine.Stop(grace)
	stopServing()

	return errors.Join(<-served, stopped, a.stopWebhook(grace), a.closeStore())
}
