package server

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/memory"
	"github.com/holdfast-dev/holdfast/rpc"
)

// Server serves an engine over HTTP. Create one with [New].
type Server struct {
	cfg           Config
	log           *slog.Logger
	table         *rpc.Table
	card          *card
	cors          *cors
	requestIDs    *requestIDs
	routes        map[string]route
	started       time.Time
	streamSlots   *memory.Budget // one unit is one open stream
	batchRefusals atomic.Int64   // rejected items of batches
	readSlots     *memory.Budget // one unit is the reading of one result of unknown size
	sizes         responseSizes
	listSlots     *memory.Budget // one unit is the reading of one list
	cache         *readCache

	healthCheck healthCheck

	// stopping ends when the server starts to stop: it is then not ready, and streams end.
	// graceEnded ends when blocking requests must return.
	stopping, graceEnded context.Context
	stop, endGrace       context.CancelFunc
}

// route has the handlers of a path. A nil handler means that the HTTP method is not allowed.
type route struct {
	get, post func(x *exchange)
	// public routes need no credentials for get; post always needs some.
	public bool
	// probe routes accept any host name.
	probe bool
}

// New returns a server, or an error that lists all problems of cfg.
func New(cfg Config) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, log: cfg.Logger, cors: newCORS(cfg.CORSOrigins, cfg.Card.URL),
		requestIDs: newRequestIDs(), started: time.Now(), listSlots: memory.New(int64(cfg.MaxLists)), cache: newReadCache(cfg.ReadCacheBytes),
	}
	s.readSlots, s.streamSlots = newBudgets(cfg)
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.graceEnded, s.endGrace = context.WithCancel(context.Background())
	if s.table, err = rpc.NewTable(rpc.Config{
		Methods: cfg.methods(), Codecs: cfg.Codecs,
		Interceptors: slices.Concat(cfg.Interceptors, []rpc.Interceptor{rpc.Authorize, s.limitBulk}),
	}, s.bindings()...); err != nil {
		return nil, err
	}
	if s.card, err = newCard(cfg); err != nil {
		return nil, err
	}
	s.routes = map[string]route{
		"/":                            {get: (*exchange).serveCard, post: (*exchange).serveRPC, public: true},
		"/.well-known/agent-card.json": {get: (*exchange).serveCard, public: true},
		"/.well-known/agent.json":      {get: (*exchange).serveCard, public: true},
		"/agent/info":                  {get: (*exchange).serveInfo},
		"/health":                      {get: (*exchange).serveHealth},
		"/healthz":                     {get: (*exchange).serveHealthz, public: true, probe: true},
		"/readyz":                      {get: (*exchange).serveReadyz, public: true, probe: true},
	}
	return s, nil
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{s: s, w: w, r: r, start: time.Now(), id: s.requestIDs.forRequest(r)}
	w.Header().Set("X-Request-Id", x.id)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	defer x.finish(r.Context())
	if !s.cors.admit(x) {
		return
	}
	route, found := s.routes[r.URL.Path]
	read := r.Method == http.MethodGet || r.Method == http.MethodHead
	if public := route.public && read; !public && !x.authenticate() {
		return
	}
	switch {
	case !found:
		x.refuse(http.StatusNotFound, a2a.Errorf(a2a.CodeMethodNotFound, "path %s not found", a2a.Quote(r.URL.Path)))
	case read && route.get != nil:
		route.get(x)
	case r.Method == http.MethodPost && route.post != nil:
		route.post(x)
	default:
		w.Header().Set("Allow", route.allow())
		x.refuse(http.StatusMethodNotAllowed, a2a.Errorf(a2a.CodeInvalidRequest, "%s allows %s, not %s", r.URL.Path, route.allow(), a2a.Quote(r.Method)))
	}
}

func (r route) allow() string {
	var verbs []string
	if r.get != nil {
		verbs = append(verbs, http.MethodGet, http.MethodHead)
	}
	if r.post != nil {
		verbs = append(verbs, http.MethodPost)
	}
	return strings.Join(verbs, ", ")
}
