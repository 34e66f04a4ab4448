package transfer_test

import (
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/internal/transfer"
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

// From memory to a file of SQLite and back, a conversation stays what it was; it is
// read while the one that writes has it open.
func TestBackendsTakeEachOthersExports(t *testing.T) {
	t.Parallel()
	source, back := memory(t), memory(t)
	fill(t, source, true)
	document := export(t, source, conversation)
	dir := t.TempDir()
	target := openSQLite(t, dir, false)
	addParent(t, target)
	load(t, target, document, queue)
	diff(t, "export from SQLite", document, export(t, target, conversation))
	beside := export(t, openSQLite(t, dir, true), conversation)
	diff(t, "export beside the writer", document, beside)
	if report := load(t, target, document, queue); report.Written != (transfer.Counts{}) {
		t.Errorf("Import() again wrote %+v, want nothing", report.Written)
	}
	addParent(t, back)
	load(t, back, beside, queue)
	diff(t, "export from memory", document, export(t, back, conversation))
}

// SQLite stores large content apart, once per task; in exports it stands where it belongs.
func TestLargeContentIsExportedInPlace(t *testing.T) {
	t.Parallel()
	source, back := memory(t), memory(t)
	large := strings.Repeat("\u001aM\"ä", 40_000)
	create(t, source, "large", idle(1, 1),
		store.Event{Time: at(40), State: a2a.StateSubmitted, Received: said(a2a.RoleUser, "m4", text(large), text(large))},
		store.Event{Time: at(41), State: a2a.StateWorking, Artifact: &a2a.Artifact{ID: "a", Parts: []a2a.Part{text(large), a2a.DataPart{Data: large}}}},
		store.Event{Time: at(42), State: a2a.StateCompleted, Message: said(a2a.RoleAgent, "a4", text(large))},
	)
	document := export(t, source, conversation)
	target := openSQLite(t, t.TempDir(), false)
	load(t, target, document, queue)
	again := export(t, target, conversation)
	diff(t, "export from SQLite", document, again)
	load(t, back, again, queue)
	diff(t, "export from memory", document, export(t, back, conversation))
}

// A task that moves on while it is exported is exported as it stood at some moment.
func TestExportWhileTasksMoveOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	live := openSQLite(t, dir, false)
	working(t, live)
	written := make(chan struct{})
	go func() {
		defer close(written)
		lease := &store.HeldLease{Key: taskKey("working"), Worker: "w", Fence: 4}
		for i := range 300 {
			c := store.Change{Key: taskKey("working"), Lease: lease, Events: []store.Event{{Time: at(3000 + i), State: "working", Message: said("agent", "p", text("x"))}}}
			if _, err := live.Commit(t.Context(), c); err != nil {
				t.Errorf("Commit() = %v", err)
				return
			}
		}
	}()
	reader := openSQLite(t, dir, true)
	for going := true; going; {
		select {
		case <-written:
			going = false
		default:
		}
		document := export(t, reader, conversation)
		load(t, memory(t), document, queue)
	}
}
