package holdfasttest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/holdfasttest"
	"github.com/holdfast-dev/holdfast/store/blob/blobs"
	"github.com/holdfast-dev/holdfast/store/board/boards"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/memory/facts"
)

func shout(_ context.Context, t *holdfast.Turn) error {
	if t.Text() == "" {
		return t.RequireInput("What should I shout?")
	}
	fmt.Fprint(t.Artifact("shout"), strings.ToUpper(t.Text()))
	return t.Reply("done")
}

func TestAConversationOfTwoTurns(t *testing.T) {
	t.Parallel()
	r := holdfasttest.New(t, holdfast.HandlerFunc(shout))
	task := r.Send("")
	if task.State != a2a.StateInputRequired || task.Message != "What should I shout?" {
		t.Fatalf("first turn = %s %q", task.State, task.Message)
	}
	task = r.Reply(task.ID, "hello")
	if task.State != a2a.StateCompleted || task.Artifact("shout") != "HELLO" {
		t.Errorf("second turn = %s, artifact %q", task.State, task.Artifact("shout"))
	}
	if events := r.Events(task.ID); events[0].State != a2a.StateSubmitted || len(events) < 6 {
		t.Errorf("the log has %d events", len(events))
	}
}

func TestRestartContinuesAfterTheLastStep(t *testing.T) {
	t.Parallel()
	var first, second atomic.Int64
	halfway := make(chan struct{}, 1)
	r := holdfasttest.New(t, holdfast.HandlerFunc(func(ctx context.Context, turn *holdfast.Turn) error {
		n, err := holdfast.Step(ctx, turn, "count", func(context.Context) (int64, error) { return first.Add(1), nil })
		if err != nil {
			return err
		}
		if second.Add(1) == 1 {
			halfway <- struct{}{}
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), holdfast.ErrStopping) {
				t.Errorf("cause = %v, want ErrStopping", context.Cause(ctx))
			}
			return ctx.Err()
		}
		return turn.Reply(fmt.Sprint(n))
	}))
	task := r.Submit(holdfasttest.Message(a2a.TextPart{Text: "go"}))
	<-halfway
	r.Restart()
	got := r.Wait(task.ID)
	if got.State != a2a.StateCompleted || got.Message != "1" || first.Load() != 1 || second.Load() != 2 {
		t.Errorf("after the restart: %s %q, the step ran %d times and the handler %d times", got.State, got.Message, first.Load(), second.Load())
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	r := holdfasttest.New(t, holdfast.HandlerFunc(func(ctx context.Context, _ *holdfast.Turn) error {
		<-ctx.Done()
		return ctx.Err()
	}), holdfast.Config{Turns: engine.Turns{Timeout: time.Minute}})
	task := r.Submit(holdfasttest.Message(a2a.TextPart{Text: "go"}))
	if got := r.Cancel(task.ID); got.State != a2a.StateCanceled {
		t.Errorf("Cancel() = %s", got.State)
	}
}

func TestHandlerReadsItsConversation(t *testing.T) {
	t.Parallel()
	r := holdfasttest.New(t, holdfast.HandlerFunc(func(ctx context.Context, turn *holdfast.Turn) error {
		history, herr := turn.History(ctx, 0)
		refs, rerr := turn.References(ctx)
		c, cerr := turn.Context(ctx)
		if err := errors.Join(herr, rerr, cerr); err != nil {
			return err
		}
		if err := turn.AddArtifact(a2a.Artifact{Name: "a", Parts: []a2a.Part{a2a.TextPart{Text: "of " + turn.Text()}}}); err != nil {
			return err
		}
		text := fmt.Sprintf("%d earlier, %d of this task, %d tasks, role %s", len(history), len(turn.TaskHistory()), c.TaskCount, c.Role)
		for _, ref := range refs {
			text += fmt.Sprintf("; %s %s", ref.State, ref.Artifacts[0].Text())
		}
		return turn.Reply(text)
	}))
	first := r.Send("one")
	if want := "0 earlier, 0 of this task, 1 tasks, role assistant"; first.Message != want {
		t.Errorf("first task replied %q, want %q", first.Message, want)
	}
	m := holdfasttest.Message(a2a.TextPart{Text: "two"})
	m.ContextID, m.ReferenceTaskIDs = first.ContextID, []string{first.ID}
	if second, want := r.SendMessage(m), "2 earlier, 0 of this task, 2 tasks, role assistant; completed of one"; second.Message != want {
		t.Errorf("second task replied %q, want %q", second.Message, want)
	}
}

