package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/fileref"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobs"
	"github.com/holdfast-dev/holdfast/store/blob/blobsql"
	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// fileContent returns n bytes that depend on seed.
func fileContent(seed byte, n int) []byte {
	data := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(data)
	return data
}

func filePart(name string, data []byte) a2a.FilePart {
	return a2a.FilePart{File: a2a.FileWithBytes{Name: name, MimeType: "image/png", Bytes: data}, Metadata: map[string]any{"k": "v"}}
}

// messageWith returns params for a message with files.
func messageWith(text string, files ...a2a.Part) a2a.MessageSendParams {
	p := message(text)
	p.Message.Parts = append(p.Message.Parts, files...)
	return p
}

// blobsOf returns the blobs of the test's owner.
func blobsOf(t *testing.T, e *engine.Engine) []blob.Info {
	t.Helper()
	page, err := e.Files().Blobs().List(t.Context(), blob.ListParams{Owner: alice.ID, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return page.Blobs
}

// bytesIn returns the size of the content in a task's log, and the number of its references.
func bytesIn(t *testing.T, s store.Store, key store.Key) (size int64, refs int) {
	t.Helper()
	events, err := s.Events(t.Context(), key, 0, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	for i := range events {
		e := &events[i]
		if e.Received != nil {
			refs += len(fileref.Refs(nil, e.Received.Parts))
		}
		if e.Message != nil {
			refs += len(fileref.Refs(nil, e.Message.Parts))
		}
		if e.Artifact != nil {
			refs += len(fileref.Refs(nil, e.Artifact.Parts))
		}
	}
	return store.EventsSize(events), refs
}

func TestLargeFilesAreStoredOnceAndReferenced(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		large, small := fileContent(1, 300_000), fileContent(2, fileref.Threshold)
		e := start(t, engine.Config{Store: s, Handler: func(_ context.Context, turn *engine.Turn) error {
			files := turn.Messages()[0].Files()
			for i, want := range [][]byte{large, small} {
				if f, ok := files[i].File.(a2a.FileWithBytes); !ok || !bytes.Equal(f.Bytes, want) || f.Name != fmt.Sprint(i) || f.MimeType != "image/png" {
					return fmt.Errorf("file %d is %T", i, files[i].File)
				}
			}
			if err := turn.AddArtifact(a2a.Artifact{Name: "copy", Parts: []a2a.Part{files[0], files[1]}}); err != nil {
				return err
			}
			return turn.RequireInput(files[0])
		}})
		first := messageWith("first", filePart("0", large), filePart("1", small))
		task := sendWait(t, e, first)
		wantState(t, task, a2a.StateInputRequired)
		size, refs := bytesIn(t, s, task.Key)
		if size > 3*fileref.Threshold || refs != 3 {
			t.Errorf("the log has %d bytes and %d references, want 3 references and the small file twice", size, refs)
		}
		blobs := blobsOf(t, e)
		if len(blobs) != 1 || blobs[0].Digest != blob.Sum(large) || blobs[0].Name != "0" || blobs[0].ContentType != "image/png" {
			t.Fatalf("blobs are %+v, want the large file once", blobs)
		}
		if h := blobs[0].Holders; len(h) != 1 || h[0] != "task/"+task.Key.ID || !blobs[0].Expires.IsZero() {
			t.Errorf("the blob is held by %q and expires at %v, want the task as its holder", h, blobs[0].Expires)
		}
		if again := sendWait(t, e, first); again.Key != task.Key || again.Seq != task.Seq {
			t.Errorf("the message sent again = task %s at %d, want %s at %d", again.Key.ID, again.Seq, task.Key.ID, task.Seq)
		}
		second := messageTo(task.Key.ID, "second")
		second.Message.Parts = append(second.Message.Parts, filePart("0", large), filePart("1", small))
		next := sendWait(t, e, second)
		if _, err := e.Send(t.Context(), alice, second, engine.SendOptions{}); err != nil {
			t.Errorf("the follow-up sent again = %v", err)
		}
		if now, err := e.Task(t.Context(), alice, task.Key.ID, nil); err != nil || now.Seq != next.Seq {
			t.Errorf("the follow-up sent again changed the task")
		}
		second.Message.Parts[1] = filePart("0", fileContent(3, 300_000))
		if _, err := e.Send(t.Context(), alice, second, engine.SendOptions{}); a2a.CodeOf(err) != a2a.CodeInvalid {
			t.Errorf("another file under the same message id = %v, want an error", err)
		}
		if n := len(blobsOf(t, e)); n > 2 { // the blob of the rejected message expires
			t.Errorf("%d blobs are stored, want the file once", n)
		}
	})
}

func TestRepeatedFirstMessageStoresNothing(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Config{Handler: func(context.Context, *engine.Turn) error { return nil }})
	p := messageWith("m", filePart("f", fileContent(1, 100_000)))
	task := sendWait(t, e, p)
	for range 3 {
		if again := sendWait(t, e, p); again.Key != task.Key {
			t.Errorf("Send() again = task %s, want %s", again.Key.ID, task.Key.ID)
		}
	}
	if n := len(blobsOf(t, e)); n != 1 {
		t.Errorf("%d blobs are stored, want 1", n)
	}
}

