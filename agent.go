package holdfast

import (
	"context"
	"errors"
	"net"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/memory"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/webhook"
)

// DefaultDataDir is the default of [Config.DataDir].
const DefaultDataDir = "holdfast-data"

// blockingGrace is how long blocking requests wait after the last task of this process has
// stopped. The tasks that they wait for will continue in another process.
const blockingGrace = 50 * time.Millisecond

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

// New returns an agent for h. If cfg is invalid, the error is a [*ConfigError] with all problems.
// New opens the default store if [Config.Store] is nil; only one process at a time can open the
// store of a [Config.DataDir]. Call [Agent.Stop] to release it, even if the agent was never
// started.
func New(cfg Config, h Handler) (*Agent, error) {
	cfg, e := cfg.complete()
	e.Require(h == nil, "handler")
	if err := configError(e); err != nil {
		return nil, err
	}
	a := &Agent{cfg: cfg, store: cfg.Store}
	if a.store == nil {
		var err error
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

func (a *Agent) assemble(h Handler) (err error) {
	cfg := a.cfg
	budget := memory.OfProcess(cfg.Memory)
	files, err := newFileReader(cfg)
	if err != nil {
		return err
	}
	ec := cfg.engine()
	ec.Store, ec.Memory = a.store, budget
	ec.Handler = func(ctx context.Context, t *engine.Turn) error { return h.Handle(ctx, &Turn{turn: t, files: files}) }
	if a.engine, err = engine.New(ec); err != nil {
		return err
	}
	wc := cfg.webhook()
	wc.Store, wc.Memory, wc.Files = a.store, budget, a.engine.Files()
	if a.webhook, err = webhook.New(wc); err != nil {
		return err
	}
	sc := cfg.server()
	sc.Engine, sc.Webhook, sc.Memory, sc.FileSlots = a.engine, a.webhook, budget, files.slots
	a.server, err = server.New(sc)
	return err
}

// SetTokens replaces [Config.Tokens] for subsequent requests. If any token is invalid, it
// returns an error that lists all problems and keeps the current tokens. It cannot turn
// authentication on or off. It is safe for concurrent use.
func (a *Agent) SetTokens(tokens []server.Token) error {
	current, ok := a.cfg.Security.Authenticator.(*server.Tokens)
	if !ok || len(tokens) == 0 {
		return errors.New("tokens: authentication cannot be turned on or off while the agent runs")
	}
	return current.Set(tokens)
}

// defaultUserAgent returns the default of the User-Agent header of outgoing requests.
func defaultUserAgent() string {
	info, _ := debug.ReadBuildInfo()
	return webhook.UserAgent("holdfast", moduleVersion(info))
}

// newID returns a UUIDv7. IDs that sort by time keep the indexes of the stores dense.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

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

// Server returns the agent's server, for transports with a listener of their own such as
// server/grpc.
func (a *Agent) Server() *server.Server { return a.server }

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

// Serve is like [Agent.ListenAndServe] for a listener, which it closes. transports serve other
// listeners meanwhile, such as the function Serve of package server/grpc. They must return when the
// agent's server stops. If one returns earlier, the agent stops. Serve does not call them if the
// agent cannot be started.
func (a *Agent) Serve(ctx context.Context, ln net.Listener, transports ...func() error) error {
	if err := a.Start(ctx); err != nil {
		err = errors.Join(err, ln.Close())
		if errors.Is(err, engine.ErrStarted) {
			return err // the caller that started the agent stops it
		}
		return errors.Join(err, a.closeStore())
	}
	serveCtx, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	transports = append(transports, func() error { return a.server.Serve(serveCtx, ln) })
	served := make(chan error)
	for _, serve := range transports {
		go func() { served <- serve() }()
	}
	running := len(transports)
	var failed error
	select {
	case failed = <-served:
		running--
	case <-ctx.Done():
	}
	// Stop the engine first, so that open streams receive the last events of their tasks.
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.cfg.StopGrace)
	defer cancel()
	stopped := a.engine.Stop(grace)
	stopServing()
	a.server.Drain()
	for range running {
		failed = errors.Join(failed, <-served)
	}
	return errors.Join(failed, stopped, a.stopWebhook(grace), a.closeStore())
}