func TestStateAndBoardsOfAConversation(t *testing.T) {
	t.Parallel()
	var first atomic.Bool
	r := holdfasttest.New(t, holdfast.HandlerFunc(func(ctx context.Context, turn *holdfast.Turn) error {
		if err := turn.State().Update(ctx, map[string]any{"text": turn.Text()}); err != nil {
			return err
		}
		b, err := turn.Board().Create(ctx, boards.Params{}, "one")
		if err != nil {
			return err
		}
		if first.CompareAndSwap(false, true) {
			return holdfast.Retry(errors.New("again"))
		}
		_, err = turn.Board().AddTasks(ctx, b.ID, "two")
		return err
	}), holdfast.Config{Turns: engine.Turns{RetryDelay: time.Millisecond}})
	task := r.Send("hello")
	if got := r.State(task.ContextID); task.State != a2a.StateCompleted || got.Values["text"] != "hello" || got.Version != 1 {
		t.Errorf("task is %s %q, state %+v", task.State, task.Message, got)
	}
	boards := r.Boards(task.ContextID)
	if len(boards) != 1 || len(boards[0].Tasks) != 2 {
		t.Errorf("boards = %+v, want one with two tasks", boards)
	}
	if other := r.State("other"); other.Version != 0 {
		t.Errorf("state of another context = %+v", other)
	}
}

func TestGraphOfAnOwner(t *testing.T) {
	t.Parallel()
	r := holdfasttest.New(t, holdfast.HandlerFunc(func(ctx context.Context, turn *holdfast.Turn) error {
		_, _, err := turn.Graph("").Write(ctx, graph.Batch{
			Entities:      []graph.Entity{{ID: "a", Label: "Person"}, {ID: "b", Label: "Person"}},
			Relationships: []graph.Relationship{{ID: "r", Source: "a", Target: "b", Type: "knows"}},
		})
		return err
	}), holdfast.Config{})
	r.Send("go")
	if entities, relationships := r.Entities(""), r.Relationships(""); len(entities) != 2 || len(relationships) != 1 || len(r.Entities("other")) != 0 {
		t.Errorf("entities are %+v, relationships are %+v", entities, relationships)
	}
}

func TestTranscriptFactsAndBlobsOfAConversation(t *testing.T) {
	t.Parallel()
	attempts := 0
	r := holdfasttest.New(t, holdfast.HandlerFunc(func(ctx context.Context, turn *holdfast.Turn) error {
		attempts++
		err := errors.Join(turn.Transcript().AppendText(ctx, "user", turn.Text()), turn.Remember(ctx, "likes "+turn.Text(), facts.RememberParams{}))
		if err != nil {
			return err
		}
		if _, err := turn.Blobs().Put(ctx, strings.NewReader(turn.Text()), blobs.Params{Name: "text"}); err != nil {
			return err
		}
		found, err := turn.Recall(ctx, "likes", facts.RecallParams{})
		if err != nil || len(found) != 1 {
			return fmt.Errorf("Recall() = %+v, %w", found, err)
		}
		if turn.Attempt() == 1 {
			return holdfast.Retry(errors.New("again"))
		}
		return turn.Forget(ctx, "", "none")
	}), holdfast.Config{Turns: engine.Turns{RetryDelay: time.Millisecond}})
	task := r.Send("tea")
	messages, facts, blobs := r.Transcript(task.ContextID), r.Facts(""), r.Blobs()
	if task.State != a2a.StateCompleted || attempts != 2 || len(messages) != 1 || string(messages[0].Body) != `"tea"` || len(facts) != 1 || len(blobs) != 1 || len(blobs[0].Holders) != 1 {
		t.Errorf("task is %s %q after %d attempts, transcript %+v, facts %+v, blobs %+v", task.State, task.Message, attempts, messages, facts, blobs)
	}
}
