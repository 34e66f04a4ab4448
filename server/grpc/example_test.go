package grpc_test

import (
	"context"
	"fmt"
	"net"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	holdgrpc "github.com/holdfast-dev/holdfast/server/grpc"
)

// An agent that serves HTTP and gRPC until its context is done.
func Example() {
	agent, err := holdfast.New(holdfast.Config{Name: "greeter", Store: inmem.New()}, holdfast.HandlerFunc(func(_ context.Context, t *holdfast.Turn) error {
		return t.Reply("hello, " + t.Text())
	}))
	if err != nil {
		panic(err)
	}
	over, err := holdgrpc.New(agent.Server(), holdgrpc.Config{})
	if err != nil {
		panic(err)
	}
	httpListener, _ := net.Listen("tcp", "127.0.0.1:0")
	grpcListener, _ := net.Listen("tcp", "127.0.0.1:0")
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		done <- agent.Serve(ctx, httpListener, func() error { return over.Serve(grpcListener) })
	}()

	conn, err := grpc.NewClient(grpcListener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	health, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: "lf.a2a.v1.A2AService"}, grpc.WaitForReady(true))
	fmt.Println(health.GetStatus(), err)
	sent, err := pb.NewA2AServiceClient(conn).SendMessage(ctx, &pb.SendMessageRequest{Message: &pb.Message{
		MessageId: "1", Role: pb.Role_ROLE_USER, Parts: []*pb.Part{{Content: &pb.Part_Text{Text: "world"}}},
	}})
	fmt.Println(sent.GetTask().GetStatus().GetMessage().GetParts()[0].GetText(), err)

	stop()
	fmt.Println(<-done)
	// Output:
	// SERVING <nil>
	// hello, world <nil>
	// <nil>
}
