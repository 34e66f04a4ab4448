package encoding

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

var update = flag.Bool("update", false, "write the golden files of the current version")

// golden is a stored value: how it is written, and how it is read.
type golden struct {
	encode func() ([]byte, error)
	decode func(data []byte) (any, error)
	want   any
}

var (
	goldenTime = time.UnixMilli(1_763_640_000_123).UTC()
	goldenTask = store.Key{Owner: "did:example:owner", ID: "task-1"}
)

// goldens returns every stored type with all of its members. Package a2a must not lose a
// field or a type that occurs here: old values contain it.
func goldens() map[string]golden {
	metadata := map[string]any{"list": []any{nil, true, "text", 1.5}, "nested": map[string]any{"key": "value"}}
	parts := []a2a.Part{
		a2a.TextPart{Text: "text \u2028 \x00 <&>", Metadata: metadata, Embeddings: []float64{0.25, -1e-9}},
		a2a.FilePart{File: a2a.FileWithBytes{Name: "a.bin", MimeType: "application/octet-stream", Bytes: []byte{0, 1, 2, 255}, Embeddings: []float64{1}}, Metadata: metadata, Text: "caption", Embeddings: []float64{2}},
		a2a.FilePart{File: a2a.FileWithURI{Name: "b.txt", MimeType: "text/plain", URI: "https://example.org/b", Embeddings: []float64{3}}},
		a2a.DataPart{Data: map[string]any{"number": 12.0, "empty": map[string]any{}}, Metadata: metadata, Text: "caption", Embeddings: []float64{4}},
		a2a.TextPart{},
	}
	message := func(id string, role a2a.Role) *a2a.Message {
		return &a2a.Message{
			ID: id, ContextID: "context-1", TaskID: goldenTask.ID, Role: role, Parts: parts,
			ReferenceTaskIDs: []string{"task-0"}, Extensions: []string{"https://example.org/extension"}, Metadata: metadata,
		}
	}
	other := message("m4", a2a.RoleAgent)
	other.TaskID, other.ContextID = "task-2", "context-2"
	artifact := &a2a.Artifact{
		ID: "artifact-1", Name: "name", Description: "description", Parts: parts, Extensions: []string{"https://example.org/extension"},
		Metadata: metadata, Append: true, LastChunk: true,
	}
	sender := &a2a.Principal{
		ID: goldenTask.Owner, Name: "name", Scopes: []a2a.Scope{}, Level: a2a.TrustAnalyst, Schemes: []string{"oidc"}, Roles: []string{"role"}, Permissions: []string{"tasks.*"},
		DID: "did:example:owner", Client: "client", Issuer: "issuer", Proof: a2a.ProofDID, Actor: "actor", Credential: "hash", Expires: goldenTime,
	}
	events := []store.Event{
		{Time: goldenTime, State: a2a.StateSubmitted, Received: message("m1", a2a.RoleUser), Sender: sender, Metadata: metadata},
		{Time: goldenTime, State: a2a.StateWorking, Message: message("m2", a2a.RoleAgent), Progress: true},
		{Time: goldenTime.Add(time.Second), State: a2a.StateWorking, Artifact: artifact, Append: true, LastChunk: true},
		{Time: goldenTime, State: a2a.StateInputRequired, Message: &a2a.Message{ID: "m3", Role: a2a.RoleSystem, Parts: parts[4:]}},
		{Time: goldenTime, State: "a-state-of-tomorrow", Message: other},
	}
	for i := range events {
		events[i].Seq = int64(7 + i)
	}
	task := store.Task{
		Status: a2a.TaskStatus{State: a2a.StateCompleted, Message: message("m2", a2a.RoleAgent), Timestamp: goldenTime},
		History: []store.HistoryEntry{
			{Seq: 1, Received: true, Message: *message("m1", a2a.RoleUser)}, {Seq: 2, Message: *message("m2", a2a.RoleAgent)},
		},
		Artifacts: []a2a.Artifact{*artifact}, Metadata: metadata, Sender: sender,
	}
	context := store.Context{
		Name: "name", Description: "description", Role: "analyst", Status: a2a.ContextPaused, Tags: []string{"a", "b"}, Metadata: metadata,
		ParentID: "context-0", ReferenceIDs: []string{"context-2"}, Extensions: map[string]any{"x": 1.0},
	}
	storedContext := context
	storedContext.Status = "" // in a column
	feedback := store.Feedback{Text: "text", Metadata: metadata}
	attempts := []store.DeliveryAttempt{
		{
			Seq: 3, Sequence: 2, Attempt: 1, At: goldenTime, Duration: 1500 * time.Millisecond, Status: 503, Outcome: "refused",
			Address: "192.0.2.1:443", Detail: "HTTP 503",
		},
		{Seq: 3, Sequence: 2, Attempt: 2, At: goldenTime.Add(time.Second)},
	}
	for i := range attempts {
		attempts[i].Task, attempts[i].WebhookID = goldenTask, "webhook-1"
	}
	return map[string]golden{
		"events.json": {
			func() ([]byte, error) { return Events(events, goldenTask, "context-1") },
			func(data []byte) (any, error) { return DecodeEvents(data, 7, goldenTask, "context-1") },
			events,
		},
		"snapshot.json": {
			func() ([]byte, error) { return Snapshot(&task, 1<<20) },
			func(data []byte) (any, error) {
				var t store.Task
				err := DecodeSnapshot(&t, data, false)
				return t, err
			},
			task,
		},
		"context.json": {
			func() ([]byte, error) { return Context(&context) },
			func(data []byte) (any, error) { var c store.Context; err := DecodeContext(&c, data); return c, err },
			storedContext,
		},
		"feedback.json": {
			func() ([]byte, error) { return Feedback(&feedback) },
			func(data []byte) (any, error) { var f store.Feedback; err := DecodeFeedback(&f, data); return f, err },
			feedback,
		},
		"attempts.json": {
			func() ([]byte, error) { return Attempts(AttemptRows(attempts, 1000)[0]) },
			func(data []byte) (any, error) {
				stored, err := DecodeAttempts(data)
				var all []store.DeliveryAttempt
				for i := range stored {
					all = append(all, stored[i].Value(goldenTask, "webhook-1"))
				}
				return all, err
			},
			attempts,
		},
	}
}

