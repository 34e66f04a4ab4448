package main

import (
	"context"
	"fmt"
	"iter"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	a2agrpc "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"google.golang.org/grpc"
)

// official10Handler is the server of the official Go SDK for A2A 1.0 as in its documentation:
// JSON-RPC at the root and REST under /rest, its in-memory store and queues, no push
// notifications, no limits, no authentication. requests handles the requests of other transports.
func official10Handler(url string, agent a2asrv.AgentExecutor) (handler http.Handler, requests a2asrv.RequestHandler) {
	card := &a2a.AgentCard{
		Name:        "echo",
		Description: "Returns the received text.",
		Version:     "1",
		SupportedInterfaces: []*a2a.AgentInterface{
			a2a.NewAgentInterface(url, a2a.TransportProtocolJSONRPC),
			a2a.NewAgentInterface(url+"rest", a2a.TransportProtocolHTTPJSON),
		},
		Capabilities:       a2a.AgentCapabilities{Streaming: true},
		DefaultInputModes:  []string{"text/plain"},
		DefaultOutputModes: []string{"text/plain"},
		Skills:             []a2a.AgentSkill{{ID: "echo", Name: "echo", Description: "echo", Tags: []string{"echo"}}},
	}
	requests = a2asrv.NewHandler(agent)
	mux := http.NewServeMux()
	mux.Handle(a2asrv.WellKnownAgentCardPath, a2asrv.NewStaticAgentCardHandler(card))
	mux.Handle("/rest/", http.StripPrefix("/rest", a2asrv.NewRESTHandler(requests)))
	mux.Handle("/", a2asrv.NewJSONRPCHandler(requests))
	return mux, requests
}

// serveGRPC serves requests over gRPC until stop.
func serveGRPC(ctx context.Context, addr string, requests a2asrv.RequestHandler) (stop func() error, err error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	s := grpc.NewServer()
	a2agrpc.NewHandler(requests).RegisterWith(s)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	return func() error {
		s.Stop()
		return <-ended
	}, nil
}

// echoAgent10 does the same as echoAgent.
type echoAgent10 struct{}

func (echoAgent10) Execute(_ context.Context, ec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	var text strings.Builder
	for _, part := range ec.Message.Parts {
		text.WriteString(part.Text())
	}
	return func(yield func(a2a.Event, error) bool) {
		for _, event := range []a2a.Event{
			a2a.NewSubmittedTask(ec, ec.Message),
			a2a.NewStatusUpdateEvent(ec, a2a.TaskStateWorking, nil),
			a2a.NewArtifactEvent(ec, a2a.NewTextPart("echo: "+text.String())),
			a2a.NewStatusUpdateEvent(ec, a2a.TaskStateCompleted, nil),
		} {
			if !yield(event, nil) {
				return
			}
		}
	}
}

func (echoAgent10) Cancel(_ context.Context, ec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateCanceled, nil), nil)
	}
}

// chunkAgent10 writes the chunks that a message requests, as the agent of cmd/hooks does: "100 300
// 20ms 5s" is 100 chunks of 300 bytes, the first after 5 s and the others 20 ms apart. Each starts
// with the time in nanoseconds between two @.
type chunkAgent10 struct{ echoAgent10 }

func (chunkAgent10) Execute(ctx context.Context, ec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		if !yield(a2a.NewSubmittedTask(ec, ec.Message), nil) || !yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateWorking, nil), nil) {
			return
		}
		var chunks, bytes int
		var pause, delay string
		if _, err := fmt.Sscan(ec.Message.Parts[0].Text(), &chunks, &bytes, &pause, &delay); err != nil {
			yield(nil, err)
			return
		}
		apart, err := time.ParseDuration(pause)
		wait, err2 := time.ParseDuration(delay)
		if err != nil || err2 != nil {
			yield(nil, fmt.Errorf("want chunks, bytes, pause and delay: %q", ec.Message.Parts[0].Text()))
			return
		}
		filler := strings.Repeat("x", bytes)
		id := a2a.ArtifactID("")
		for range chunks {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				yield(nil, context.Cause(ctx))
				return
			}
			wait = apart
			text := fmt.Sprintf("@%d@", time.Now().UnixNano())
			part := a2a.NewTextPart(text + filler[min(len(text), bytes):])
			var event *a2a.TaskArtifactUpdateEvent
			if id == "" {
				event = a2a.NewArtifactEvent(ec, part)
				id = event.Artifact.ID
			} else {
				event = a2a.NewArtifactUpdateEvent(ec, id, part)
			}
			if !yield(event, nil) {
				return
			}
		}
		yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateCompleted, nil), nil)
	}
}
