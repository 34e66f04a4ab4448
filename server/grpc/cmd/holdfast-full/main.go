// Command holdfast-full is the command holdfast with all parts: gRPC, PDF, Redis and S3.
package main

import (
	"crypto/tls"
	"net"
	"os"

	"github.com/holdfast-dev/holdfast/cli"
	"github.com/holdfast-dev/holdfast/cli/full"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/server/grpc"
)

func main() {
	parts := full.Parts()
	parts.GRPC = &cli.GRPC{New: serve, Interfaces: grpc.Interfaces}
	os.Exit(cli.Process(parts))
}

// serve returns the function that serves the methods of s over gRPC.
func serve(s *server.Server, config *tls.Config) (func(net.Listener) error, error) {
	g, err := grpc.New(s, grpc.Config{TLS: config})
	if err != nil {
		return nil, err
	}
	return g.Serve, nil
}
