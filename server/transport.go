package server

import (
	"net/http"
	"slices"

	v10 "github.com/holdfast-dev/holdfast/a2a/v10"
	"github.com/holdfast-dev/holdfast/rpc"
	"github.com/holdfast-dev/holdfast/server/internal/exchange"
)

// Transport returns the methods of the server by the names of a codec, with the authentication and
// the limits that all transports share. It is for the packages below this one that serve the
// methods on a listener of their own, such as server/grpc.
func (s *Server) Transport(codec rpc.Codec) (*exchange.Transport, error) {
	table, err := s.table(codec)
	if err != nil {
		return nil, err
	}
	return &exchange.Transport{
		Table: table, Bodies: s.rpc.Bodies, Replies: s.rpc.Replies, Streams: s.streams,
		Anonymous: s.cfg.Security.Authenticator == nil, NewExchange: s.newExchange, End: s.logAccess, Log: s.log,
		Authenticate: func(x *exchange.Exchange) error {
			s.activateExtensions(x)
			return s.identify(x)
		},
		Stopping: s.stopping, StopGrace: s.cfg.StopGrace + responseGrace,
		ReadTimeout: s.cfg.Requests.ReadTimeout, IdleTimeout: s.cfg.Requests.IdleTimeout,
	}, nil
}

// Errors100 reports whether errors have the statuses of A2A 1.0.0, see [v10.Codec].
func (s *Server) Errors100() bool {
	codec, _ := codecOf(s.cfg.Codecs, v10.Codec{}.Version()).(v10.Codec)
	return codec.Errors100
}

// table returns the methods by the names of codecs.
func (s *Server) table(codecs ...rpc.Codec) (*rpc.Table, error) {
	return rpc.NewTable(rpc.Config{
		Methods: s.methods.Descriptors(), Codecs: codecs,
		Interceptors: slices.Concat(s.cfg.Requests.Interceptors, []rpc.Interceptor{s.authorize, requireExtensions(s.cfg.Card.Capabilities.Extensions), s.lists.intercept}),
	}, s.methods.Bindings()...)
}

// newExchange returns the exchange of a request.
func (s *Server) newExchange(w http.ResponseWriter, r *http.Request) *exchange.Exchange {
	x := &exchange.Exchange{ResponseWriter: w, Request: r, Origin: s.proxies.origin(r), ID: s.requestIDs.forRequest(r), Log: s.log, WriteTimeout: s.cfg.Requests.WriteTimeout}
	w.Header().Set("X-Request-Id", x.ID)
	return x
}