func TestRejectedMessagesStoreNoFiles(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Config{
		Handler: func(context.Context, *engine.Turn) error { return nil },
		Turns: engine.Turns{Admit: func(context.Context, engine.AdmitParams) (engine.Admission, error) {
			return engine.Admission{}, a2a.Errorf(a2a.CodeDenied, "no")
		}},
		Limits: engine.Limits{TaskBytes: 500_000},
	})
	unknown := messageWith("m", filePart("f", fileContent(1, 100_000)))
	unknown.Message.TaskID = "unknown"
	for name, p := range map[string]a2a.MessageSendParams{
		"not admitted": messageWith("m", filePart("f", fileContent(1, 100_000))),
		"unknown task": unknown,
		"too large":    messageWith("m", filePart("f", fileContent(1, 600_000))),
	} {
		if _, err := e.Send(t.Context(), alice, p, engine.SendOptions{}); err == nil {
			t.Errorf("%s: Send() succeeded", name)
		}
	}
	if n := len(blobsOf(t, e)); n != 0 {
		t.Errorf("%d blobs are stored, want none", n)
	}
}

func TestHandlersStreamFiles(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		data := fileContent(1, 3<<20)
		var read atomic.Bool
		e := start(t, engine.Config{Store: s, Limits: engine.Limits{ArtifactBytes: 1 << 20}, Handler: func(ctx context.Context, turn *engine.Turn) error {
			if turn.Number() == 2 {
				parts := turn.Artifacts()[0].Parts
				file := parts[1].(a2a.FilePart).File
				r, err := turn.OpenFile(ctx, file)
				if err != nil {
					return err
				}
				defer r.Close()
				got, err := io.ReadAll(r)
				if err != nil || !bytes.Equal(got, data) {
					return fmt.Errorf("OpenFile() read %d bytes, %w", len(got), err)
				}
				if got, err = turn.ReadFile(ctx, file); err != nil || !bytes.Equal(got, data) {
					return fmt.Errorf("ReadFile() = %d bytes, %w", len(got), err)
				}
				read.Store(true)
				// A file of an earlier turn may be written again.
				return turn.AddArtifact(a2a.Artifact{Name: "again", Parts: parts[1:2]})
			}
			w := turn.Artifact("report")
			if _, err := w.WriteString("text"); err != nil {
				return err
			}
			if err := w.WriteFile(ctx, "large.bin", "application/pdf", bytes.NewReader(data)); err != nil {
				return err
			}
			if err := w.WriteFile(ctx, "small.bin", "", strings.NewReader("small")); err != nil {
				return err
			}
			if err := w.WriteFile(ctx, "failed.bin", "", io.MultiReader(bytes.NewReader(data), failingReader{})); !errors.Is(err, errRead) {
				return fmt.Errorf("WriteFile() of a failing reader = %w", err)
			}
			return turn.RequireInput(a2a.TextPart{Text: "more?"})
		}})
		task := sendWait(t, e, message("m"))
		wantState(t, task, a2a.StateInputRequired)
		parts := task.Artifacts[0].Parts
		if len(parts) != 3 {
			t.Fatalf("the artifact has %d parts, want 3", len(parts))
		}
		if f, ok := parts[2].(a2a.FilePart).File.(a2a.FileWithBytes); !ok || string(f.Bytes) != "small" {
			t.Errorf("the small file is %+v, want its content", parts[2])
		}
		if n := len(blobsOf(t, e)); n != 1 {
			t.Errorf("%d blobs are stored, want 1", n)
		}
		wantState(t, sendWait(t, e, messageTo(task.Key.ID, "n")), a2a.StateCompleted)
		if !read.Load() {
			t.Error("the handler has not read the file")
		}
	})
}

