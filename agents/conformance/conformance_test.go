package conformance_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/agents/conformance"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/holdfasttest"
)

func message(id, text string) a2a.Message {
	m := holdfasttest.Message(a2a.TextPart{Text: text})
	m.ID = id
	return m
}

func TestPrefixSelectsTheBehavior(t *testing.T) {
	t.Parallel()
	tests := []struct {
		id       string
		state    a2a.TaskState
		message  string
		artifact string // text of the artifact
		parts    int
	}{
		{id: "tck-complete-task-1a2b3c4d", state: a2a.StateCompleted, message: "Hello from TCK"},
		{id: "tck-message-response-1a2b3c4d", state: a2a.StateCompleted, message: "Direct message response"},
		{id: "tck-artifact-text-1", state: a2a.StateCompleted, artifact: "Generated text content", parts: 1},
		{id: "tck-artifact-file-1", state: a2a.StateCompleted, parts: 1},
		{id: "tck-artifact-file-url-1", state: a2a.StateCompleted, parts: 1},
		{id: "tck-artifact-data-1", state: a2a.StateCompleted, parts: 1},
		{id: "tck-input-required-1", state: a2a.StateInputRequired, message: "Send another message to continue."},
		{id: "tck-reject-task-1", state: a2a.StateRejected, message: "The task was rejected as requested."},
		{id: "tck-stream-001-1", state: a2a.StateCompleted, artifact: "Stream hello from TCK", parts: 1},
		{id: "tck-stream-002-1", state: a2a.StateCompleted, message: "Hello from TCK"},
		{id: "tck-stream-003-1", state: a2a.StateCompleted, artifact: "Stream task lifecycle", parts: 1},
		{id: "tck-stream-ordering-001-1", state: a2a.StateCompleted, artifact: "Ordered output", parts: 1},
		{id: "tck-stream-artifact-text-1", state: a2a.StateCompleted, artifact: "Streamed text content", parts: 1},
		{id: "tck-stream-artifact-file-1", state: a2a.StateCompleted, parts: 1},
		{id: "tck-stream-artifact-chunked-1", state: a2a.StateCompleted, artifact: "chunk-1 chunk-2", parts: 1},
		{id: "test-resubscribe-message-id-1", state: a2a.StateCompleted, message: "Done."},
		{id: "tck-auth-required-1", state: a2a.StateAuthRequired, message: "Authorization is required to continue."},
		{id: "tck-multi-turn-1", state: a2a.StateInputRequired},
		{id: "tck-task-failure-1", state: a2a.StateFailed, message: "the task failed as requested"},
		{id: "tck-long-running-1", state: a2a.StateCompleted, message: "Done.", artifact: "Output of a long task", parts: 1},
		{id: "tck-stream-basic-1", state: a2a.StateCompleted, artifact: "Streamed text content", parts: 1},
		{id: "tck-stream-chunked-1", state: a2a.StateCompleted, artifact: "chunk-1 chunk-2 chunk-3", parts: 1},
		{id: "anything", state: a2a.StateInputRequired, message: "Hello! Send another message or cancel."},
	}
	r := holdfasttest.New(t, conformance.New(conformance.Config{Delay: time.Millisecond, Hold: 2 * time.Millisecond, Interval: time.Millisecond}))
	covered := map[string]bool{"tck-cancel": true} // see TestCancelEndsTheTask
	for _, tt := range tests {
		for _, p := range conformance.Prefixes() {
			covered[p] = covered[p] || strings.HasPrefix(tt.id, p)
		}
		task := r.SendMessage(message(tt.id, "hi"))
		if task.State != tt.state || task.Message != tt.message {
			t.Errorf("%s = %s %q, want %s %q", tt.id, task.State, task.Message, tt.state, tt.message)
		}
		if got := task.Artifact("output"); got != tt.artifact {
			t.Errorf("%s: artifact = %q, want %q", tt.id, got, tt.artifact)
		}
		parts := 0
		for _, a := range task.Artifacts {
			parts += len(a.Parts)
		}
		if parts != tt.parts {
			t.Errorf("%s: %d parts in its artifacts, want %d", tt.id, parts, tt.parts)
		}
	}
	for p, ok := range covered {
		if !ok {
			t.Errorf("prefix %s has no test", p)
		}
	}
}

