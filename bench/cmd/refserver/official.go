package main

import (
	"context"
	"net/http"
	"strings"

	"github.com/a2aproject/a2a-go/a2a"
	"github.com/a2aproject/a2a-go/a2asrv"
	"github.com/a2aproject/a2a-go/a2asrv/eventqueue"
)

// officialHandler is the server of the official Go SDK as in its documentation: JSON-RPC, its
// in-memory store and queues, no push notifications, no limits, no authentication.
func officialHandler(url string) http.Handler {
	card := &a2a.AgentCard{
		ProtocolVersion:    "0.3.0",
		Name:               "echo",
		Description:        "Returns the received text.",
		Version:            "1",
		URL:                url,
		PreferredTransport: a2a.TransportProtocolJSONRPC,
		Capabilities:       a2a.AgentCapabilities{Streaming: true},
		DefaultInputModes:  []string{"text/plain"},
		DefaultOutputModes: []string{"text/plain"},
		Skills:             []a2a.AgentSkill{{ID: "echo", Name: "echo", Description: "echo", Tags: []string{"echo"}}},
	}
	mux := http.NewServeMux()
	mux.Handle(a2asrv.WellKnownAgentCardPath, a2asrv.NewStaticAgentCardHandler(card))
	mux.Handle("/", a2asrv.NewJSONRPCHandler(a2asrv.NewHandler(echoAgent{})))
	return mux
}

// echoAgent does the same as Holdfast's echo agent: it sets the task to working, adds one text
// artifact and completes the task.
type echoAgent struct{}

func (echoAgent) Execute(ctx context.Context, rc *a2asrv.RequestContext, queue eventqueue.Queue) error {
	var text strings.Builder
	for _, part := range rc.Message.Parts {
		if p, ok := part.(a2a.TextPart); ok {
			text.WriteString(p.Text)
		}
	}
	done := a2a.NewStatusUpdateEvent(rc, a2a.TaskStateCompleted, nil)
	done.Final = true
	for _, event := range []a2a.Event{
		a2a.NewStatusUpdateEvent(rc, a2a.TaskStateWorking, nil),
		a2a.NewArtifactEvent(rc, a2a.TextPart{Text: "echo: " + text.String()}),
		done,
	} {
		if err := queue.Write(ctx, event); err != nil {
			return err
		}
	}
	return nil
}

func (echoAgent) Cancel(ctx context.Context, rc *a2asrv.RequestContext, queue eventqueue.Queue) error {
	event := a2a.NewStatusUpdateEvent(rc, a2a.TaskStateCanceled, nil)
	event.Final = true
	return queue.Write(ctx, event)
}
