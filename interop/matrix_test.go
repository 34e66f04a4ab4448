package interop_test

import (
	"context"
	"fmt"
	"iter"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	grpcv0 "github.com/a2aproject/a2a-go/v2/a2agrpc/v0"
)

// peer is a client of another project that was made from the card at an agent's root URL.
type peer interface {
	card() cardInfo
	send(context.Context, sending) (event, error)
	stream(context.Context, sending) iter.Seq2[event, error]
	resubscribe(ctx context.Context, task string) iter.Seq2[event, error]
	task(ctx context.Context, id string) (event, error)
	cancel(ctx context.Context, id string) (event, error)
	setHook(context.Context, hook) (hook, error)
	hook(ctx context.Context, task, id string) (hook, error)
	hooks(ctx context.Context, task string) ([]hook, error)
	deleteHook(ctx context.Context, task, id string) error
}

// cardInfo is what a client has read of the agent's card.
type cardInfo struct {
	name            string
	skills          int
	streaming, push bool
}

// sending is a message and how to send it.
type sending struct {
	message   message
	immediate bool // the answer does not wait for the turn
	hook      *hook
}

// scenario is one column of the table.
type scenario string

const (
	cardScenario    scenario = "card"
	sendScenario    scenario = "send"
	streamScenario  scenario = "stream"
	messageScenario scenario = "message"
	lostScenario    scenario = "lost connection"
	resumeScenario  scenario = "resubscribe after kill -9"
	pushScenario    scenario = "push"
	cancelScenario  scenario = "cancel"
	turnsScenario   scenario = "multi-turn"
	filesScenario   scenario = "files and data"
	errorsScenario  scenario = "errors"
)

var scenarios = []scenario{
	cardScenario, sendScenario, streamScenario, resumeScenario, pushScenario, cancelScenario, turnsScenario, filesScenario, errorsScenario,
}

// foreign is one row of the table.
type foreign struct {
	peerInfo

	run map[scenario]func(*testing.T, *server)
}

// start runs the server that the client needs.
func (p peerInfo) start(t *testing.T) *server {
	t.Helper()
	if p.binding == "gRPC" {
		return startGRPC(t)
	}
	return startAgent(t)
}

func clients() []foreign {
	return []foreign{
		{peerInfo{"a2a-go 0.3.15", "0.3", "JSON-RPC"}, protocol(connectGo03)},
		{peerInfo{"a2a-go 0.3.15", "0.3", "gRPC"}, protocol(connectGo03GRPC)},
		{peerInfo{"a2a-go 2.4.0", "1.0", "JSON-RPC"}, protocol(connectGo10(a2a.TransportProtocolJSONRPC))},
		{peerInfo{"a2a-go 2.4.0", "1.0", "HTTP+JSON"}, protocol(connectGo10(a2a.TransportProtocolHTTPJSON))},
		{peerInfo{"a2a-go 2.4.0", "1.0", "gRPC"}, protocol(connectGo10(a2a.TransportProtocolGRPC))},
		{peerInfo{"a2a-go 2.4.0", "0.3", "JSON-RPC"}, protocol(connectGo10Compat(a2av0.WithJSONRPCTransport(a2av0.JSONRPCTransportConfig{})))},
		{peerInfo{"a2a-go 2.4.0", "0.3", "HTTP+JSON"}, protocol(connectGo10Compat(a2av0.WithRESTTransport(a2av0.RESTTransportConfig{})))},
		{peerInfo{"a2a-go 2.4.0", "0.3", "gRPC"}, protocol(connectGo10Compat(grpcv0.WithGRPCTransport(insecurely)))},
		{peerInfo{"a2a-js 0.3.14", "0.3", "JSON-RPC"}, protocol(connectJS("0.3", "0.3", "JSONRPC"))},
		{peerInfo{"a2a-js 0.3.14", "0.3", "HTTP+JSON"}, protocol(connectJS("0.3", "0.3", "HTTP+JSON"))},
		{peerInfo{"a2a-js 0.3.14", "0.3", "gRPC"}, protocol(connectJS("0.3", "0.3", "GRPC"))},
		{peerInfo{"a2a-js 1.3.0", "1.0", "JSON-RPC"}, protocol(connectJS("1.0", "1.0", "JSONRPC"))},
		{peerInfo{"a2a-js 1.3.0", "1.0", "HTTP+JSON"}, protocol(connectJS("1.0", "1.0", "HTTP+JSON"))},
		{peerInfo{"a2a-js 1.3.0", "1.0", "gRPC"}, protocol(connectJS("1.0", "1.0", "GRPC"))},
		{peerInfo{"a2a-js 1.3.0", "0.3", "JSON-RPC"}, protocol(connectJS("1.0", "0.3", "JSONRPC"))},
		{peerInfo{"a2a-js 1.3.0", "0.3", "HTTP+JSON"}, protocol(connectJS("1.0", "0.3", "HTTP+JSON"))},
		{peerInfo{"a2a-js 1.3.0", "0.3", "gRPC"}, protocol(connectJS("1.0", "0.3", "GRPC"))},
		{peerInfo{"ADK-Go 1.5.0 remote agent", "0.3", "JSON-RPC"}, remoteAgent(adk15)},
		{peerInfo{"ADK-Go 1.5.0 remote agent v2", "1.0", "JSON-RPC"}, remoteAgent(adk15v2)},
		{peerInfo{"ADK-Go 2.2.0 remote agent", "0.3", "JSON-RPC"}, remoteAgent(adk22)},
		{peerInfo{"ADK-Go 2.2.0 remote agent v2", "1.0", "JSON-RPC"}, remoteAgent(adk22v2)},
	}
}

// Every client of another project drives every scenario that it has calls for.
func TestClients(t *testing.T) {
	t.Parallel()
	for _, c := range clients() {
		t.Run(fmt.Sprintf("%s %s %s", c.name, c.version, c.binding), func(t *testing.T) {
			t.Parallel()
			s := c.start(t)
			for _, name := range scenarios {
				run, ok := c.run[name]
				if !ok {
					continue
				}
				t.Run(string(name), func(t *testing.T) {
					clientResults.record(t, c.peerInfo, name)
					run(t, s.of(t))
				})
			}
		})
	}
}

// each converts the items of a stream.
func each[T any](items iter.Seq2[T, error], convert func(T, error) (event, error)) iter.Seq2[event, error] {
	return func(yield func(event, error) bool) {
		for item, err := range items {
			if !yield(convert(item, err)) {
				return
			}
		}
	}
}

func failing(err error) iter.Seq2[event, error] {
	return func(yield func(event, error) bool) { yield(event{}, err) }
}