func TestTheLongestPrefixWins(t *testing.T) {
	t.Parallel()
	r := holdfasttest.New(t, conformance.New(conformance.Config{}))
	file := r.SendMessage(message("tck-artifact-file-12345678", "x"))
	url := r.SendMessage(message("tck-artifact-file-url-12345678", "x"))
	if f, ok := file.Artifacts[0].Parts[0].(a2a.FilePart); !ok {
		t.Errorf("tck-artifact-file: part = %T, want a file", file.Artifacts[0].Parts[0])
	} else if b, ok := f.File.(a2a.FileWithBytes); !ok || b.Name != "output.txt" || b.MimeType != "text/plain" || len(b.Bytes) == 0 {
		t.Errorf("tck-artifact-file: file = %+v, want output.txt inline", f.File)
	}
	if f, ok := url.Artifacts[0].Parts[0].(a2a.FilePart); !ok {
		t.Errorf("tck-artifact-file-url: part = %T, want a file", url.Artifacts[0].Parts[0])
	} else if u, ok := f.File.(a2a.FileWithURI); !ok || u.URI != "https://example.com/output.txt" {
		t.Errorf("tck-artifact-file-url: file = %+v, want a URI", f.File)
	}
}

func TestChunksAreEventsOfTheirOwn(t *testing.T) {
	t.Parallel()
	r := holdfasttest.New(t, conformance.New(conformance.Config{}))
	task := r.SendMessage(message("tck-stream-artifact-chunked-1", "x"))
	var chunks []string
	for _, e := range r.Events(task.ID) {
		if e.Artifact != nil {
			chunks = append(chunks, e.Artifact.Text())
		}
	}
	if len(chunks) < 2 || chunks[0] != "chunk-1 " || chunks[1] != "chunk-2" {
		t.Errorf("chunks = %q, want chunk-1 and chunk-2", chunks)
	}
}

func TestFollowUpsAreAcceptedWhileWorking(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := holdfasttest.New(t, conformance.New(conformance.Config{Delay: 200 * time.Millisecond}))
		first := r.Submit(message("one", "first"))
		for _, id := range []string{"two", "three", "four"} {
			m := message(id, id)
			m.TaskID, m.ContextID = first.ID, first.ContextID
			if task := r.Submit(m); task.ID != first.ID || task.State.Terminal() {
				t.Errorf("follow-up %s = task %s in %s, want task %s unfinished", id, task.ID, task.State, first.ID)
			}
		}
		task := r.Wait(first.ID)
		if task.State != a2a.StateInputRequired {
			t.Errorf("Wait() = %s, want %s", task.State, a2a.StateInputRequired)
		}
		if got := len(task.History); got < 4 {
			t.Errorf("history has %d messages, want the 4 that were sent", got)
		}
		again := message("five", "five")
		again.TaskID = first.ID
		if task := r.SendMessage(again); task.ID != first.ID || task.State != a2a.StateInputRequired {
			t.Errorf("next turn = task %s in %s, want the same task in %s", task.ID, task.State, a2a.StateInputRequired)
		}
		if task := r.Cancel(first.ID); task.State != a2a.StateCanceled {
			t.Errorf("Cancel() = %s, want %s", task.State, a2a.StateCanceled)
		}
	})
}

func TestFollowUpPrefixSelectsTheBehavior(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := holdfasttest.New(t, conformance.New(conformance.Config{Delay: 200 * time.Millisecond}))
		first := r.Submit(message("one", "first"))
		m := message("tck-complete-task-1", "end it")
		m.TaskID = first.ID
		if task := r.SendMessage(m); task.State != a2a.StateCompleted {
			t.Errorf("SendMessage() = %s, want %s", task.State, a2a.StateCompleted)
		}
	})
}

func TestAFollowUpContinuesAPausedTask(t *testing.T) {
	t.Parallel()
	r := holdfasttest.New(t, conformance.New(conformance.Config{}))
	task := r.SendMessage(message("tck-input-required-1", "x"))
	m := message("tck-complete-task-1", "y")
	m.TaskID = task.ID
	if task := r.SendMessage(m); task.State != a2a.StateCompleted {
		t.Errorf("follow-up = %s, want %s", task.State, a2a.StateCompleted)
	}
}

func TestTextSelectsTheBehaviorOfTheTask(t *testing.T) {
	t.Parallel()
	r := holdfasttest.New(t, conformance.New(conformance.Config{Default: "tck-complete-task"}))
	task := r.SendMessage(message("one", "tck-multi-turn start"))
	for i, tt := range []struct {
		text string
		want a2a.TaskState
	}{{"more", a2a.StateInputRequired}, {"done", a2a.StateCompleted}} {
		m := message(fmt.Sprint("follow-up-", i), tt.text)
		m.TaskID = task.ID
		if got := r.SendMessage(m); got.State != tt.want {
			t.Errorf("%q = %s, want %s", tt.text, got.State, tt.want)
		}
	}
	if task := r.SendMessage(message("two", "hello")); task.State != a2a.StateCompleted || task.Message != "Hello from TCK" {
		t.Errorf("a message without a prefix = %s %q, want the default", task.State, task.Message)
	}
}

