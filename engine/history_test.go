package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store"
)

func messageTexts(messages []a2a.Message) []string {
	var said []string
	for _, m := range messages {
		said = append(said, m.Text())
	}
	return said
}

// recordingHandler calls found in each turn. It answers "ask ..." with a question and other
// messages with an echo.
func recordingHandler(found func(*engine.Turn)) engine.Handler {
	return func(_ context.Context, turn *engine.Turn) error {
		found(turn)
		said := turn.Messages()[0].Text()
		if strings.HasPrefix(said, "ask") {
			return turn.RequireInput(a2a.TextPart{Text: "what about " + said + "?"})
		}
		return turn.Reply(a2a.TextPart{Text: "re " + said})
	}
}

func TestHistoryIncludesEarlierTasks(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		found := make(map[string][]string)
		history := func(turn *engine.Turn, name string, limit int) {
			messages, err := turn.History(t.Context(), limit)
			if err != nil {
				t.Errorf("History(%d) = %v", limit, err)
			}
			found[name] = messageTexts(messages)
		}
		e := start(t, engine.Config{Store: s, Turns: engine.Turns{Concurrency: 1}, Handler: recordingHandler(func(turn *engine.Turn) {
			switch turn.Messages()[0].Text() {
			case "one":
				history(turn, "first", 0)
			case "more":
				for _, limit := range []int{0, 1, 2, 3, 4, 5, 2000} {
					history(turn, fmt.Sprint("limit ", limit), limit)
				}
				found["task"] = messageTexts(turn.TaskHistory())
				if _, err := turn.History(t.Context(), -1); a2a.CodeOf(err) != a2a.CodeInvalid {
					t.Errorf("History(-1) = %v, want %s", err, a2a.CodeInvalid)
				}
			}
		})})
		one := sendWait(t, e, message("one"))
		asked := sendWait(t, e, messageIn(one.ContextID, "ask"))
		sendWait(t, e, message("elsewhere"))
		sendWait(t, e, messageIn(one.ContextID, "later"))
		sendWait(t, e, messageTo(asked.Key.ID, "more"))
		whole := []string{"one", "re one", "ask", "what about ask?"}
		want := map[string][]string{
			"first": nil, "task": whole[2:], "limit 0": whole, "limit 1": whole[3:], "limit 2": whole[2:],
			"limit 3": whole[1:], "limit 4": whole, "limit 5": whole, "limit 2000": whole,
		}
		if diff := cmp.Diff(want, found); diff != "" {
			t.Errorf("histories (-want +got):\n%s", diff)
		}
	})
}

func TestHistoryIsLimited(t *testing.T) {
	t.Parallel()
	s := &countingStore{Store: inmem.New()}
	long := strings.Repeat("x", 1000)
	var few, many, most []a2a.Message
	reads := 0
	e := start(t, engine.Config{Store: s, Limits: engine.Limits{PageBytes: 50_000}, Handler: func(ctx context.Context, turn *engine.Turn) error {
		if turn.Messages()[0].Text() == "look" {
			before := s.tasks.Load()
			few, _ = turn.History(ctx, 2)
			reads = int(s.tasks.Load() - before)
			many, _ = turn.History(ctx, 0)
			most, _ = turn.History(ctx, 5000)
		}
		return nil
	}})
	for i := range 150 {
		sendWait(t, e, messageIn("c", fmt.Sprint(i, long)))
	}
	sendWait(t, e, messageIn("c", "look"))
	if len(few) != 2 || reads != 2 {
		t.Errorf("History(2) = %d messages of %d tasks read, want 2 of 2", len(few), reads)
	}
	for name, messages := range map[string][]a2a.Message{"0": many, "5000": most} {
		if len(messages) < 40 || len(messages) > 50 || !strings.HasPrefix(messages[len(messages)-1].Text(), "149") {
			t.Errorf("History(%s) = %d messages, want the newest 50 kB", name, len(messages))
		}
	}
}

// The history is limited by historyLength per task, and by size.
func TestContextReturnsHistory(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		e := start(t, engine.Config{Store: s, Handler: recordingHandler(func(*engine.Turn) {}), Limits: engine.Limits{PageBytes: 2000}})
		one := sendWait(t, e, message("one"))
		two := sendWait(t, e, messageIn(one.ContextID, "two"))
		for _, c := range []struct {
			n    *int
			want []string
		}{
			{nil, []string{"one", "re one", "two", "re two"}},
			{ptr(0), nil},
			{ptr(1), []string{"re one", "re two"}},
			{ptr(5), []string{"one", "re one", "two", "re two"}},
		} {
			got, err := e.Context(t.Context(), alice, one.ContextID, c.n)
			if err != nil {
				t.Fatalf("Context() = %v", err)
			}
			if diff := cmp.Diff(c.want, messageTexts(got.History)); diff != "" {
				t.Errorf("history (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{one.Key.ID, two.Key.ID}, got.TaskIDs); diff != "" || got.TaskCount != 2 {
				t.Errorf("%d tasks (-want +got):\n%s", got.TaskCount, diff)
			}
		}
		_, err := e.Context(t.Context(), alice, one.ContextID, ptr(-1))
		wantError(t, "Context(-1)", err, a2a.CodeInvalid, "historyLength")
		big := sendWait(t, e, messageIn(one.ContextID, strings.Repeat("x", 5000)))
		got, err := e.Context(t.Context(), alice, one.ContextID, nil)
		if err != nil || len(got.History) != 1 || got.History[0].ID != big.History[1].Message.ID {
			t.Errorf("Context() = %d messages, %v; want only the newest, which alone exceeds the limit", len(got.History), err)
		}
	})
}

