package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	v03 "github.com/holdfast-dev/holdfast/a2a/v03"
	v10 "github.com/holdfast-dev/holdfast/a2a/v10"
	"github.com/holdfast-dev/holdfast/internal/fileref"
	"github.com/holdfast-dev/holdfast/rpc"
	"github.com/holdfast-dev/holdfast/server/internal/cards"
	"github.com/holdfast-dev/holdfast/server/internal/exchange"
	"github.com/holdfast-dev/holdfast/server/internal/methods"
	"github.com/holdfast-dev/holdfast/server/internal/router"
	"github.com/holdfast-dev/holdfast/server/jsonrpc"
	"github.com/holdfast-dev/holdfast/server/rest"
)

// Server serves an engine over HTTP. Create one with [New].
type Server struct {
	cfg         Config
	log         *slog.Logger
	card        a2a.AgentCard
	cards       *cards.Cards
	cors        *cors
	proxies     *proxies
	requestIDs  *requestIDs
	routes      router.Router[route]
	started     time.Time
	methods     *methods.Methods
	lists       *lists
	streams     *exchange.Streams
	rpc         *jsonrpc.Handler
	rest        []*rest.Handler // the handler of A2A 0.3 is first; none without a codec of the version
	healthCheck healthCheck

	// stopping ends when the server starts to stop: it is then not ready, and streams end.
	// graceEnded ends when blocking requests must return.
	stopping, graceEnded context.Context
	stop, endGrace       context.CancelFunc
}

// route is the handler of a path and an HTTP method.
type route struct {
	serve func(x *exchange.Exchange)
	// public routes need no credentials.
	public bool
	// probe routes accept any host name.
	probe bool
	// operation describes a route that is neither public nor a method of the protocol, for the authorization.
	operation *a2a.Method
	// rest routes need the variables of the path.
	rest bool
}

// New returns a server, or an error that lists all problems of cfg.
func New(cfg Config) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, log: cfg.Logger, cors: newCORS(cfg.Security.CORSOrigins, cfg.Card.URL),
		requestIDs: newRequestIDs(), started: time.Now(), lists: newLists(cfg.Requests.MaxLists),
	}
	if s.proxies, err = newProxies(&cfg); err != nil {
		return nil, err
	}
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.graceEnded, s.endGrace = context.WithCancel(context.Background())
	mc := methods.Config{
		Engine: cfg.Engine, Webhook: cfg.Webhook, StreamingOff: cfg.Requests.StreamingOff, BlockingTimeout: cfg.Requests.BlockingTimeout, MessageWait: cfg.Requests.MessageWait,
		GraceEnded: s.graceEnded, CacheBytes: cfg.Requests.ReadCacheBytes, URL: cfg.Card.URL,
	}
	if cfg.Security.ExtendedCard != nil {
		mc.ExtendedCard = func(ctx context.Context, c *rpc.Call) (json.RawMessage, error) { return s.cards.Extended(ctx, c) }
	}
	s.methods = methods.New(mc)
	table, err := s.table(cfg.Codecs...)
	if err != nil {
		return nil, err
	}
	var recheck func(context.Context, a2a.Principal) error
	if r, ok := cfg.Security.Authenticator.(Rechecker); ok {
		recheck = r.Recheck
	}
	s.streams = exchange.NewStreams(s.stopping, cfg.Requests.MaxStreams, cfg.Security.Authenticator != nil, cfg.Requests.Heartbeat, recheck)
	s.rpc = &jsonrpc.Handler{
		Table: table, Bodies: &exchange.Bodies{Max: cfg.Requests.MaxBodyBytes, Memory: cfg.Memory}, Replies: exchange.NewReplies(cfg.Memory, s.streams),
		JSONErrors: cfg.Requests.JSONErrors, MaxBatch: cfg.Requests.MaxBatch, MaxBatchBytes: cfg.Requests.MaxBatchBytes, BatchTimeout: cfg.Requests.BlockingTimeout,
	}
	if err := errors.Join(s.handleREST(table), s.handleCards()); err != nil {
		return nil, err
	}
	s.routes.Handle(http.MethodPost, "/", route{serve: s.rpc.Serve})
	if cfg.Engine.Files() != nil {
		s.routes.Handle(http.MethodGet, fileref.Path+"{ref}", route{serve: s.serveFile, public: true, rest: true})
	}
	s.routes.Handle(http.MethodGet, "/agent/info", route{serve: s.serveInfo, operation: &operationInfo})
	s.handleSkills()
	s.routes.Handle(http.MethodGet, "/health", route{serve: s.serveHealth, operation: &operationHealth})
	s.routes.Handle(http.MethodGet, "/healthz", route{serve: s.serveHealthz, public: true, probe: true})
	s.routes.Handle(http.MethodGet, "/readyz", route{serve: s.serveReadyz, public: true, probe: true})
	for _, r := range cfg.Security.Routes {
		s.routes.Handle(r.Method, r.Path, route{serve: func(x *exchange.Exchange) { r.Handler.ServeHTTP(x, withOrigin(x)) }, public: true})
	}
	if c, _ := codecOf(cfg.Codecs, v10.Codec{}.Version()).(v10.Codec); c.Tenant != "" && s.routes.Reserved(c.Tenant) {
		return nil, fmt.Errorf("server config: tenant %s is the start of another path", a2a.Quote(c.Tenant))
	}
	return s, nil
}

