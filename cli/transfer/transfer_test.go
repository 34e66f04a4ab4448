package transfer_test

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/cli/transfer"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/contract"
)

var queueUnfinished = transfer.ImportOptions{Unfinished: transfer.UnfinishedQueue}

func diff(t *testing.T, what, want, got string) {
	t.Helper()
	if got == want {
		return
	}
	wantLines, gotLines := strings.SplitAfter(want, "\n"), strings.SplitAfter(got, "\n")
	for i := range min(len(wantLines), len(gotLines)) {
		if wantLines[i] != gotLines[i] {
			t.Fatalf("%s: line %d differs\nwant %.600s\ngot  %.600s", what, i+1, wantLines[i], gotLines[i])
		}
	}
	t.Fatalf("%s: %d lines, want %d", what, len(gotLines), len(wantLines))
}

func TestExportRoundTrip(t *testing.T) {
	t.Parallel()
	source, target := memory(t), memory(t)
	fill(t, source, true)
	addParent(t, target)
	document := export(t, source, conversation)
	report := importDocument(t, target, document, queueUnfinished)
	want := transfer.Report{
		Document: contract.Counts{"contexts": 1, "tasks": 110, "events": 9 + 3 + 2 + 700 + 315 + 4, "feedback": 105},
		Written:  contract.Counts{"contexts": 1, "tasks": 110, "events": 9 + 3 + 2 + 700 + 315 + 4, "feedback": 105},
		Queued:   1,
	}
	if d := cmp.Diff(want, report); d != "" {
		t.Errorf("Import() (-want +got)\n%s", d)
	}
	diff(t, "second export", document, export(t, target, conversation))

	report = importDocument(t, target, document, transfer.ImportOptions{})
	want = transfer.Report{Document: want.Document}
	if d := cmp.Diff(want, report); d != "" {
		t.Errorf("Import() again (-want +got)\n%s", d)
	}
	diff(t, "third export", document, export(t, target, conversation))
}

