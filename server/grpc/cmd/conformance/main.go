// Command conformance is the agent of examples/conformance with a server that speaks gRPC too.
//
//	go run ./cmd/conformance -profile v10 -addr 127.0.0.1:3773 -grpc 127.0.0.1:3774
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/agents/conformance"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/server/grpc"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	addr := flag.String("addr", "127.0.0.1:3773", "listen `address`")
	grpcAddr := flag.String("grpc", "127.0.0.1:3774", "listen `address` of gRPC")
	profile := flag.String("profile", "v10", "`name` of the profile")
	flag.Parse()
	if err := serve(ctx, *profile, *addr, *grpcAddr); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

// serve serves a profile on both addresses until ctx is done.
func serve(ctx context.Context, name, addr, grpcAddr string) error {
	profile, err := conformance.ProfileByName(name)
	if err != nil {
		return err
	}
	agent, err := profile.Agent(holdfast.Config{
		Store: inmem.New(), Card: a2a.AgentCard{AdditionalInterfaces: grpc.Interfaces(grpcAddr)}, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	server, err := grpc.New(agent.Server(), grpc.Config{})
	if err != nil {
		return err
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	rpcs, err := lc.Listen(ctx, "tcp", grpcAddr)
	if err != nil {
		return err
	}
	return agent.Serve(ctx, ln, func() error { return server.Serve(rpcs) })
}