func TestCancelEndsTheTask(t *testing.T) {
	t.Parallel()
	r := holdfasttest.New(t, conformance.New(conformance.Config{}))
	task := r.Submit(message("tck-cancel-1", "hi"))
	if task := r.Cancel(task.ID); task.State != a2a.StateCanceled {
		t.Errorf("Cancel() = %s, want %s", task.State, a2a.StateCanceled)
	}
}

func TestEachProfileMakesAnAgent(t *testing.T) {
	t.Parallel()
	for _, p := range conformance.Profiles() {
		agent, err := p.Agent(holdfast.Config{Store: inmem.New()})
		if err != nil {
			t.Errorf("profile %s: %v", p.Name, err)
			continue
		}
		if err := agent.Stop(t.Context()); err != nil {
			t.Errorf("profile %s: Stop() = %v", p.Name, err)
		}
		if got, err := conformance.ProfileByName(p.Name); err != nil || got.Name != p.Name {
			t.Errorf("ProfileByName(%q) = %q, %v", p.Name, got.Name, err)
		}
	}
	if _, err := conformance.ProfileByName("v99"); err == nil || !strings.Contains(err.Error(), "v03, v03-noPush") {
		t.Errorf("ProfileByName(v99) = %v, want an error that lists the names", err)
	}
}

// ACTS expects an error for a contextId that the client has made.
func TestContextOfTheClientIsRejected(t *testing.T) {
	t.Parallel()
	p, err := conformance.ProfileByName("acts")
	if err != nil {
		t.Fatal(err)
	}
	agent, err := p.Agent(holdfast.Config{Store: inmem.New()})
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = agent.Stop(context.WithoutCancel(t.Context())) })
	for contextID, want := range map[string]int{"client-generated-context-that-should-be-rejected": http.StatusBadRequest, "another": http.StatusOK} {
		body := `{"message":{"messageId":"m","role":"ROLE_USER","contextId":"` + contextID + `","parts":[{"text":"tck-complete-task"}]}}`
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://agent.test/message:send", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		if agent.Handler().ServeHTTP(w, r); w.Code != want {
			t.Errorf("message in context %s = HTTP %d %s, want %d", contextID, w.Code, w.Body, want)
		}
	}
}

// Tests in a synctest bubble take no real time.

func TestDefaultDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := holdfasttest.New(t, conformance.New(conformance.Config{}))
		started := time.Now()
		task := r.SendMessage(message("one", "hi"))
		if took := time.Since(started); task.State != a2a.StateInputRequired || took < 3*time.Second || took > 4*time.Second {
			t.Errorf("SendMessage() = %s after %s, want %s after about 3s", task.State, took, a2a.StateInputRequired)
		}
	})
}

func TestResubscribePrefixKeepsTheTaskWorking(t *testing.T) {
	for _, tt := range []struct {
		env  string
		want time.Duration
	}{
		{"", 5 * time.Second},
		{"0.5", 5 * time.Second},
		{"nonsense", 5 * time.Second},
		{"-1", 5 * time.Second},
		{"NaN", 5 * time.Second},
		{"3", 7 * time.Second},
	} {
		t.Run(tt.env, func(t *testing.T) {
			t.Setenv(conformance.TimeoutVariable, tt.env)
			synctest.Test(t, func(t *testing.T) {
				r := holdfasttest.New(t, conformance.New(conformance.Config{}))
				started := time.Now()
				task := r.SendMessage(message("test-resubscribe-message-id-1", "hi"))
				took := time.Since(started)
				if task.State != a2a.StateCompleted || took < tt.want || took > tt.want+time.Second {
					t.Errorf("SendMessage() = %s after %s, want %s after %s", task.State, took, a2a.StateCompleted, tt.want)
				}
				statuses := 0
				for _, e := range r.Events(task.ID) {
					if e.Progress {
						statuses++
					}
				}
				if want := int(tt.want / (500 * time.Millisecond)); statuses < want {
					t.Errorf("%d statuses, want %d: one every 500 ms", statuses, want)
				}
			})
		})
	}
}

func TestCancelStopsTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := holdfasttest.New(t, conformance.New(conformance.Config{Hold: time.Hour}))
		started := time.Now()
		task := r.Submit(message("test-resubscribe-message-id-1", "hi"))
		if task := r.Cancel(task.ID); task.State != a2a.StateCanceled {
			t.Errorf("Cancel() = %s, want %s", task.State, a2a.StateCanceled)
		}
		if took := time.Since(started); took > time.Second {
			t.Errorf("Cancel() took %s", took)
		}
	})
}