// Source and target return the same tasks and the same context.
func TestImportedTasksEqualTheOriginals(t *testing.T) {
	t.Parallel()
	source, target := memory(t), memory(t)
	fill(t, source, false)
	addParent(t, target)
	importDocument(t, target, export(t, source, conversation), transfer.ImportOptions{})
	for _, id := range []string{"rich", "a-same", "z-same", "long", "t104"} {
		want, err := source.Task(t.Context(), taskKey(id), store.TaskOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := target.Task(t.Context(), taskKey(id), store.TaskOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want.Queue.Lease.Fence, got.Queue.Lease.Fence = 0, 0
		if d := cmp.Diff(want, got, cmpopts.IgnoreUnexported(store.Task{})); d != "" {
			t.Errorf("Task(%s) (-want +got)\n%s", id, d)
		}
	}
	want, err := source.Context(t.Context(), "alice", "c1", 500)
	if err != nil {
		t.Fatal(err)
	}
	got, err := target.Context(t.Context(), "alice", "c1", 500)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("Context() (-want +got)\n%s", d)
	}
}

func TestUnfinishedTasks(t *testing.T) {
	t.Parallel()
	source := memory(t)
	fill(t, source, true)
	document := export(t, source, conversation)

	t.Run("are named in the error, and nothing is written", func(t *testing.T) {
		t.Parallel()
		target := memory(t)
		_, err := transfer.Import(t.Context(), strings.NewReader(document), target, transfer.ImportOptions{})
		if a2a.CodeOf(err) != a2a.CodeConflict || !errors.As(err, new(*transfer.UnfinishedError)) || !strings.Contains(err.Error(), `"working"`) {
			t.Errorf("Import() = %v, want a conflict that names the task", err)
		}
		checkEmpty(t, target)
	})
	t.Run("are claimed by the target with their steps and messages", func(t *testing.T) {
		t.Parallel()
		target := memory(t)
		importDocument(t, target, document, queueUnfinished)
		claimed, err := target.Claim(t.Context(), store.ClaimParams{
			Worker: "w2", Now: at(9999), Until: at(10_000), Limit: 10, Event: store.Event{Time: at(9999), State: a2a.StateWorking},
		})
		if err != nil || len(claimed) != 1 || claimed[0].Key.ID != "working" {
			t.Fatalf("Claim() = %v, %v, want the one unfinished task", claimed, err)
		}
		task := claimed[0]
		// The engine reads the steps of a turn only if an earlier attempt may have recorded some.
		if entry := task.Queue; entry.Turn != 2 || entry.StartSeq != 1 || entry.Attempt != 1 || entry.Lease.Fence < 2 {
			t.Errorf("claimed queue entry = %+v, want attempt 1 of turn 2, which started at 1, and a fence above 1", entry)
		}
		if unread := task.Unread(task.Queue.SeenSeq); len(unread) != 1 || unread[0].ID != "m2" {
			t.Errorf("unread = %v, want the second message", unread)
		}
		steps, err := target.Steps(t.Context(), task.Key, 2)
		if err != nil || len(steps) != 2 || steps[0].Name != "second" || !bytes.Equal(steps[0].Result, []byte{0, 1}) || !bytes.Equal(steps[0].Artifacts, []byte{2}) || steps[1].Name != "first" {
			t.Errorf("Steps() = %v, %v, want the steps of turn 2 in order", steps, err)
		}
		// The task has newer events in the target: importing again does not change it.
		if report := importDocument(t, target, document, transfer.ImportOptions{}); len(report.Written) > 0 {
			t.Errorf("Import() again wrote %+v, want nothing", report.Written)
		}
	})
	t.Run("are canceled", func(t *testing.T) {
		t.Parallel()
		target := memory(t)
		opts := transfer.ImportOptions{Unfinished: transfer.UnfinishedCancel}
		if report := importDocument(t, target, document, opts); report.Canceled != 1 || report.Queued != 0 {
			t.Errorf("Import() = %+v, want one canceled", report)
		}
		task, err := target.Task(t.Context(), taskKey("working"), store.TaskOptions{})
		if err != nil || task.Status.State != a2a.StateCanceled || task.Seq != 5 || task.Queue.Phase != store.PhaseIdle {
			t.Errorf("Task() = %+v, %v, want a fifth event that cancels it", task, err)
		}
		if backlog, err := target.Backlog(t.Context()); err != nil || backlog != (store.Backlog{}) {
			t.Errorf("Backlog() = %+v, %v, want it empty", backlog, err)
		}
		if report := importDocument(t, target, document, opts); len(report.Written) > 0 || report.Canceled != 0 {
			t.Errorf("Import() again = %+v, want nothing written", report)
		}
	})
}

// checkEmpty checks that alice has no contexts and no tasks.
func checkEmpty(t *testing.T, s store.Store) {
	t.Helper()
	page, err := s.Contexts(t.Context(), store.ContextQuery{Owner: "alice", Sort: store.ContextsByCreated, Limit: 10})
	if err != nil || len(page.Contexts) > 0 {
		t.Errorf("Contexts() = %v, %v, want none", page.Contexts, err)
	}
	tasks, err := s.Tasks(t.Context(), store.Query{Owner: "alice", Limit: 10})
	if err != nil || len(tasks.Tasks) > 0 {
		t.Errorf("Tasks() = %v, %v, want none", tasks.Tasks, err)
	}
}

func TestMissingParentIsAddedLater(t *testing.T) {
	t.Parallel()
	source, target := memory(t), memory(t)
	fill(t, source, false)
	document := export(t, source, conversation)
	parentOf := func() string {
		t.Helper()
		c, err := target.Context(t.Context(), "alice", "c1", 0)
		if err != nil || c.Status != a2a.ContextArchived || len(c.ReferenceIDs) != 1 {
			t.Errorf("Context() = %+v, %v, want it archived and with its reference", c, err)
		}
		return c.ParentID
	}
	report := importDocument(t, target, document, transfer.ImportOptions{})
	if got := parentOf(); got != "" || len(report.Notes) != 1 || !strings.Contains(report.Notes[0], `"c1" was imported without its parent "parent"`) {
		t.Errorf("parent = %q, notes = %q; want none, and a note", got, report.Notes)
	}
	if report = importDocument(t, target, document, transfer.ImportOptions{}); len(report.Notes) != 1 || len(report.Written) > 0 {
		t.Errorf("Import() again = %+v, want the note again and nothing written", report)
	}
	addParent(t, target)
	if report = importDocument(t, target, document, transfer.ImportOptions{}); parentOf() != "parent" || len(report.Notes) > 0 || report.Written["contexts"] != 1 {
		t.Errorf("Import() after the parent was created = %+v, want it added", report)
	}
	diff(t, "export", document, export(t, target, conversation))
}

func TestExportAllContextsOfAnOwner(t *testing.T) {
	t.Parallel()
	source, target := memory(t), memory(t)
	fill(t, source, false)
	// The child is older than its parent, so ExportAll writes it first.
	child := store.Context{Key: store.ContextKey{Owner: "alice", ID: "child"}, Role: "r", Status: a2a.ContextActive, CreatedAt: at(-5), UpdatedAt: at(-5), ParentID: "c1"}
	save(t, source, store.ContextChange{Context: child, Create: true})
	var all bytes.Buffer
	report, err := transfer.ExportAll(t.Context(), &all, source, "alice")
	if err != nil || report.Document["contexts"] != 3 || report.Document["tasks"] != 109 {
		t.Fatalf("ExportAll() = %+v, %v, want 3 contexts with 109 tasks", report, err)
	}
	report = importDocument(t, target, all.String(), transfer.ImportOptions{})
	if report.Written["contexts"] != 3 || len(report.Notes) > 0 {
		t.Errorf("Import() = %+v, want 3 contexts and all parents found", report)
	}
	var again bytes.Buffer
	if _, err := transfer.ExportAll(t.Context(), &again, target, "alice"); err != nil {
		t.Fatal(err)
	}
	diff(t, "second export", all.String(), again.String())
}

func TestOwnerIsReplaced(t *testing.T) {
	t.Parallel()
	source := memory(t)
	fill(t, source, false)
	document := export(t, source, conversation)
	importDocument(t, source, document, transfer.ImportOptions{Owner: "bob"})
	got := export(t, source, store.ContextKey{Owner: "bob", ID: "c1"})
	for i, line := range strings.Split(document, "\n") {
		// Only the owner, the parent, which bob does not have, and the checksum differ.
		if i != 1 && !strings.Contains(line, `"type":"end"`) && line != strings.Split(got, "\n")[i] {
			t.Fatalf("line %d of bob's export differs: %s", i+1, line)
		}
	}
	if !strings.Contains(strings.Split(got, "\n")[1], `"owner":"bob"`) {
		t.Errorf("line 2 = %s, want bob's", strings.Split(got, "\n")[1])
	}
}

// Import rejects a document that conflicts with the store, and writes nothing.
func TestConflictingContextsAreRejected(t *testing.T) {
	t.Parallel()
	source := memory(t)
	fill(t, source, false)
	document := export(t, source, conversation)
	context := func(change func(*store.Context)) func(t *testing.T, s store.Store) {
		return func(t *testing.T, s store.Store) {
			c, err := source.Context(t.Context(), "alice", "c1", 0)
			if err != nil {
				t.Fatal(err)
			}
			c.ParentID = ""
			change(&c)
			save(t, s, store.ContextChange{Context: c, Create: true})
		}
	}
	for name, tt := range map[string]struct {
		before func(t *testing.T, s store.Store)
		want   string
	}{
		"another name":    {context(func(c *store.Context) { c.Name = "other" }), `context "c1" exists and differs from the document`},
		"another role":    {context(func(c *store.Context) { c.Role = "other" }), `context "c1" exists and differs from the document`},
		"created earlier": {context(func(c *store.Context) { c.CreatedAt = at(-1) }), `context "c1" exists and differs from the document`},
		"closed":          {context(func(c *store.Context) { c.Status = a2a.ContextPaused }), `context "c1" is paused and accepts no new tasks; task "rich" does not exist in it`},
		"another task": {func(t *testing.T, s store.Store) {
			context(func(c *store.Context) { c.Status = a2a.ContextActive })(t, s)
			createDone(t, s, "t100", 1)
		}, `task "t100" exists and differs from the document at event 1`},
		"a task with another event": {func(t *testing.T, s store.Store) {
			context(func(c *store.Context) { c.Status = a2a.ContextActive })(t, s)
			events, err := source.Events(t.Context(), taskKey("long"), 0, 600)
			if err != nil {
				t.Fatal(err)
			}
			events[299].Metadata = map[string]any{"x": true}
			create(t, s, "long", idle(1, 1), events...)
		}, `differs from the document at event 300`},
		"a task of another context": {func(t *testing.T, s store.Store) {
			entry := idle(1, 1)
			commit(t, s, store.Change{Key: taskKey("t003"), Create: &store.Create{ContextID: "other"}, Queue: &entry, Events: []store.Event{{Time: at(1), State: a2a.StateWorking}}})
		}, `task "t003" exists in another context`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := memory(t)
			tt.before(t, target)
			before := exportAll(t, target)
			_, err := transfer.Import(t.Context(), strings.NewReader(document), target, transfer.ImportOptions{})
			if a2a.CodeOf(err) != a2a.CodeConflict || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Import() = %v, want a conflict with %q", err, tt.want)
			}
			if d := cmp.Diff(before, exportAll(t, target)); d != "" {
				t.Errorf("content of the store (-before +after)\n%s", d)
			}
		})
	}
}