func TestStoredValuesOfEveryVersionAreReadable(t *testing.T) {
	t.Parallel()
	all := goldens()
	files, err := filepath.Glob("testdata/v*/*.json")
	if err != nil || len(files) < len(all) {
		t.Fatalf("%d golden files, %v, want at least %d", len(files), err, len(all))
	}
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			g, ok := all[filepath.Base(file)]
			if !ok {
				t.Fatal("no decoder reads this file")
			}
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := g.decode(bytes.TrimSuffix(data, []byte("\n")))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(g.want, got, cmpopts.IgnoreUnexported(store.Task{}, a2a.Message{}, a2a.TextPart{}, a2a.FilePart{}, a2a.DataPart{})); diff != "" {
				t.Errorf("stored value (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWriterProducesTheNewestGoldenFiles(t *testing.T) {
	t.Parallel()
	for name, g := range goldens() {
		file := filepath.Join("testdata", fmt.Sprintf("v%d", Version), name)
		data, err := g.encode()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		data = append(data, '\n')
		if *update {
			if err := os.WriteFile(file, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(want, data) {
			t.Errorf("%s: the encoding changed: increment Version and add files, see the package documentation\ngot  %swant %s", name, data, want)
		}
	}
}

func TestNewerVersionsAreRejected(t *testing.T) {
	t.Parallel()
	for name, decode := range map[string]func() error{
		"events": func() error {
			_, err := DecodeEvents([]byte(`[{"v":2,"time":"2026-01-01T00:00:00.000Z"}]`), 1, goldenTask, "c")
			return err
		},
		"snapshot": func() error { return DecodeSnapshot(new(store.Task), []byte(`{"v":2}`), false) },
		"outline":  func() error { return DecodeSnapshot(new(store.Task), []byte(`{"v":2}`), true) },
		"context":  func() error { return DecodeContext(new(store.Context), []byte(`{"v":2}`)) },
		"feedback": func() error { return DecodeFeedback(new(store.Feedback), []byte(`{"v":2}`)) },
		"attempts": func() error { _, err := DecodeAttempts([]byte(`[{"v":2}]`)); return err },
	} {
		if err := decode(); err == nil || !strings.Contains(err.Error(), "version 2") {
			t.Errorf("%s: decoding a value of version 2 = %v, want an error that names the version", name, err)
		}
	}
}

func TestTemplateEqualsTheEventAtItsTime(t *testing.T) {
	t.Parallel()
	e := store.Event{State: a2a.StateWorking, Metadata: map[string]any{"time": "x", "a": goldenTime.Format(time.RFC3339Nano)}}
	template, err := NewTemplate(e)
	if err != nil {
		t.Fatal(err)
	}
	e.Time = goldenTime
	want, err := Events([]store.Event{e}, store.Key{}, "")
	if err != nil {
		t.Fatal(err)
	}
	if got := template.At(goldenTime); got != string(want) {
		t.Errorf("At() = %s, want %s", got, want)
	}
	e.Metadata["a"] = "9999-12-31T23:59:59.999Z"
	if _, err := NewTemplate(e); err == nil {
		t.Error("NewTemplate() of an event that contains the time of templates succeeded")
	}
}
