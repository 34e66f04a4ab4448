package interop_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/a2a"
	"github.com/a2aproject/a2a-go/a2aclient"
)

func TestCard(t *testing.T) {
	t.Parallel()
	card := start(t, "--agent", "summarize").card()
	if card.ProtocolVersion != "0.3.0" || card.PreferredTransport != a2a.TransportProtocolJSONRPC || !card.Capabilities.Streaming {
		t.Errorf("card = version %q, transport %q, streaming %t", card.ProtocolVersion, card.PreferredTransport, card.Capabilities.Streaming)
	}
	if card.Name == "" || card.Description == "" || len(card.Skills) == 0 || len(card.DefaultInputModes) == 0 || len(card.DefaultOutputModes) == 0 {
		t.Errorf("card lacks what must be there: %+v", card)
	}
	if !card.Capabilities.PushNotifications || len(card.Security) != 0 {
		t.Errorf("card claims push notifications: %t, want true; or asks for %v", card.Capabilities.PushNotifications, card.Security)
	}
}

func TestSend(t *testing.T) {
	t.Parallel()
	c := start(t, "--agent", "conformance").client()
	m := message("tck-complete-task")
	task := sendTask(t.Context(), t, c, params(m, true))
	wantState(t, task, a2a.TaskStateCompleted)
	if got := text(task.Status.Message.Parts); got != "Hello from TCK" {
		t.Errorf("status message = %q, want %q", got, "Hello from TCK")
	}
	if len(task.History) != 2 || task.History[0].ID != m.ID || task.History[0].Role != a2a.MessageRoleUser || task.History[1].Role != a2a.MessageRoleAgent {
		t.Errorf("history = %+v, want the message and its answer", task.History)
	}
	if task.ContextID == "" || task.Status.Timestamp == nil || time.Since(*task.Status.Timestamp).Abs() > time.Minute {
		t.Errorf("context = %q, timestamp = %v", task.ContextID, task.Status.Timestamp)
	}

	task = sendTask(t.Context(), t, c, params(message("slow"), false))
	if task.Status.State.Terminal() {
		t.Errorf("a send that does not block = %s", task.Status.State)
	}
	if got := getTask(t, c, task.ID); got.ID != task.ID || got.ContextID != task.ContextID || text(got.History[0].Parts) != "hello" {
		t.Errorf("GetTask() = %+v, want the task that was created", got)
	}
	none := 0
	if got, err := c.GetTask(t.Context(), &a2a.TaskQueryParams{ID: task.ID, HistoryLength: &none}); err != nil || len(got.History) != 0 {
		t.Errorf("GetTask() with history length 0 = %+v, %v, want no history", got, err)
	}
}

func TestStream(t *testing.T) {
	t.Parallel()
	c := start(t, "--agent", "conformance").client()
	m := message("tck-stream-artifact-chunked")
	got := read(t, c.SendStreamingMessage(t.Context(), params(m, false)), nil)
	if want := []string{"chunk-1 ", "chunk-2"}; !slices.Equal(got.chunks, want) {
		t.Errorf("chunks = %q, want %q", got.chunks, want)
	}
	if got.last() != a2a.TaskStateCompleted || got.final != 1 {
		t.Errorf("the stream ended in %s with %d last events, want one, completed", got.last(), got.final)
	}
	if got.task.History[0].ID != m.ID {
		t.Errorf("first event = %+v, want the task with the message", got.task)
	}
	task := getTask(t, c, got.task.ID)
	if len(task.Artifacts) != 1 || text(task.Artifacts[0].Parts) != "chunk-1 chunk-2" {
		t.Errorf("artifacts = %+v, want one of both chunks", task.Artifacts)
	}
}

