package interop_test

import (
	"context"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	legacy "github.com/a2aproject/a2a-go/a2a"
	legacysrv "github.com/a2aproject/a2a-go/a2asrv"
	legacyqueue "github.com/a2aproject/a2a-go/a2asrv/eventqueue"
	legacypush "github.com/a2aproject/a2a-go/a2asrv/push"
	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/a2aproject/a2a-go/v2/a2asrv/push"

	"github.com/holdfast-dev/holdfast/client"
)

// gates let a test decide when a task with the message "slow NAME" continues.
type gates struct {
	mu  sync.Mutex
	all map[string]chan struct{}
}

func (g *gates) of(name string) chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.all == nil {
		g.all = map[string]chan struct{}{}
	}
	if g.all[name] == nil {
		g.all[name] = make(chan struct{})
	}
	return g.all[name]
}

// foreignServer is a server of another project, and how our client reaches it.
type foreignServer struct {
	peerInfo

	start func(t *testing.T, g *gates) (url string)
	// transport is the one to prefer.
	transport string
}

// foreignServers are the servers of the official Go SDK.
var foreignServers = []foreignServer{
	{peerInfo{"a2a-go 2.4.0", client.Version10, "JSON-RPC"}, startSDK, client.TransportJSONRPC},
	{peerInfo{"a2a-go 2.4.0", client.Version10, "HTTP+JSON"}, startSDK, client.TransportREST},
	{peerInfo{"a2a-go 2.4.0", client.Version03, "JSON-RPC"}, startSDK, client.TransportJSONRPC},
	{peerInfo{"a2a-go 2.4.0", client.Version03, "HTTP+JSON"}, startSDK, client.TransportREST},
	{peerInfo{"a2a-go 0.3.15", client.Version03, "JSON-RPC"}, startLegacy, client.TransportJSONRPC},
}

// startSDK starts a server of version 2.4.0 with both transports and both versions.
func startSDK(t *testing.T, g *gates) string {
	mux := http.NewServeMux()
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	card := &sdk.AgentCard{
		Name: "sdk", Description: "d", Version: "1", DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		Skills: []sdk.AgentSkill{}, Capabilities: sdk.AgentCapabilities{Streaming: true, PushNotifications: true},
		SupportedInterfaces: []*sdk.AgentInterface{
			{URL: s.URL + "/rpc10", ProtocolBinding: sdk.TransportProtocolJSONRPC, ProtocolVersion: sdk.Version},
			{URL: s.URL + "/rest10", ProtocolBinding: sdk.TransportProtocolHTTPJSON, ProtocolVersion: sdk.Version},
			{URL: s.URL + "/rpc03", ProtocolBinding: sdk.TransportProtocolJSONRPC, ProtocolVersion: a2av0.Version},
			{URL: s.URL + "/rest03", ProtocolBinding: sdk.TransportProtocolHTTPJSON, ProtocolVersion: a2av0.Version},
		},
	}
	hooks := push.NewHTTPPushSender(&push.HTTPSenderConfig{AllowPrivateNetworks: true})
	h := a2asrv.NewHandler(&sdkAgent{g}, a2asrv.WithPushNotifications(push.NewInMemoryStore(), hooks))
	mux.Handle("/rpc10", a2asrv.NewJSONRPCHandler(h))
	mux.Handle("/rest10/", http.StripPrefix("/rest10", a2asrv.NewRESTHandler(h)))
	mux.Handle("/rpc03", a2av0.NewJSONRPCHandler(h))
	mux.Handle("/rest03/", http.StripPrefix("/rest03", a2av0.NewRESTHandler(h)))
	mux.Handle("/.well-known/agent-card.json", a2asrv.NewAgentCardHandler(a2av0.NewStaticAgentCardProducer(card)))
	return s.URL
}

// sdkAgent behaves by the text of a message.
type sdkAgent struct{ *gates }

