package grpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/memory"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/server/grpc/internal/codec"
)

// Transport is the name of the binding on agent cards.
const Transport = "GRPC"

const (
	// maxMetadata is the maximum size of the metadata of a call.
	maxMetadata = 64 << 10
	// maxCalls is the maximum number of concurrent calls of a connection.
	maxCalls = 1000
	// workers is the number of goroutines that execute calls one after the other, with stacks that
	// have grown. Further concurrent calls have goroutines of their own.
	workers = 32
	// window is the amount of data that a client can send before its call is authenticated.
	window = 64 << 10
	// handshakeTimeout is the maximum time until a new connection can be used.
	handshakeTimeout = 10 * time.Second
	// pingInterval is the time without data after which a connection is checked, and pingTimeout
	// the time after which a connection that does not answer is closed.
	pingInterval, pingTimeout = 30 * time.Second, 20 * time.Second
	// minPingInterval is the minimum time between checks by a client.
	minPingInterval = 10 * time.Second
)

// Config configures a [Server].
type Config struct {
	// TLS is the configuration of the connections. Default: no TLS.
	TLS *tls.Config
}

// Server serves the methods of a [server.Server] over gRPC. Create one with [New].
type Server struct {
	grpc     *grpc.Server
	health   *health.Server
	services []*service
}

// Interfaces returns the interfaces on the agent card for a server at an address (host:port).
func Interfaces(address string) []a2a.AgentInterface {
	return []a2a.AgentInterface{
		{URL: address, Transport: Transport, ProtocolVersion: "1.0"},
		{URL: address, Transport: Transport, ProtocolVersion: "0.3"},
	}
}

// New returns a transport of s. It stops with s.
func New(s *server.Server, cfg Config) (*Server, error) {
	out := &Server{health: health.NewServer()}
	receives := memory.New(maxReceives)
	for _, version := range []codec.Codec{codec.V10(s.Errors100()), codec.V03()} {
		t, err := s.Transport(version)
		if err != nil {
			return nil, fmt.Errorf("service %s: %w", version.Service().FullName(), err)
		}
		out.services = append(out.services, &service{Transport: t, codec: version, receives: receives})
	}
	t := out.services[0]
	options := []grpc.ServerOption{
		grpc.ForceServerCodecV2(rawCodec{}),
		grpc.MaxRecvMsgSize(int(t.Bodies.Max)),
		grpc.MaxHeaderListSize(maxMetadata),
		grpc.MaxConcurrentStreams(maxCalls),
		grpc.InitialWindowSize(window),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: t.IdleTimeout, Time: pingInterval, Timeout: pingTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPingInterval, PermitWithoutStream: true}),
		grpc.WaitForHandlers(true),
		grpc.NumStreamWorkers(workers),
	}
	if cfg.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(cfg.TLS)))
	}
	out.grpc = grpc.NewServer(options...)
	for _, one := range out.services {
		desc := one.describe()
		out.grpc.RegisterService(desc, one)
		out.health.SetServingStatus(desc.ServiceName, healthpb.HealthCheckResponse_SERVING)
	}
	healthpb.RegisterHealthServer(out.grpc, out.health)
	reflection.Register(out.grpc)
	return out, nil
}

// describe returns the description of the service for package grpc. All methods are streams, so
// that a call can be rejected before its message is received.
func (s *service) describe() *grpc.ServiceDesc {
	described := s.codec.Service()
	name := string(described.FullName())
	desc := &grpc.ServiceDesc{ServiceName: name, HandlerType: (*any)(nil), Metadata: described.ParentFile().Path()}
	for _, m := range a2a.Methods() {
		full := s.codec.MethodName(&m)
		short, ok := strings.CutPrefix(full, "/"+name+"/")
		if !ok {
			continue
		}
		desc.Streams = append(desc.Streams, grpc.StreamDesc{
			StreamName: short, ServerStreams: m.Streaming,
			Handler: func(_ any, stream grpc.ServerStream) error { return s.serve(full, stream) },
		})
	}
	return desc
}

// Serve serves the connections of a listener until the server stops, see [server.Server.Drain].
// Calls in progress then get the time that they get over HTTP. Serve closes the listener and
// returns nil after such a stop. It may be called once.
func (s *Server) Serve(listener net.Listener) error {
	t := s.services[0]
	stopped := make(chan struct{})
	stop := context.AfterFunc(t.Stopping, func() {
		defer close(stopped)
		s.health.Shutdown()
		force := time.AfterFunc(t.StopGrace, func() {
			t.Log.Warn("closed gRPC connections with unfinished calls")
			s.grpc.Stop()
		})
		defer force.Stop()
		s.grpc.GracefulStop()
	})
	err := s.grpc.Serve(closable{listener})
	if t.Stopping.Err() == nil {
		stop()
		s.grpc.Stop()
		return fmt.Errorf("serve gRPC on %s: %w", listener.Addr(), err)
	}
	<-stopped
	if errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return err
}