var errRead = errors.New("reading failed")

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errRead }

func TestAttemptsThatWriteEqualFilesStoreThemOnce(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		a, b, c := fileContent(1, 200_000), fileContent(2, 200_000), fileContent(3, 200_000)
		e := start(t, engine.Config{Store: s, Turns: engine.Turns{RetryDelay: time.Millisecond}, Handler: func(ctx context.Context, turn *engine.Turn) error {
			w := turn.Artifact("files")
			second := b
			if turn.Attempt() == 3 {
				second = c
			}
			if err := errors.Join(w.WriteFile(ctx, "a", "", bytes.NewReader(a)), w.WriteParts(filePart("b", second)), turn.Flush()); err != nil {
				return err
			}
			if turn.Attempt() < 3 {
				return engine.Retry(errors.New("again"))
			}
			return nil
		}})
		task := sendWait(t, e, message("m"))
		for task.Status.State != a2a.StateCompleted {
			task = waitFinal(t, e, task.Key.ID)
		}
		var chunks int
		for _, event := range checkLog(t, s, task.Key) {
			if event.Artifact != nil && len(fileref.Refs(nil, event.Artifact.Parts)) > 0 {
				chunks++
			}
		}
		if chunks > 3 { // two of the first attempt, and one that replaces them
			t.Errorf("the log has %d chunks with files, want the chunks of the first attempt and a replacement", chunks)
		}
		parts := task.Artifacts[0].Parts
		if len(parts) != 2 {
			t.Fatalf("the artifact has %d parts, want 2", len(parts))
		}
		for i, want := range [][]byte{a, c} {
			ref, ok := fileref.Of(parts[i].(a2a.FilePart).File)
			if got, err := e.Files().Read(t.Context(), alice.ID, ref); !ok || err != nil || !bytes.Equal(got, want) {
				t.Errorf("file %d = %d bytes, %v, want the file of the final attempt", i, len(got), err)
			}
		}
	})
}

func TestHandlersCannotWriteReferencesToUnknownFiles(t *testing.T) {
	t.Parallel()
	s := inmem.New()
	e := start(t, engine.Config{Store: s, Handler: func(_ context.Context, turn *engine.Turn) error {
		for _, uri := range []string{"holdfast-blob:", "holdfast-blob:x", "holdfast-blob:x?size=1&sha256=" + strings.Repeat("0", 64), turn.Messages()[0].Text()} {
			part := a2a.FilePart{File: a2a.FileWithURI{URI: uri}}
			if err := turn.AddArtifact(a2a.Artifact{Name: "a", Parts: []a2a.Part{part}}); a2a.CodeOf(err) != a2a.CodeInvalid {
				return fmt.Errorf("AddArtifact(%s) = %w, want invalid", uri, err)
			}
			var o *engine.Outcome
			if err := turn.Reply(part); errors.As(err, &o) {
				return fmt.Errorf("Reply(%s) succeeded", uri)
			}
		}
		return nil
	}})
	file, err := e.Files().Upload(t.Context(), store.Key{Owner: "bob", ID: "task"}, "f", "", bytes.NewReader(fileContent(1, 100_000)))
	if err != nil {
		t.Fatal(err)
	}
	wantState(t, sendWait(t, e, message(file.(a2a.FileWithURI).URI)), a2a.StateCompleted)
}

