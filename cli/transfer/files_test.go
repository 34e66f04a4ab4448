package transfer_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/cli/transfer"
	"github.com/holdfast-dev/holdfast/internal/fileref"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobsql"
)

// The content of files that are blobs is part of an export, so an import needs no blobs.
func TestFilesAreExportedInPlace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	source, target := openSQLite(t, dir, false), memory(t)
	blobs := blobsql.Of(source, blob.Config{})
	files := fileref.New(fileref.Config{Blobs: blobs, Records: source, LinkTTL: time.Hour, Now: time.Now})
	data := bytes.Repeat([]byte("content"), 50_000)
	parts, err := files.StoreParts(t.Context(), taskKey("files"), []a2a.Part{text("x"), a2a.FilePart{File: a2a.FileWithBytes{Name: "f", MimeType: "a/b", Bytes: data}}})
	if err != nil || !fileref.Contains(parts) {
		t.Fatalf("StoreParts() = %v, %v", parts, err)
	}
	create(t, source, "files", idle(1, 1),
		store.Event{Time: at(40), State: a2a.StateSubmitted, Received: message(a2a.RoleUser, "m4", parts...)},
		store.Event{Time: at(41), State: a2a.StateWorking, Artifact: &a2a.Artifact{ID: "a", Parts: parts}},
		store.Event{Time: at(42), State: a2a.StateCompleted, Message: message(a2a.RoleAgent, "a4", parts...)},
	)
	document := export(t, openSQLite(t, dir, true), conversation)
	if strings.Contains(document, "holdfast-blob") {
		t.Fatal("the export has a reference")
	}
	importDocument(t, target, document, transfer.ImportOptions{})
	events, err := target.Events(t.Context(), taskKey("files"), 0, 10)
	if err != nil || len(events) != 3 {
		t.Fatalf("Events() = %d, %v", len(events), err)
	}
	if f, ok := events[1].Artifact.Parts[1].(a2a.FilePart).File.(a2a.FileWithBytes); !ok || !bytes.Equal(f.Bytes, data) {
		t.Error("the imported task has other content")
	}
	diff(t, "export of the import", document, export(t, target, conversation))
	if report := importDocument(t, source, document, transfer.ImportOptions{}); len(report.Written) > 0 {
		t.Errorf("Import() into the source wrote %+v, want nothing", report.Written)
	}
	if err := blobs.Delete(t.Context(), conversation.Owner, fileref.Refs(nil, parts)[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := transfer.Export(t.Context(), new(bytes.Buffer), source, conversation); err == nil || !strings.Contains(err.Error(), "task files") {
		t.Errorf("Export() of a missing file = %v, want an error that names the task", err)
	}
}

// Files of an import are blobs that the task holds, as if a client had sent them.
func TestImportStoresFilesAsBlobs(t *testing.T) {
	t.Parallel()
	source, target := newMemory(t), newMemory(t)
	data := bytes.Repeat([]byte("content"), 50_000)
	file := a2a.FilePart{File: a2a.FileWithBytes{Name: "f", MimeType: "a/b", Bytes: data}}
	create(t, source, "files", idle(1, 1),
		store.Event{Time: at(40), State: a2a.StateSubmitted, Received: message(a2a.RoleUser, "m4", text("x"), file)},
		store.Event{Time: at(41), State: a2a.StateWorking, Artifact: &a2a.Artifact{ID: "a", Parts: []a2a.Part{file}}},
		store.Event{Time: at(42), State: a2a.StateCompleted, Message: message(a2a.RoleAgent, "a4", file)},
	)
	document := export(t, source, conversation)
	blobs := blobsql.Of(target, blob.Config{})
	options := transfer.ImportOptions{Files: blobs}
	importDocument(t, target, document, options)
	task, err := target.Task(t.Context(), taskKey("files"), store.TaskOptions{})
	if err != nil {
		t.Fatal(err)
	}
	refs := fileref.TaskRefs(task)
	if len(refs) != 1 || task.LogSize > 10_000 {
		t.Fatalf("the imported task has the blobs %v and a log of %d bytes, want one blob and a small log", refs, task.LogSize)
	}
	info, err := blobs.Stat(t.Context(), conversation.Owner, refs[0])
	if err != nil || info.Size != int64(len(data)) || len(info.Holders) != 1 || info.Holders[0] != fileref.Holder("files") {
		t.Errorf("Stat() = %+v, %v, want the content, held by the task", info, err)
	}
	diff(t, "export of the import", document, export(t, target, conversation))
	if report := importDocument(t, target, document, options); len(report.Written) > 0 {
		t.Errorf("Import() again wrote %+v, want nothing", report.Written)
	}
}

func TestImportRejectsReferences(t *testing.T) {
	t.Parallel()
	source := memory(t)
	part := a2a.FilePart{File: a2a.FileWithURI{URI: "holdfast-blob:x?size=1&sha256=" + strings.Repeat("0", 64)}}
	create(t, source, "files", idle(1, 1), store.Event{Time: at(40), State: a2a.StateCompleted, Received: message(a2a.RoleUser, "m4", a2a.FilePart{File: a2a.FileWithURI{URI: "https://x/"}})})
	document := strings.ReplaceAll(export(t, source, conversation), "https://x/", part.File.(a2a.FileWithURI).URI)
	_, err := transfer.Import(t.Context(), strings.NewReader(document), memory(t), transfer.ImportOptions{})
	if a2a.CodeOf(err) != a2a.CodeInvalid || !strings.Contains(err.Error(), "reference") {
		t.Errorf("Import() = %v, want an error about the reference", err)
	}
}

// A task is not exported if its files do not fit into a line, because no import would accept it. The files
// are not read before.
func TestExportRejectsTasksWithTooManyFiles(t *testing.T) {
	t.Parallel()
	source := newMemory(t)
	file := a2a.FilePart{File: a2a.FileWithURI{URI: "holdfast-blob:x?size=268435456&sha256=" + strings.Repeat("0", 64)}}
	create(t, source, "files", idle(1, 1),
		store.Event{Time: at(40), State: a2a.StateSubmitted, Received: message(a2a.RoleUser, "m4", file)},
		store.Event{Time: at(41), State: a2a.StateWorking, Artifact: &a2a.Artifact{ID: "a", Parts: []a2a.Part{file, file}}},
		store.Event{Time: at(42), State: a2a.StateCompleted, Message: message(a2a.RoleAgent, "a4", file)},
	)
	_, err := transfer.Export(t.Context(), new(bytes.Buffer), source, conversation)
	if a2a.CodeOf(err) != a2a.CodeUnsupported || !strings.Contains(err.Error(), "task files") || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("Export() = %v, want an error about the line", err)
	}
}
