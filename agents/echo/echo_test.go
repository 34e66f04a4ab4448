package echo_test

import (
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/agents/echo"
	"github.com/holdfast-dev/holdfast/holdfasttest"
)

func TestEchoAnswersWithTheText(t *testing.T) {
	t.Parallel()
	task := holdfasttest.New(t, echo.New()).Send("hello")
	if got := task.Artifact("echo"); task.State != a2a.StateCompleted || got != "echo: hello" || len(task.Artifacts) != 1 {
		t.Errorf("Send(hello) = %s with %q and %d artifacts, want completed with %q", task.State, got, len(task.Artifacts), "echo: hello")
	}
}