// noBlobs is a store without blobs.
type noBlobs struct{ store.Store }

func TestWithoutBlobsFilesStayInTheTask(t *testing.T) {
	t.Parallel()
	s := noBlobs{inmem.New()}
	data := fileContent(1, 200_000)
	e := start(t, engine.Config{Store: s, Handler: func(ctx context.Context, turn *engine.Turn) error {
		return turn.Artifact("a").WriteFile(ctx, "f", "", bytes.NewReader(data))
	}})
	task := sendWait(t, e, messageWith("m", filePart("f", data)))
	wantState(t, task, a2a.StateCompleted)
	for _, p := range []a2a.Part{task.History[0].Message.Parts[1], task.Artifacts[0].Parts[0]} {
		if f, ok := p.(a2a.FilePart).File.(a2a.FileWithBytes); !ok || !bytes.Equal(f.Bytes, data) {
			t.Errorf("file is %T, want its content", p.(a2a.FilePart).File)
		}
	}
}

// If the task of a blob was not committed, the blob is not pinned, so it expires. The commit may
// have failed, or the process may have been killed before the commit.
func TestFilesOfMessagesThatAreNotStoredExpire(t *testing.T) {
	t.Parallel()
	base := inmem.New()
	var fail atomic.Bool
	fail.Store(true)
	s := storetest.Intercept(base, func(ctx context.Context, c storetest.Call, do func(context.Context) error) error {
		if c.Method == "Commit" && fail.Load() {
			return a2a.Errorf(a2a.CodeUnavailable, "down")
		}
		return do(ctx)
	})
	e := start(t, engine.Config{
		Store: s, Handler: func(context.Context, *engine.Turn) error { return nil },
	})
	p := messageWith("m", filePart("f", fileContent(1, 100_000)))
	if _, err := e.Send(t.Context(), alice, p, engine.SendOptions{}); err == nil {
		t.Fatal("Send() succeeded")
	}
	if blobs := blobsOf(t, e); len(blobs) != 1 || len(blobs[0].Holders) != 0 || blobs[0].Expires.IsZero() {
		t.Errorf("blobs are %+v, want one that expires", blobs)
	}
	fail.Store(false)
	wantState(t, sendWait(t, e, p), a2a.StateCompleted)
}

// killedBeforeCommit is set in the environment of the child process of the next test.
const killedBeforeCommit = "HOLDFAST_TEST_KILLED_BEFORE_COMMIT"

func TestKillBetweenUploadAndCommitLosesNoFile(t *testing.T) {
	t.Parallel()
	p := messageWith("m", filePart("f", fileContent(1, 200_000)))
	if dir := os.Getenv(killedBeforeCommit); dir != "" {
		sendUntilKilled(t, dir, p)
		return
	}
	dir := t.TempDir()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKillBetweenUploadAndCommitLosesNoFile$")
	child.Env = append(os.Environ(), killedBeforeCommit+"="+dir)
	if out, err := child.CombinedOutput(); err == nil || !strings.Contains(string(out), "uploaded") {
		t.Fatalf("the child ended with %v: %s", err, out)
	}
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	e := start(t, engine.Config{Store: s, Handler: func(_ context.Context, turn *engine.Turn) error {
		if f, ok := turn.Messages()[0].Files()[0].File.(a2a.FileWithBytes); !ok || len(f.Bytes) != 200_000 {
			return errors.New("the file is incomplete")
		}
		return nil
	}})
	if blobs := blobsOf(t, e); len(blobs) != 1 || len(blobs[0].Holders) != 0 || blobs[0].Expires.IsZero() {
		t.Errorf("blobs after the kill are %+v, want one that expires", blobs)
	}
	task := sendWait(t, e, p)
	wantState(t, task, a2a.StateCompleted)
	pinned := 0
	for _, b := range blobsOf(t, e) {
		pinned += len(b.Holders)
	}
	if pinned != 1 {
		t.Errorf("%d pins, want only the pin of the task", pinned)
	}
}

