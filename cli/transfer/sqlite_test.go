package transfer_test

import (
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/store"
)

func openSQLite(t *testing.T, dir string, readOnly bool) store.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir, ReadOnly: readOnly, Synchronous: "NORMAL"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// A conversation stays the same from memory to SQLite and back. It is exported while another
// store has the file open for writing.
func TestExportsMoveBetweenBackends(t *testing.T) {
	t.Parallel()
	source, back := memory(t), memory(t)
	fill(t, source, true)
	document := export(t, source, conversation)
	dir := t.TempDir()
	target := openSQLite(t, dir, false)
	addParent(t, target)
	importDocument(t, target, document, queueUnfinished)
	diff(t, "export from SQLite", document, export(t, target, conversation))
	concurrent := export(t, openSQLite(t, dir, true), conversation)
	diff(t, "export while the writer is open", document, concurrent)
	if report := importDocument(t, target, document, queueUnfinished); len(report.Written) > 0 {
		t.Errorf("Import() again wrote %+v, want nothing", report.Written)
	}
	addParent(t, back)
	importDocument(t, back, concurrent, queueUnfinished)
	diff(t, "export from memory", document, export(t, back, conversation))
}

// SQLite stores large content separately, once per task. An export contains it in place.
func TestLargeContentIsExportedInPlace(t *testing.T) {
	t.Parallel()
	source, back := memory(t), memory(t)
	large := strings.Repeat("\u001aM\"ä", 40_000)
	create(t, source, "large", idle(1, 1),
		store.Event{Time: at(40), State: a2a.StateSubmitted, Received: message(a2a.RoleUser, "m4", text(large), text(large))},
		store.Event{Time: at(41), State: a2a.StateWorking, Artifact: &a2a.Artifact{ID: "a", Parts: []a2a.Part{text(large), a2a.DataPart{Data: large}}}},
		store.Event{Time: at(42), State: a2a.StateCompleted, Message: message(a2a.RoleAgent, "a4", text(large))},
	)
	document := export(t, source, conversation)
	target := openSQLite(t, t.TempDir(), false)
	importDocument(t, target, document, queueUnfinished)
	again := export(t, target, conversation)
	diff(t, "export from SQLite", document, again)
	importDocument(t, back, again, queueUnfinished)
	diff(t, "export from memory", document, export(t, back, conversation))
}

// The export of a task that changes at the same time is one of its versions.
func TestExportOfRunningTaskIsConsistent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	live := openSQLite(t, dir, false)
	createWorking(t, live)
	written := make(chan struct{})
	go func() {
		defer close(written)
		lease := &store.HeldLease{Key: taskKey("working"), Worker: "w", Fence: 4}
		for i := range 300 {
			c := store.Change{Key: taskKey("working"), Lease: lease, Events: []store.Event{{Time: at(3000 + i), State: "working", Message: message("agent", "p", text("x"))}}}
			if _, err := live.Commit(t.Context(), c); err != nil {
				t.Errorf("Commit() = %v", err)
				return
			}
		}
	}()
	reader := openSQLite(t, dir, true)
	for writing := true; writing; {
		select {
		case <-written:
			writing = false
		default:
		}
		document := export(t, reader, conversation)
		importDocument(t, memory(t), document, queueUnfinished)
	}
}
