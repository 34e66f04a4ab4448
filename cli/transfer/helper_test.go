package transfer_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/cli/transfer"
	"github.com/holdfast-dev/holdfast/store"
)

var conversation = store.ContextKey{Owner: "alice", ID: "c1"}

func at(ms int) time.Time { return time.UnixMilli(1_700_000_000_000 + int64(ms)).UTC() }

func taskKey(id string) store.Key { return store.Key{Owner: conversation.Owner, ID: id} }

func message(role a2a.Role, id string, parts ...a2a.Part) *a2a.Message {
	return &a2a.Message{ID: id, Role: role, ContextID: conversation.ID, Parts: parts}
}

func text(s string) a2a.Part { return a2a.TextPart{Text: s} }

func memory(t testing.TB) store.Store {
	s := inmem.New()
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// commit applies one change; it fails the test if the store rejects it.
func commit(t testing.TB, s store.Store, c store.Change) {
	t.Helper()
	results, err := s.Commit(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if results[0].Err != nil {
		t.Fatalf("Commit() of task %s = %v", c.Key.ID, results[0].Err)
	}
}

func create(t testing.TB, s store.Store, id string, entry store.QueueEntry, events ...store.Event) {
	t.Helper()
	commit(t, s, store.Change{Key: taskKey(id), Create: &store.Create{ContextID: conversation.ID}, Queue: &entry, Events: events})
}

func idle(turn int, seen int64) store.QueueEntry {
	return store.QueueEntry{Phase: store.PhaseIdle, Turn: turn, SeenSeq: seen, Lease: store.Lease{Fence: 7}}
}

// createDone creates a completed task.
func createDone(t testing.TB, s store.Store, id string, ms int) {
	t.Helper()
	create(t, s, id, idle(1, 1),
		store.Event{Time: at(ms), State: a2a.StateSubmitted, Received: message(a2a.RoleUser, "m-"+id, text("go"))},
		store.Event{Time: at(ms), State: a2a.StateWorking},
		store.Event{Time: at(ms + 1), State: a2a.StateCompleted, Message: message(a2a.RoleAgent, "a-"+id, text("done"))},
	)
}

func save(t testing.TB, s store.Store, c store.ContextChange) store.Context {
	t.Helper()
	saved, err := s.SaveContext(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return saved
}

// fill creates a context with all kinds of records, and on request an unfinished task.
func fill(t testing.TB, s store.Store, unfinished bool) {
	t.Helper()
	fillWith(t, s, unfinished, 105)
}

// fillWith is fill with extra feedback records and plain tasks; 105 are more than a page.
func fillWith(t testing.TB, s store.Store, unfinished bool, extra int) {
	t.Helper()
	parent := store.Context{Key: store.ContextKey{Owner: "alice", ID: "parent"}, Role: "assistant", Status: a2a.ContextActive, CreatedAt: at(0), UpdatedAt: at(0)}
	save(t, s, store.ContextChange{Context: parent, Create: true})
	record := store.Context{
		Key: conversation, Name: "Näme \u2028 \"x\"", Description: "What\nit is", Role: "analyst", Status: a2a.ContextActive,
		Tags: []string{"a", "b"}, Metadata: map[string]any{"n": json.Number("12345678901234567890"), "m": map[string]any{"snake_case": []any{nil, true}}},
		ParentID: "parent", ReferenceIDs: []string{"elsewhere"}, Extensions: map[string]any{"x": 1.5}, CreatedAt: at(0), UpdatedAt: at(3),
	}
	saved := save(t, s, store.ContextChange{Context: record, Create: true})

	// Chunks, files, data, metadata.
	create(t, s, "rich", idle(2, 4),
		store.Event{Time: at(10), State: a2a.StateSubmitted, Metadata: map[string]any{"k": "v"}, Received: message(a2a.RoleUser, "m1", text("nul \x00"),
			a2a.FilePart{File: a2a.FileWithBytes{Name: "f", MimeType: "a/b", Bytes: []byte{0, 255, 1}}},
			a2a.FilePart{File: a2a.FileWithURI{URI: "https://example.com/a"}, Text: "caption"},
			a2a.DataPart{Data: map[string]any{"list": []any{1.0, "x", json.Number("9007199254740993")}}, Metadata: map[string]any{"d": false}})},
		store.Event{Time: at(11), State: a2a.StateWorking, Message: message(a2a.RoleAgent, "p1", text("progress")), Progress: true},
		store.Event{Time: at(11), State: a2a.StateInputRequired, Message: message(a2a.RoleAgent, "q1", text("which?"))},
		store.Event{Time: at(12), State: a2a.StateSubmitted, Received: message(a2a.RoleUser, "m2", a2a.TextPart{Text: "this", Embeddings: []float64{0.25}})},
		store.Event{Time: at(13), State: a2a.StateWorking, Artifact: &a2a.Artifact{ID: "a", Name: "n", Parts: []a2a.Part{text("one ")}}},
		store.Event{Time: at(14), State: a2a.StateWorking, Artifact: &a2a.Artifact{ID: "a", Parts: []a2a.Part{text("two")}}, Append: true},
		store.Event{Time: at(15), State: a2a.StateWorking, Artifact: &a2a.Artifact{ID: "b", Parts: []a2a.Part{a2a.DataPart{Data: "x"}}}, Metadata: map[string]any{"k": "w"}},
		store.Event{Time: at(16), State: a2a.StateWorking, Artifact: &a2a.Artifact{ID: "a", Parts: []a2a.Part{text("")}}, Append: true, LastChunk: true},
		store.Event{Time: at(17), State: a2a.StateCompleted},
	)
	// Created at the same time, one of them paused.
	createDone(t, s, "z-same", 20)
	create(t, s, "a-same", idle(1, 1),
		store.Event{Time: at(20), State: a2a.StateSubmitted, Received: message(a2a.RoleUser, "m3", text("hm"))},
		store.Event{Time: at(22), State: a2a.StateAuthRequired, Message: message(a2a.RoleAgent, "q2", text("who?"))},
	)
	createLong(t, s, "long", 30, 700)
	for i := range extra {
		f := store.Feedback{Key: taskKey("rich"), ID: fmt.Sprintf("f%03d", i), Rating: i % 6, Text: fmt.Sprint("text ", i), CreatedAt: at(100 + i/2)}
		if i%2 == 0 {
			f.Metadata = map[string]any{"i": float64(i)}
		}
		if err := s.AddFeedback(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	for i := range extra {
		createDone(t, s, fmt.Sprintf("t%03d", i), 1000+i)
	}
	if unfinished {
		createWorking(t, s)
	}
	record.Status, record.UpdatedAt = a2a.ContextArchived, at(5000)
	save(t, s, store.ContextChange{Context: record, Version: saved.Version})
}

// createLong creates a task with many events.
func createLong(t testing.TB, s store.Store, id string, ms, events int) {
	t.Helper()
	all := []store.Event{{Time: at(ms), State: a2a.StateSubmitted, Received: message(a2a.RoleUser, "m-"+id, text("long"))}}
	for i := len(all); i < events-1; i++ {
		all = append(all, store.Event{
			Time: at(ms + i), State: a2a.StateWorking, Append: i > 1,
			Artifact: &a2a.Artifact{ID: "a", Parts: []a2a.Part{text(fmt.Sprint(i, " "))}},
		})
	}
	create(t, s, id, idle(1, 1), append(all, store.Event{Time: at(ms + events), State: a2a.StateCompleted})...)
}

// createWorking creates a leased task in its second turn, with steps and an unread message.
func createWorking(t testing.TB, s store.Store) {
	t.Helper()
	entry := store.QueueEntry{Phase: store.PhaseLeased, Turn: 2, Attempt: 3, SeenSeq: 1, StartSeq: 1, Lease: store.Lease{Worker: "w", Fence: 4, Until: at(9000)}}
	commit(t, s, store.Change{
		Key: taskKey("working"), Create: &store.Create{ContextID: conversation.ID}, Queue: &entry,
		Events: []store.Event{
			{Time: at(2000), State: a2a.StateSubmitted, Received: message(a2a.RoleUser, "m1", text("one"))},
			{Time: at(2001), State: a2a.StateWorking},
			{Time: at(2002), State: a2a.StateWorking, Received: message(a2a.RoleUser, "m2", text("two"))},
			{Time: at(2003), State: a2a.StateWorking, Artifact: &a2a.Artifact{ID: "a", Parts: []a2a.Part{text("half")}}},
		},
		Steps: []store.Step{{Turn: 1, Name: "old", Result: []byte("old")}, {Turn: 2, Name: "second", Result: []byte{0, 1}, Artifacts: []byte{2}}, {Turn: 2, Name: "first"}},
	})
}

func export(t testing.TB, s store.Store, key store.ContextKey) string {
	t.Helper()
	var b bytes.Buffer
	if _, err := transfer.Export(t.Context(), &b, s, key); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func importDocument(t testing.TB, s store.Store, document string, opts transfer.ImportOptions) transfer.Report {
	t.Helper()
	report, err := transfer.Import(t.Context(), strings.NewReader(document), s, opts)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// addParent creates the parent of the context that fill creates.
func addParent(t testing.TB, s store.Store) {
	t.Helper()
	save(t, s, store.ContextChange{Create: true, Context: store.Context{
		Key: store.ContextKey{Owner: "alice", ID: "parent"}, Role: "assistant", Status: a2a.ContextActive, CreatedAt: at(0), UpdatedAt: at(0),
	}})
}
