// Command holdfast-grpc is the command holdfast with a server that speaks gRPC too.
package main

import (
	"crypto/tls"
	"net"
	"os"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/server/grpc"
)

func main() { os.Exit(cli.Process(&cli.GRPC{New: serve, Interfaces: grpc.Interfaces})) }

// serve returns the function that serves the methods of s over gRPC.
func serve(s *server.Server, config *tls.Config) (func(net.Listener) error, error) {
	g, err := grpc.New(s, grpc.Config{TLS: config})
	if err != nil {
		return nil, err
	}
	return g.Serve, nil
}
