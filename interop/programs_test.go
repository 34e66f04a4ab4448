package interop_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/client"
)

// The examples of programs in other languages do the same.
func TestExamplePrograms(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"python3 ../examples/exec/wordcount.py", "node ../examples/exec/wordcount.mjs"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			s := start(t, binary, "--exec", command)
			cl, err := client.New(client.Config{URL: s.url})
			if err != nil {
				t.Fatal(err)
			}
			send := func(task, text string) *a2a.Task {
				t.Helper()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				m := client.UserMessage(a2a.TextPart{Text: text})
				m.TaskID = task
				answer, err := cl.Send(ctx, client.SendParams{Message: m, Configuration: &a2a.MessageSendConfiguration{Blocking: true}})
				if err != nil {
					t.Fatal(err)
				}
				return answer.(*a2a.Task)
			}
			asked := send("", " ")
			if asked.Status.State != a2a.StateInputRequired {
				t.Fatalf("without a text = %s, want input-required", asked.Status.State)
			}
			done := send(asked.ID, "the cat and the hat and the bat")
			if done.Status.State != a2a.StateCompleted || done.Status.Message.Text() != "8 words" || len(done.Artifacts) != 1 || !strings.HasPrefix(done.Artifacts[0].Text(), "3 the\n2 and\n") {
				t.Errorf("task = %+v, want 8 words", done)
			}
		})
	}
}