// sendUntilKilled sends a message in a process that kills itself before the message is committed.
func sendUntilKilled(t *testing.T, dir string, p a2a.MessageSendParams) {
	base, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	s := storetest.Intercept(base, func(ctx context.Context, c storetest.Call, do func(context.Context) error) error {
		if c.Method == "Commit" {
			fmt.Println("uploaded")
			if self, err := os.FindProcess(os.Getpid()); err == nil {
				_ = self.Kill()
			}
			select {}
		}
		return do(ctx)
	})
	e := start(t, engine.Config{
		Store: s, Handler: func(context.Context, *engine.Turn) error { return nil },
	})
	_, _ = e.Send(t.Context(), alice, p, engine.SendOptions{})
}

// Blobs may be in another store than tasks.
func TestFilesInAnotherStoreArePinned(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Config{
		Contracts: engine.Contracts{Stores: []contract.Store{blobs.Of(blobsql.Of(inmem.New(), blob.Config{}))}},
		Handler: func(ctx context.Context, turn *engine.Turn) error {
			return turn.Artifact("a").WriteFile(ctx, "g", "", bytes.NewReader(fileContent(2, 100_000)))
		},
	})
	for range 2 {
		task := sendWait(t, e, messageWith("m", filePart("f", fileContent(1, 100_000))))
		wantState(t, task, a2a.StateCompleted)
		pinned := 0
		for _, b := range blobsOf(t, e) {
			if len(b.Holders) == 1 && b.Holders[0] == "task/"+task.Key.ID {
				pinned++
			}
		}
		if pinned != 2 {
			t.Errorf("the task has pinned %d blobs, want 2", pinned)
		}
	}
}

// A message that the store rejects leaves no pins in a separate store of blobs. A message that is
// sent again keeps the pins of its task.
func TestRejectedMessageUnpinsItsFiles(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		e := start(t, engine.Config{Store: s, Contracts: engine.Contracts{Stores: []contract.Store{blobs.Of(blobsql.Of(inmem.New(), blob.Config{}))}}, Handler: replyHandler})
		closed := newContext(t, e, a2a.CreateContextParams{})
		if err := setStatus(t.Context(), e, closed.Key.ID, a2a.ContextPaused, false); err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			m := messageWith("m", filePart("f", fileContent(byte(i), 100_000)))
			m.Message.ContextID = closed.Key.ID
			if i == 1 { // the client chooses the id of the task
				m.Message.TaskID = newID()
			}
			if _, err := e.Send(t.Context(), alice, m, engine.SendOptions{}); a2a.CodeOf(err) != a2a.CodeContextNotCancelable {
				t.Fatalf("Send() to a paused context = %v, want an error", err)
			}
		}
		blobs := blobsOf(t, e)
		for _, b := range blobs {
			if len(b.Holders) > 0 || b.Expires.IsZero() {
				t.Errorf("the blob of a rejected message is held by %q and expires at %v", b.Holders, b.Expires)
			}
		}
		if len(blobs) != 2 {
			t.Errorf("there are %d blobs, want the blobs of both messages", len(blobs))
		}
		if err := setStatus(t.Context(), e, closed.Key.ID, a2a.ContextActive, false); err != nil {
			t.Fatal(err)
		}
		m := messageWith("m", filePart("f", fileContent(2, 100_000)))
		m.Message.ContextID, m.Message.TaskID = closed.Key.ID, newID()
		var sends sync.WaitGroup
		for range 4 {
			sends.Go(func() {
				if _, err := e.Send(t.Context(), alice, m, engine.SendOptions{Wait: true}); err != nil {
					t.Errorf("Send() = %v", err)
				}
			})
		}
		sends.Wait()
		i := slices.IndexFunc(blobsOf(t, e), func(b blob.Info) bool { return b.Digest == blob.Sum(fileContent(2, 100_000)) })
		if i < 0 || !slices.Equal(blobsOf(t, e)[i].Holders, []string{"task/" + m.Message.TaskID}) {
			t.Errorf("the blob of the task is not held by it")
		}
	})
}