func TestArtifactsOfAllKinds(t *testing.T) {
	t.Parallel()
	c := start(t, "--agent", "conformance").client()
	part := func(id string) a2a.Part {
		task := sendTask(t.Context(), t, c, params(message(id), true))
		wantState(t, task, a2a.TaskStateCompleted)
		if len(task.Artifacts) != 1 || len(task.Artifacts[0].Parts) != 1 {
			t.Fatalf("%s: artifacts = %+v, want one with one part", id, task.Artifacts)
		}
		return task.Artifacts[0].Parts[0]
	}
	if got, ok := part("tck-artifact-text").(a2a.TextPart); !ok || got.Text != "Generated text content" {
		t.Errorf("text part = %+v", got)
	}
	file, _ := part("tck-artifact-file").(a2a.FilePart)
	if got, ok := file.File.(a2a.FileBytes); !ok || got.Name != "output.txt" || got.MimeType != "text/plain" || got.Bytes != base64.StdEncoding.EncodeToString([]byte("Generated file content")) {
		t.Errorf("file part with bytes = %+v", file)
	}
	file, _ = part("tck-artifact-file-url").(a2a.FilePart)
	if got, ok := file.File.(a2a.FileURI); !ok || got.URI != "https://example.com/output.txt" {
		t.Errorf("file part with a URI = %+v", file)
	}
	if got, ok := part("tck-artifact-data").(a2a.DataPart); !ok || got.Data["key"] != "value" || got.Data["count"] != 42.0 {
		t.Errorf("data part = %+v", got)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	c := start(t, "--agent", "conformance").client()
	task := sendTask(t.Context(), t, c, params(message("slow"), false))
	canceled, err := c.CancelTask(t.Context(), &a2a.TaskIDParams{ID: task.ID})
	if err != nil {
		t.Fatalf("CancelTask() = %v", err)
	}
	wantState(t, canceled, a2a.TaskStateCanceled)
	wantState(t, getTask(t, c, task.ID), a2a.TaskStateCanceled)
	if _, err := c.CancelTask(t.Context(), &a2a.TaskIDParams{ID: task.ID}); !errors.Is(err, a2a.ErrTaskNotCancelable) {
		t.Errorf("second CancelTask() = %v, want %v", err, a2a.ErrTaskNotCancelable)
	}
}

func TestResubscribeToARunningTask(t *testing.T) {
	t.Parallel()
	c := start(t, "--agent", "conformance").client()
	first := read(t, c.SendStreamingMessage(t.Context(), params(message("test-resubscribe-message-id"), false)),
		func(s *streamed) bool { return len(s.states) >= 2 })
	got := read(t, c.ResubscribeToTask(t.Context(), &a2a.TaskIDParams{ID: first.task.ID}), nil)
	if got.task.ID != first.task.ID || got.task.Status.State != a2a.TaskStateWorking {
		t.Errorf("first event = task %s in %s, want %s at work", got.task.ID, got.task.Status.State, first.task.ID)
	}
	if got.last() != a2a.TaskStateCompleted || got.final != 1 || got.said[len(got.said)-1] != "Done." {
		t.Errorf("the stream ended in %s with %d last events and %q", got.last(), got.final, got.said)
	}
	again := read(t, c.ResubscribeToTask(t.Context(), &a2a.TaskIDParams{ID: first.task.ID}), nil)
	if again.last() != a2a.TaskStateCompleted {
		t.Errorf("resubscribing to a finished task returned %s", again.last())
	}
}

// pages is a document of n pages.
func pages(n int) string {
	var b strings.Builder
	for page := range n {
		if page > 0 {
			b.WriteString("\f")
		}
		for i := range 10 {
			fmt.Fprintf(&b, "Sentence %d on page %d says that durable servers never lose the work they took. ", i, page+1)
		}
	}
	return b.String()
}

func TestResubscribeAfterTheServerWasKilled(t *testing.T) {
	t.Parallel()
	s := start(t, "--agent", "summarize", "--page-delay", "150ms")
	c := s.client()
	first := read(t, c.SendStreamingMessage(t.Context(), params(message("m", a2a.TextPart{Text: pages(12)}), false)),
		func(s *streamed) bool { return len(s.said) >= 4 })
	s.kill()
	s.start()
	got := read(t, c.ResubscribeToTask(t.Context(), &a2a.TaskIDParams{ID: first.task.ID}), nil)
	if got.last() != a2a.TaskStateCompleted || got.final != 1 {
		t.Fatalf("the stream ended in %s with %d last events", got.last(), got.final)
	}
	if slices.Contains(got.said, "reading page 1 of 12") {
		t.Error("the server started again at page 1")
	}
	task := getTask(t, c, first.task.ID)
	if len(task.Artifacts) != 1 || !strings.Contains(text(task.Artifacts[0].Parts), "durable servers") {
		t.Errorf("artifacts = %+v, want a summary", task.Artifacts)
	}
}

func TestATaskOfAKilledServerIsThere(t *testing.T) {
	t.Parallel()
	s := start(t, "--agent", "conformance")
	c := s.client()
	done := sendTask(t.Context(), t, c, params(message("tck-artifact-text"), true))
	paused := sendTask(t.Context(), t, c, params(message("tck-input-required"), true))
	s.kill()
	s.start()
	got := getTask(t, c, done.ID)
	wantState(t, got, a2a.TaskStateCompleted)
	if !got.Status.Timestamp.Equal(*done.Status.Timestamp) || text(got.Artifacts[0].Parts) != "Generated text content" {
		t.Errorf("GetTask() after the kill = %+v, want %+v", got, done)
	}
	m := message("tck-complete-task")
	m.TaskID = paused.ID
	wantState(t, sendTask(t.Context(), t, c, params(m, true)), a2a.TaskStateCompleted)
}

func TestMultiTurn(t *testing.T) {
	t.Parallel()
	c := start(t, "--agent", "conformance").client()
	first := sendTask(t.Context(), t, c, params(message("tck-input-required"), true))
	wantState(t, first, a2a.TaskStateInputRequired)
	m := message("tck-complete-task")
	m.TaskID, m.ContextID = first.ID, first.ContextID
	second := sendTask(t.Context(), t, c, params(m, true))
	wantState(t, second, a2a.TaskStateCompleted)
	if second.ID != first.ID || second.ContextID != first.ContextID || len(second.History) != 4 {
		t.Errorf("second turn = task %s with %d messages, want %s with 4", second.ID, len(second.History), first.ID)
	}
	m = message("tck-complete-task")
	m.ContextID = first.ContextID
	if third := sendTask(t.Context(), t, c, params(m, true)); third.ID == first.ID || third.ContextID != first.ContextID {
		t.Errorf("a message to the context created task %s in %s, want a new one in %s", third.ID, third.ContextID, first.ContextID)
	}
}

func TestAFileIsSummarized(t *testing.T) {
	t.Parallel()
	c := start(t, "--agent", "summarize").client()
	const report = `# Report

The lighthouse was built in 1821. It stands on a cliff above the bay. For a century its keepers lit the lamp by
hand every evening. In 1923 the lamp was made electric, and the keepers left. Today the lighthouse is a museum,
and the lamp is lit by hand once a year.
`
	file := a2a.FilePart{File: a2a.FileBytes{
		FileMeta: a2a.FileMeta{Name: "report.md", MimeType: "text/markdown"},
		Bytes:    base64.StdEncoding.EncodeToString([]byte(report)),
	}}
	length := a2a.DataPart{Data: map[string]any{"sentences": 2}}
	task := sendTask(t.Context(), t, c, params(message("m", file, length), true))
	wantState(t, task, a2a.TaskStateCompleted)
	if len(task.Artifacts) != 1 {
		t.Fatalf("artifacts = %+v, want one", task.Artifacts)
	}
	summary := text(task.Artifacts[0].Parts)
	if lines := strings.Split(strings.TrimSpace(summary), "\n"); len(lines) != 2 || !strings.Contains(summary, "lighthouse") {
		t.Errorf("summary = %q, want two sentences", summary)
	}
	nothing := sendTask(t.Context(), t, c, params(message("m", a2a.TextPart{Text: " "}), true))
	wantState(t, nothing, a2a.TaskStateInputRequired)
}

func TestErrors(t *testing.T) {
	t.Parallel()
	c := start(t, "--agent", "conformance", "--no-webhooks").client()
	absent := a2a.NewTaskID()
	over := sendTask(t.Context(), t, c, params(message("tck-complete-task"), true))
	toAbsent, toOver, elsewhere := message("m"), message("m"), message("m")
	toAbsent.TaskID = absent
	toOver.TaskID = over.ID
	paused := sendTask(t.Context(), t, c, params(message("tck-input-required"), true))
	elsewhere.TaskID, elsewhere.ContextID = paused.ID, a2a.NewContextID()
	empty := message("m")
	empty.Parts = a2a.ContentParts{}
	send := func(m *a2a.Message) func() error {
		return func() error { _, err := c.SendMessage(t.Context(), params(m, true)); return err }
	}
	negative := -1
	for _, tt := range []struct {
		name string
		call func() error
		want error
	}{
		{"get of an absent task", func() error { _, err := c.GetTask(t.Context(), &a2a.TaskQueryParams{ID: absent}); return err }, a2a.ErrTaskNotFound},
		{"get with a negative history", func() error {
			_, err := c.GetTask(t.Context(), &a2a.TaskQueryParams{ID: over.ID, HistoryLength: &negative})
			return err
		}, a2a.ErrInvalidParams},
		{"cancel of an absent task", func() error { _, err := c.CancelTask(t.Context(), &a2a.TaskIDParams{ID: absent}); return err }, a2a.ErrTaskNotFound},
		{"cancel of a task that is over", func() error { _, err := c.CancelTask(t.Context(), &a2a.TaskIDParams{ID: over.ID}); return err }, a2a.ErrTaskNotCancelable},
		{"message to an absent task", send(toAbsent), a2a.ErrTaskNotFound},
		{"message to a task that is over", send(toOver), a2a.ErrUnsupportedOperation},
		{"message to a task in another context", send(elsewhere), a2a.ErrInvalidParams},
		{"message without parts", send(empty), a2a.ErrInvalidParams},
		{"resubscribe to an absent task", func() error {
			for _, err := range c.ResubscribeToTask(t.Context(), &a2a.TaskIDParams{ID: absent}) {
				return err
			}
			return nil
		}, a2a.ErrTaskNotFound},
		{"push notifications", func() error {
			// The client itself refuses what the card does not offer, or the server does.
			_, err := c.SetTaskPushConfig(t.Context(), &a2a.TaskPushConfig{TaskID: over.ID, Config: a2a.PushConfig{URL: "https://example.com"}})
			return err
		}, a2a.ErrPushNotificationNotSupported},
	} {
		if err := tt.call(); !errors.Is(err, tt.want) {
			t.Errorf("%s = %v, want %v", tt.name, err, tt.want)
		}
	}
}

func TestBearerTokens(t *testing.T) {
	t.Parallel()
	s := start(t, "--agent", "conformance", "--token", "alices-secret=alice", "--token", "bobs-secret=bob")
	credentials := a2aclient.NewInMemoryCredentialsStore()
	for session, secret := range map[a2aclient.SessionID]string{"alice": "alices-secret", "bob": "bobs-secret", "eve": "wrong"} {
		for scheme := range s.card().SecuritySchemes {
			credentials.Set(session, scheme, a2aclient.AuthCredential(secret))
		}
	}
	c := s.client(a2aclient.WithInterceptors(&a2aclient.AuthInterceptor{Service: credentials}))
	as := func(session a2aclient.SessionID) context.Context {
		return a2aclient.WithSessionID(t.Context(), session)
	}
	task := sendTask(as("alice"), t, c, params(message("tck-complete-task"), true))
	wantState(t, task, a2a.TaskStateCompleted)
	query := &a2a.TaskQueryParams{ID: task.ID}
	if got, err := c.GetTask(as("alice"), query); err != nil || got.ID != task.ID {
		t.Errorf("GetTask() of one's own = %v, %v", got, err)
	}
	if _, err := c.GetTask(as("bob"), query); !errors.Is(err, a2a.ErrTaskNotFound) {
		t.Errorf("GetTask() of another's = %v, want %v", err, a2a.ErrTaskNotFound)
	}
	for _, ctx := range []context.Context{as("eve"), t.Context()} {
		if _, err := c.GetTask(ctx, query); err == nil || errors.Is(err, a2a.ErrTaskNotFound) || !strings.Contains(err.Error(), "401") {
			t.Errorf("GetTask() without a good token = %v, want a refusal", err)
		}
	}
}

func TestAProgramIsTheAgent(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "agent.sh")
	script := `#!/bin/sh
read -r turn
if [ "$HOLDFAST_TURN" = 1 ]; then
	echo '{"type":"status","text":"thinking"}'
	echo '{"type":"require_input","text":"Which one?"}'
	exit
fi
echo '{"type":"artifact","name":"answer","text":"for"}'
echo '{"type":"artifact","name":"answer","text":"ty-two","last":true}'
echo '{"type":"result","text":"Done."}'
`
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	c := start(t, "--exec", program).client()
	first := read(t, c.SendStreamingMessage(t.Context(), params(message("m"), false)), nil)
	if first.last() != a2a.TaskStateInputRequired || first.final != 1 || !slices.Contains(first.said, "thinking") || !slices.Contains(first.said, "Which one?") {
		t.Errorf("first turn = %s with %d last events and %q", first.last(), first.final, first.said)
	}
	m := message("m")
	m.TaskID = first.task.ID
	second := read(t, c.SendStreamingMessage(t.Context(), params(m, false)), nil)
	if second.last() != a2a.TaskStateCompleted || strings.Join(second.chunks, "") != "forty-two" || second.task.ID != first.task.ID {
		t.Errorf("second turn = %s with chunks %q", second.last(), second.chunks)
	}
	if task := getTask(t, c, first.task.ID); len(task.Artifacts) != 1 || text(task.Artifacts[0].Parts) != "forty-two" {
		t.Errorf("artifacts = %+v", task.Artifacts)
	}
}
