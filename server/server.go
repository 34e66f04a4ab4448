package server

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/memory"
	"github.com/holdfast-dev/holdfast/rpc"
)

// Server answers for an engine. Make one with [New].
type Server struct {
	cfg           Config
	log           *slog.Logger
	table         *rpc.Table
	tokens        atomic.Pointer[tokens]
	card          *card
	cors          *cors
	ids           *requestIDs
	routes        map[string]route
	started       time.Time
	streams       *memory.Budget // a byte is a stream
	batchRefusals atomic.Int64   // items of batches
	reads         *memory.Budget // a byte is a result of unknown size that is read
	sizes         replySizes
	lists         *memory.Budget // a byte is a list that is read
	encoded       *encodedTasks

	healthCheck healthCheck

	// stopping ends when the server begins to stop: it is not ready any more, and
	// streams end. halting ends when blocking requests are to be answered.
	stopping, halting context.Context
	stop, halt        context.CancelFunc
}

// route is what is served at a path. nil functions are verbs that are not.
type route struct {
	get, post func(x *exchange)
	// open routes need no token: get alone, since post is for callers.
	open bool
	// probe routes are answered under any host name.
	probe bool
}

// New returns a server, or all that is wrong with cfg.
func New(cfg Config) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, log: cfg.Logger, cors: newCORS(cfg.CORSOrigins, cfg.Card.URL),
		ids: newRequestIDs(), started: time.Now(), lists: memory.New(int64(cfg.MaxLists)), encoded: newEncodedTasks(cfg.ReadCache),
	}
	s.reads, s.streams = newPlaces(cfg)
	s.tokens.Store(newTokens(cfg.Tokens))
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.halting, s.halt = context.WithCancel(context.Background())
	if s.table, err = rpc.NewTable(cfg.methods(), s.bindings()...); err != nil {
		return nil, err
	}
	if s.card, err = newCard(cfg); err != nil {
		return nil, err
	}
	s.routes = map[string]route{
		"/":                            {get: (*exchange).card, post: (*exchange).rpc, open: true},
		"/.well-known/agent-card.json": {get: (*exchange).card, open: true},
		"/.well-known/agent.json":      {get: (*exchange).card, open: true},
		"/agent/info":                  {get: (*exchange).info},
		"/health":                      {get: (*exchange).health},
		"/healthz":                     {get: (*exchange).healthz, open: true, probe: true},
		"/readyz":                      {get: (*exchange).readyz, open: true, probe: true},
	}
	return s, nil
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{s: s, w: w, r: r, start: time.Now(), id: s.ids.of(r)}
	w.Header().Set("X-Request-Id", x.id)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	defer x.end(r.Context())
	if !s.cors.admit(x) {
		return
	}
	route, known := s.routes[r.URL.Path]
	read := r.Method == http.MethodGet || r.Method == http.MethodHead
	if open := route.open && read; !open && !x.authenticate() {
		return
	}
	switch {
	case !known:
		x.refuse(http.StatusNotFound, a2a.Errorf(a2a.CodeMethodNotFound, "there is nothing at %s", a2a.Quote(r.URL.Path)))
	case read && route.get != nil:
		route.get(x)
	case r.Method == http.MethodPost && route.post != nil:
		route.post(x)
	default:
		w.Header().Set("Allow", route.allow())
		x.refuse(http.StatusMethodNotAllowed, a2a.Errorf(a2a.CodeInvalidRequest, "%s takes %s, not %s", r.URL.Path, route.allow(), a2a.Quote(r.Method)))
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