// restPath is a second path of HTTP+JSON of A2A 0.3, which cards declare: in that version two
// transports must not have the same URL, and JSON-RPC is at the root.
const restPath = "/rest"

// handleREST adds the routes of the HTTP+JSON binding of each version that has a codec.
func (s *Server) handleREST(table *rpc.Table) (err error) {
	bind := func(h *rest.Handler) {
		h.Table, h.Bodies, h.Replies = table, s.rpc.Bodies, s.rpc.Replies
		if s.cfg.Security.Authenticator != nil {
			h.Challenge = func(x *exchange.Exchange) string { return s.cfg.Security.Authenticator.Challenge(withOrigin(x)) }
		}
		routes, invalid := h.Routes(s.methods.Descriptors())
		err = errors.Join(err, invalid)
		for _, r := range routes {
			s.routes.Handle(r.HTTPMethod, r.Pattern, route{rest: true, serve: r.Serve})
		}
		s.rest = append(s.rest, h)
	}
	if codecOf(s.cfg.Codecs, v03.Codec{}.Version()) != nil {
		bind(&rest.Handler{Codec: v03.ProtoCodec{}, Base: restPath})
	}
	if codec, ok := codecOf(s.cfg.Codecs, v10.Codec{}.Version()).(rest.Codec); ok {
		bind(&rest.Handler{Codec: codec, Tenants: true})
	}
	s.routes.Reserve("/v1") // it is no tenant
	return err
}

// codecOf returns the codec of a version, nil if there is none.
func codecOf(codecs []rpc.Codec, version string) rpc.Codec {
	for _, codec := range codecs {
		if codec.Version() == version {
			return codec
		}
	}
	return nil
}

// refuse responds with an HTTP status and an error in the format of the request's path.
func (s *Server) refuse(x *exchange.Exchange, status int, err error) {
	for _, h := range s.rest {
		if h.Owns(x.Request.URL.Path) {
			h.Refuse(x, status, err)
			return
		}
	}
	s.rpc.Refuse(x, status, err)
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := s.newExchange(w, r)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	s.activateExtensions(x)
	defer s.finish(x, time.Now())
	m := s.routes.Match(r.Method, r.URL)
	if !s.admit(x, m.Value.probe) || !m.Value.public && !s.authenticate(x) || m.Value.operation != nil && !s.authorizeRoute(x, m.Value.operation) {
		return
	}
	switch {
	case m.Value.rest:
		matched := m // only requests of these routes allocate a copy
		x.PathValue = matched.Var
		m.Value.serve(x)
	case m.Value.serve != nil:
		m.Value.serve(x)
	case m.Allow == "":
		s.refuse(x, http.StatusNotFound, a2a.Errorf(a2a.CodeMethodNotFound, "path %s not found", a2a.Quote(r.URL.Path)))
	default:
		w.Header().Set("Allow", m.Allow)
		s.refuse(x, http.StatusMethodNotAllowed, a2a.Errorf(a2a.CodeInvalidRequest, "%s allows %s, not %s", r.URL.Path, m.Allow, a2a.Quote(r.Method)))
	}
}

// finish recovers from a panic and writes the access log. It must be called by defer directly.
func (s *Server) finish(x *exchange.Exchange, start time.Time) {
	if p := recover(); p != nil {
		if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(p)
		}
		x.LogPanic(p)
		if x.Status != 0 {
			// The response has started. Aborting it shows the client that it is incomplete.
			panic(http.ErrAbortHandler)
		}
		s.refuse(x, http.StatusInternalServerError, exchange.ErrPanicked)
	}
	s.logAccess(x, start)
}

// logAccess writes a request to the log at debug level.
func (s *Server) logAccess(x *exchange.Exchange, start time.Time) {
	ctx := x.Request.Context()
	if !s.log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	attrs := []slog.Attr{
		slog.String("request", x.ID), slog.String("verb", x.Request.Method), slog.String("path", x.Request.URL.Path),
		slog.Int("status", x.Status), slog.Duration("duration", time.Since(start)),
	}
	method, task := x.Called()
	if method != "" {
		attrs = append(attrs, slog.String("method", method))
	}
	if task != "" {
		attrs = append(attrs, slog.String("task", task))
	}
	s.log.LogAttrs(ctx, slog.LevelDebug, "request", attrs...)
}
