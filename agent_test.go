package holdfast_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast"
)

func TestServingAStartedAgentLeavesItRunning(t *testing.T) {
	t.Parallel()
	agent, err := holdfast.New(holdfast.Config{Name: "a", DataDir: t.TempDir()}, holdfast.HandlerFunc(shout))
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ln, err := listen()
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Serve(t.Context(), ln); err == nil {
		t.Error("Serve() of an agent that was started = nil, want an error")
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://agent.test/health", nil)
	if err != nil {
		t.Fatal(err)
	}
	if status := status(agent, request); status != http.StatusOK {
		t.Errorf("health after it = %d, want 200", status)
	}
	stopNow, cancel := context.WithCancel(t.Context())
	cancel()
	if err := agent.Stop(stopNow); err != nil {
		t.Errorf("Stop() = %v", err)
	}
}

func TestAConfigTellsAllThatIsWrong(t *testing.T) {
	t.Parallel()
	_, err := holdfast.New(holdfast.Config{StopGrace: -1}, nil)
	for _, want := range []string{"Name", "handler", "StopGrace"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New() = %v, want %s named", err, want)
		}
	}
	for _, cfg := range []holdfast.Config{
		{Name: "a", Concurrency: -1, DataDir: t.TempDir()},
		{Name: "a", MaxAttempts: -1, DataDir: t.TempDir()},
		{Name: "a", Tokens: []holdfast.Token{{}}, DataDir: t.TempDir()},
	} {
		if a, err := holdfast.New(cfg, holdfast.HandlerFunc(shout)); err == nil {
			t.Errorf("New(%+v) = nil, want an error", cfg)
			_ = a.Stop(t.Context())
		}
	}
}