// exportAll exports all contexts of alice.
func exportAll(t *testing.T, s store.Store) string {
	t.Helper()
	var b bytes.Buffer
	if _, err := transfer.ExportAll(t.Context(), &b, s, "alice"); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestNewerDocumentAddsEvents(t *testing.T) {
	t.Parallel()
	source, target := memory(t), memory(t)
	create(t, source, "t1", idle(1, 1), store.Event{Time: at(1), State: a2a.StateSubmitted, Received: message(a2a.RoleUser, "m1", text("a"))},
		store.Event{Time: at(2), State: a2a.StateInputRequired})
	importDocument(t, target, export(t, source, conversation), transfer.ImportOptions{})
	entry := idle(2, 3)
	commit(t, source, store.Change{Key: taskKey("t1"), Version: 2, Queue: &entry, Events: []store.Event{
		{Time: at(3), State: a2a.StateSubmitted, Received: message(a2a.RoleUser, "m2", text("b"))}, {Time: at(4), State: a2a.StateCompleted},
	}})
	createDone(t, source, "t2", 5)
	newer := export(t, source, conversation)
	report := importDocument(t, target, newer, transfer.ImportOptions{})
	if want := (contract.Counts{"tasks": 2, "events": 5}); !maps.Equal(report.Written, want) {
		t.Errorf("Import() wrote %+v, want %+v", report.Written, want)
	}
	diff(t, "export", newer, export(t, target, conversation))
}

func TestExportErrors(t *testing.T) {
	t.Parallel()
	s := memory(t)
	fill(t, s, false)
	for _, key := range []store.ContextKey{{Owner: "bob", ID: "c1"}, {Owner: "alice", ID: "c2"}} {
		_, err := transfer.Export(t.Context(), io.Discard, s, key)
		if a2a.CodeOf(err) != a2a.CodeContextNotFound {
			t.Errorf("Export(%v) = %v, want context_not_found", key, err)
		}
	}
	full := errors.New("disk full")
	if _, err := transfer.Export(t.Context(), failingIO{full}, s, conversation); !errors.Is(err, full) {
		t.Errorf("Export() to a full disk = %v, want %v", err, full)
	}
}

type failingIO struct{ err error }

func (f failingIO) Write([]byte) (int, error) { return 0, f.err }
func (f failingIO) Read([]byte) (int, error)  { return 0, f.err }

func TestImportOptionsAndInput(t *testing.T) {
	t.Parallel()
	s := memory(t)
	for want, opts := range map[string]transfer.ImportOptions{"Unfinished is \"drop\"": {Unfinished: "drop"}, "Owner must not": {Owner: "a\x00"}} {
		if _, err := transfer.Import(t.Context(), strings.NewReader("{}"), s, opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Import(%+v) = %v, want %q", opts, err, want)
		}
	}
	broken := errors.New("broken pipe")
	if _, err := transfer.Import(t.Context(), failingIO{broken}, s, transfer.ImportOptions{}); !errors.Is(err, broken) {
		t.Errorf("Import() from a broken reader = %v, want %v", err, broken)
	}
	source := memory(t)
	fill(t, source, false)
	document := export(t, source, conversation)
	// A reader that cannot seek is copied to a temporary file.
	if _, err := transfer.Import(t.Context(), io.MultiReader(strings.NewReader(document)), s, transfer.ImportOptions{}); err != nil {
		t.Errorf("Import() from a stream = %v", err)
	}
	// A reader that can seek is read from its current position.
	r := strings.NewReader("before\n" + document)
	if _, err := r.Seek(7, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if _, err := transfer.Import(t.Context(), r, s, transfer.ImportOptions{}); err != nil {
		t.Errorf("Import() from the middle = %v", err)
	}
}