func (a *sdkAgent) Execute(ctx context.Context, in *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		status := func(state sdk.TaskState, text string) bool {
			return yield(sdk.NewStatusUpdateEvent(in, state, sdk.NewMessageForTask(sdk.MessageRoleAgent, in, sdk.NewTextPart(text))), nil)
		}
		text := ""
		for _, p := range in.Message.Parts {
			text += p.Text()
		}
		if in.StoredTask != nil {
			status(sdk.TaskStateCompleted, "again: "+text)
			return
		}
		if text == "say" {
			yield(sdk.NewMessage(sdk.MessageRoleAgent, sdk.NewTextPart("hi")), nil)
			return
		}
		if !yield(sdk.NewSubmittedTask(in, in.Message), nil) || !status(sdk.TaskStateWorking, "started") {
			return
		}
		name, slow := strings.CutPrefix(text, "slow ")
		switch {
		case text == "ask":
			status(sdk.TaskStateInputRequired, "which one?")
			return
		case text == "wait":
			<-ctx.Done()
			return
		case slow:
			select {
			case <-a.of(name):
			case <-ctx.Done():
				return
			}
			fallthrough
		case text == "chunks":
			first := sdk.NewArtifactEvent(in, sdk.NewTextPart("one "))
			if !yield(first, nil) || !yield(sdk.NewArtifactUpdateEvent(in, first.Artifact.ID, sdk.NewTextPart("two")), nil) {
				return
			}
		case text == "":
			if !yield(sdk.NewArtifactEvent(in, in.Message.Parts...), nil) {
				return
			}
		}
		status(sdk.TaskStateCompleted, "thanks")
	}
}

func (a *sdkAgent) Cancel(_ context.Context, in *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		yield(sdk.NewStatusUpdateEvent(in, sdk.TaskStateCanceled, nil), nil)
	}
}

// startLegacy starts a server of version 0.3.15.
func startLegacy(t *testing.T, g *gates) string {
	mux := http.NewServeMux()
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	hooks := legacypush.NewHTTPPushSender(nil)
	h := legacysrv.NewHandler(&legacyAgent{g}, legacysrv.WithPushNotifications(legacypush.NewInMemoryStore(), hooks))
	mux.Handle("/rpc", legacysrv.NewJSONRPCHandler(h))
	mux.Handle("/.well-known/agent-card.json", legacysrv.NewStaticAgentCardHandler(&legacy.AgentCard{
		Name: "legacy", Description: "d", Version: "1", ProtocolVersion: "0.3.0", URL: s.URL + "/rpc", PreferredTransport: legacy.TransportProtocolJSONRPC,
		DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"}, Skills: []legacy.AgentSkill{},
		Capabilities: legacy.AgentCapabilities{Streaming: true, PushNotifications: true},
	}))
	return s.URL
}

// legacyAgent behaves as sdkAgent does.
type legacyAgent struct{ *gates }

func (a *legacyAgent) Execute(ctx context.Context, in *legacysrv.RequestContext, out legacyqueue.Queue) error {
	status := func(state legacy.TaskState, text string) error {
		e := legacy.NewStatusUpdateEvent(in, state, legacy.NewMessageForTask(legacy.MessageRoleAgent, in, legacy.TextPart{Text: text}))
		e.Final = state.Terminal() || state == legacy.TaskStateInputRequired
		return out.Write(ctx, e)
	}
	text := ""
	for _, p := range in.Message.Parts {
		if p, ok := p.(legacy.TextPart); ok {
			text += p.Text
		}
	}
	if in.StoredTask != nil {
		return status(legacy.TaskStateCompleted, "again: "+text)
	}
	if text == "say" {
		return out.Write(ctx, legacy.NewMessage(legacy.MessageRoleAgent, legacy.TextPart{Text: "hi"}))
	}
	if err := out.Write(ctx, legacy.NewSubmittedTask(in, in.Message)); err != nil {
		return err
	}
	if err := status(legacy.TaskStateWorking, "started"); err != nil {
		return err
	}
	name, slow := strings.CutPrefix(text, "slow ")
	switch {
	case text == "ask":
		return status(legacy.TaskStateInputRequired, "which one?")
	case text == "wait":
		<-ctx.Done()
		return ctx.Err()
	case slow:
		select {
		case <-a.of(name):
		case <-ctx.Done():
			return ctx.Err()
		}
		fallthrough
	case text == "chunks":
		first := legacy.NewArtifactEvent(in, legacy.TextPart{Text: "one "})
		if err := out.Write(ctx, first); err != nil {
			return err
		}
		if err := out.Write(ctx, legacy.NewArtifactUpdateEvent(in, first.Artifact.ID, legacy.TextPart{Text: "two"})); err != nil {
			return err
		}
	case text == "":
		if err := out.Write(ctx, legacy.NewArtifactEvent(in, in.Message.Parts...)); err != nil {
			return err
		}
	}
	return status(legacy.TaskStateCompleted, "thanks")
}

func (a *legacyAgent) Cancel(ctx context.Context, in *legacysrv.RequestContext, out legacyqueue.Queue) error {
	e := legacy.NewStatusUpdateEvent(in, legacy.TaskStateCanceled, nil)
	e.Final = true
	return out.Write(ctx, e)
}
