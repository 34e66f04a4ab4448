package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"

	"github.com/alecthomas/kong"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/server"
)

// GRPC makes serve listen for gRPC too.
type GRPC struct {
	// New returns a function that serves the methods of s on a listener until s stops. config is
	// nil without TLS.
	New func(s *server.Server, config *tls.Config) (serve func(net.Listener) error, err error)
	// Interfaces returns the interfaces on the agent card for an address (host:port).
	Interfaces func(address string) []a2a.AgentInterface
}

// grpcFlags are the flags of a server with gRPC.
type grpcFlags struct {
	Listen string `name:"grpc-listen" placeholder:"HOST:PORT" envvar:"" default:"127.0.0.1:3774" help:"Listen address of the gRPC server."`
	URL    string `name:"grpc-url" placeholder:"HOST:PORT" envvar:"" help:"Public address of the gRPC server in the agent card (default the listen address; if that is a wildcard, its port with the host of --url, or none)."`
}

// withGRPC adds the flags of gRPC to the commands that have the flags of serve.
func (g *grammar) withGRPC() {
	for _, c := range []*serveCmd{&g.Serve, &g.Config.serveCmd} {
		c.Transports = kong.Plugins{&c.grpc}
	}
}

// checkGRPC checks the addresses of the gRPC server.
func (c *serveCmd) checkGRPC(a *app) error {
	if a.parts.GRPC == nil {
		return nil
	}
	err := checkHostPort("--grpc-listen", c.grpc.Listen)
	if c.grpc.URL != "" {
		err = errors.Join(err, checkHostPort("--grpc-url", c.grpc.URL))
	}
	return err
}

// listenGRPC opens the listener of the gRPC server and adds its address to the agent card. It
// returns nil if the program has no gRPC.
func (c *serveCmd) listenGRPC(ctx context.Context, a *app, cfg *holdfast.Config) (net.Listener, error) {
	if a.parts.GRPC == nil {
		return nil, nil
	}
	ln, err := listen(ctx, "--grpc-listen", c.grpc.Listen)
	if err != nil {
		return nil, err
	}
	if address := cmp.Or(c.grpc.URL, publicAddress(ln.Addr(), cfg.Card.URL)); address != "" {
		cfg.Card.AdditionalInterfaces = a.parts.GRPC.Interfaces(address)
	} else {
		cfg.Logger.Warn("the agent card does not list the gRPC server: set --grpc-url, or listen on one address", "listening", ln.Addr().String())
	}
	return ln, nil
}

// publicAddress returns the address of a listener for clients. For a wildcard address it returns
// the listener's port on the host of the agent's URL, or "" if the URL is not known.
func publicAddress(addr net.Addr, agent string) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return addr.String()
	}
	u, err := url.Parse(agent)
	if err != nil || u.Hostname() == "" {
		return ""
	}
	return net.JoinHostPort(u.Hostname(), strconv.Itoa(tcp.Port))
}

// serve serves the agent on both listeners until ctx is done. over is nil without gRPC.
func (c *serveCmd) serve(ctx context.Context, a *app, agent *holdfast.Agent, ln, over net.Listener, cert *certificate) error {
	if over == nil {
		return agent.Serve(ctx, ln)
	}
	defer func() { _ = over.Close() }() // unless it was served
	var config *tls.Config
	if cert != nil {
		config = cert.tlsConfig("h2")
	}
	serve, err := a.parts.GRPC.New(agent.Server(), config)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	return agent.Serve(ctx, ln, func() error { return serve(over) })
}

// closeAll closes the listeners that are not nil.
func closeAll(listeners ...net.Listener) (err error) {
	for _, ln := range listeners {
		if ln != nil {
			err = errors.Join(err, ln.Close())
		}
	}
	return err
}

// checkHostPort checks the syntax of an address.
func checkHostPort(setting, address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%s: want HOST:PORT such as 127.0.0.1:3773, but got %q", setting, address)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%s: want a port from 0 to 65535, but got %q", setting, port)
	}
	return nil
}
