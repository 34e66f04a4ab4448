package agents_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/agents"
	"github.com/holdfast-dev/holdfast/agents/summarizer"
	"github.com/holdfast-dev/holdfast/holdfasttest"
)

func TestEveryAgentDescribesItselfAndAnswers(t *testing.T) {
	t.Parallel()
	want := map[string]a2a.TaskState{"summarize": a2a.StateCompleted, "conformance": a2a.StateInputRequired, "echo": a2a.StateCompleted}
	for _, agent := range agents.All() {
		t.Run(agent.Name, func(t *testing.T) {
			t.Parallel()
			h, err := agent.New(agents.Options{})
			if err != nil {
				t.Fatalf("New() = %v", err)
			}
			var cfg holdfast.Config
			agent.Describe(agents.Options{}, &cfg)
			if cfg.Name == "" || cfg.Card.Description == "" || len(cfg.Card.Skills) == 0 || len(cfg.Card.DefaultInputModes) == 0 || len(cfg.Card.DefaultOutputModes) == 0 || agent.Summary == "" {
				t.Errorf("Describe() = %+v, want everything filled in", cfg)
			}
			for _, s := range cfg.Card.Skills {
				if s.ID == "" || s.Name == "" || s.Description == "" || len(s.Tags) == 0 {
					t.Errorf("skill = %+v, want everything filled in", s)
				}
			}
			task := holdfasttest.New(t, h, cfg).Send(agent.Example)
			if task.State != want[agent.Name] {
				t.Errorf("Send() = %s (%s), want %s", task.State, task.Message, want[agent.Name])
			}
		})
	}
}

func TestByName(t *testing.T) {
	t.Parallel()
	if a, err := agents.ByName("echo"); err != nil || a.Name != "echo" {
		t.Errorf("ByName(echo) = %q, %v, want the echo agent", a.Name, err)
	}
	_, err := agents.ByName("ecko")
	if err == nil || !strings.Contains(err.Error(), `"ecko"`) || !strings.Contains(err.Error(), "summarize, conformance, echo") {
		t.Errorf("ByName(ecko) = %v, want an error that lists the names", err)
	}
}

func TestSummarizeRefusesANegativeDelay(t *testing.T) {
	t.Parallel()
	a, err := agents.ByName("summarize")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.New(agents.Options{Summarizer: summarizer.Config{PageDelay: -time.Second}}); err == nil {
		t.Error("New(PageDelay: -1s) = nil, want an error")
	}
}