func TestReferencesReturnsTasksOfOwner(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		var refs []engine.Reference
		var record store.Context
		handler := func(ctx context.Context, turn *engine.Turn) (err error) {
			if _, err := turn.Artifact("a").WriteString("artifact of " + turn.Messages()[0].Text()); err != nil {
				return err
			}
			if record, err = turn.Context(ctx); err != nil {
				return err
			}
			if refs, err = turn.References(ctx); err != nil {
				return err
			}
			if turn.Messages()[0].Text() == "ask" {
				return turn.RequireInput()
			}
			return turn.Reply(a2a.TextPart{Text: "done"})
		}
		e := start(t, engine.Config{Store: s, Handler: handler, Limits: engine.Limits{References: 3, ArtifactBytes: 5000}})
		var ids []string
		for _, name := range []string{"a", "b", "c", "d"} {
			ids = append(ids, sendWait(t, e, message(name)).Key.ID)
		}
		p := message("ask")
		p.Message.ReferenceTaskIDs = []string{ids[1], ids[0], ids[1]}
		asked := sendWait(t, e, p)
		if len(refs) != 2 || refs[0].TaskID != ids[1] || refs[1].TaskID != ids[0] {
			t.Fatalf("References() = %+v, want b and a", refs)
		}
		got := refs[0]
		if got.State != a2a.StateCompleted || got.ContextID == "" || strings.Join(messageTexts(got.History), ",") != "b,done" || got.Artifacts[0].Text() != "artifact of b" {
			t.Errorf("References()[0] = %+v, want all of task b", got)
		}
		if record.Key.ID != asked.ContextID || record.TaskCount != 1 {
			t.Errorf("Context() = %+v, want %s with one task", record, asked.ContextID)
		}
		b, err := e.Task(t.Context(), alice, ids[1], nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := clearContext(t, e, b.ContextID, false); err != nil {
			t.Fatalf("ClearContext() = %v", err)
		}
		p = messageTo(asked.Key.ID, "continue")
		p.Message.ReferenceTaskIDs = []string{ids[2], ids[3], asked.Key.ID}
		sendWait(t, e, p)
		if len(refs) != 3 || refs[0].TaskID != ids[0] || refs[1].TaskID != ids[2] || refs[2].TaskID != ids[3] {
			t.Errorf("References() = %+v, want a, c and d: b is deleted", refs)
		}
		p = message("x")
		p.Message.ReferenceTaskIDs = []string{ids[0], "no task"}
		bob := a2a.Principal{ID: "bob"}
		if _, err = e.Send(t.Context(), bob, p, engine.SendOptions{Wait: true}); err != nil || len(refs) != 0 {
			t.Errorf("Send(references to another's task and none) = %v with References() %+v, want none", err, refs)
		}
		long := sendWait(t, e, message(strings.Repeat("x", 5000)))
		p = message("too much")
		p.Message.ReferenceTaskIDs = []string{long.Key.ID}
		if failed := sendWait(t, e, p); failed.Status.State != a2a.StateFailed || !strings.Contains(failed.Status.Message.Text(), "more than 5000 bytes") {
			t.Errorf("task = %s %v, want failed because of the size", failed.Status.State, failed.Status.Message)
		}
	})
}

// Store errors are for the log, not for readers of a handler's error.
func TestStoreErrorsAreHiddenFromHandlers(t *testing.T) {
	t.Parallel()
	s := &countingStore{Store: inmem.New()}
	e := start(t, engine.Config{Store: s, Handler: func(ctx context.Context, turn *engine.Turn) error {
		s.failing.Store(true)
		defer s.failing.Store(false)
		_, herr := turn.History(ctx, 0)
		_, cerr := turn.Context(ctx)
		_, rerr := turn.References(ctx)
		return fmt.Errorf("%w; %w; %w", herr, cerr, rerr)
	}})
	other := sendWait(t, e, message("x"))
	p := message("y")
	p.Message.ReferenceTaskIDs = []string{other.Key.ID}
	const want = "the agent's store failed"
	if task := sendWait(t, e, p); task.Status.Message.Text() != want+"; "+want+"; "+want {
		t.Errorf("status message = %q, want only that the store failed", task.Status.Message.Text())
	}
}
