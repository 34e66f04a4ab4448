package transfer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/fileref"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobsql"
	"github.com/holdfast-dev/holdfast/store/contract"
)

// Page sizes of reads from the store.
const (
	taskPage     = 100
	eventPage    = 256
	feedbackPage = 100
	contextPage  = 100
	recordPage   = 16
)

// maxReusedBuffer is the largest line buffer that is reused, in bytes.
const maxReusedBuffer = 1 << 20

// Export writes a context with all its tasks to w as one document. A server may use the store
// at the same time: each task is exported in its state at the time of reading. If Export
// returns an error, the output is incomplete. It returns context_not_found and the errors of
// the store and of w.
func Export(ctx context.Context, w io.Writer, s Source, key store.ContextKey) (Report, error) {
	e := newExporter(s, w)
	err := e.context(ctx, key)
	return e.report, err
}

// ExportAll writes a document for every context of an owner to w, the oldest context first, and then
// one for the owner's records; see [Export]. It skips a context that is deleted before it is read, and returns an error if one
// is deleted while it is being written.
func ExportAll(ctx context.Context, w io.Writer, s Source, owner string) (Report, error) {
	e := newExporter(s, w)
	q := store.ContextQuery{Owner: owner, Sort: store.ContextsByCreated, Ascending: true, Limit: contextPage}
	for {
		page, err := s.Contexts(ctx, q)
		if err != nil {
			return e.report, err
		}
		for i := range page.Contexts {
			err := e.context(ctx, page.Contexts[i].Key)
			if err != nil && !errors.Is(err, a2a.ErrContextNotFound) {
				return e.report, err
			}
		}
		if q.Cursor = page.Next; q.Cursor == nil {
			return e.report, e.records(ctx, owner)
		}
	}
}

// records writes a document of the owner's records, if there are any.
func (e *exporter) records(ctx context.Context, owner string) error {
	e.start(store.ContextKey{Owner: owner})
	q := store.RecordQuery{Owner: owner, Limit: recordPage}
	for {
		page, err := e.store.Records(ctx, q)
		if err != nil || len(page.Records) == 0 && len(e.lines) == 0 {
			return err
		}
		if len(e.lines) == 0 {
			if err := errors.Join(e.head(), e.line(typeRecords, &recordsLine{Owner: owner})); err != nil {
				return err
			}
		}
		for i := range page.Records {
			r := &page.Records[i]
			if err := e.line(typeRecord, &recordLine{Namespace: r.Key.Namespace, Key: r.Key.Key, Value: r.Value, Expires: r.Expires}); err != nil {
				return err
			}
			q.After = r.Key
		}
		if !page.More {
			return e.end()
		}
	}
}

// maxFile is the maximum size of a file that an export contains, so that an import can read its
// line.
const maxFile = 256 << 20

// WithFiles returns a source with the files of its tasks in another store of blobs.
func WithFiles(s Source, files blob.Store) Source { return sourceWithFiles{s, files} }

type sourceWithFiles struct {
	Source
	files blob.Store
}

// newExporter returns an exporter. A source that stores files as blobs has a database with them, or is a
// result of WithFiles.
func newExporter(s Source, w io.Writer) *exporter {
	e := &exporter{store: s, out: w}
	if b, ok := s.(sourceWithFiles); ok {
		e.files = fileref.New(fileref.Config{Blobs: b.files})
	} else if b := blobsql.Of(s, blob.Config{}); b != nil {
		e.files = fileref.New(fileref.Config{Blobs: b})
	}
	return e
}

// exporter writes documents to out.
type exporter struct {
	store  Source
	files  *fileref.Files
	out    io.Writer
	kinds  []*contract.Kind // of kept data
	report Report

	// State of the current document.
	key   store.ContextKey
	sum   hash.Hash
	lines contract.Counts // by type, without the first line
	buf   []byte
}

// start starts a document.
func (e *exporter) start(key store.ContextKey) { e.key, e.sum, e.lines = key, sha256.New(), nil }

// head writes the first line of a document.
func (e *exporter) head() error { return e.write(&headLine{Version: Version}) }

// end writes the last line of a document, and adds the document to the report.
func (e *exporter) end() error {
	if err := e.write(&endLine{Lines: e.lines, SHA256: hex.EncodeToString(e.sum.Sum(nil))}); err != nil {
		return err
	}
	e.report.Document.AddAll(itemsOf(e.lines, e.kinds))
	return nil
}

// itemsOf returns the numbers of items in a document with these lines, by the names of their counts.
func itemsOf(lines contract.Counts, kinds []*contract.Kind) (items contract.Counts) {
	for t, name := range counted {
		items.Add(name, lines[string(t)])
	}
	for _, kind := range kinds {
		for i := range kind.Lines {
			if l := &kind.Lines[i]; l.Counts != "" {
				items.Add(l.Counts, lines[l.Name])
			}
		}
	}
	return items
}

// line writes a line of a type.
func (e *exporter) line(t lineType, v any) error {
	e.lines.Add(string(t), 1)
	return e.write(v)
}

// write writes a line and adds it to the checksum.
func (e *exporter) write(v any) (err error) {
	if e.buf, err = wire.Append(e.buf[:0], v); err != nil {
		return a2a.Wrap(a2a.CodeInternal, err, "context %s cannot be written as JSON", a2a.Quote(e.key.ID))
	}
	e.buf = append(e.buf, '\n')
	if len(e.buf) > maxLine {
		return e.tooLarge()
	}
	e.sum.Write(e.buf)
	if _, err = e.out.Write(e.buf); err != nil {
		return fmt.Errorf("write export: %w", err)
	}
	if cap(e.buf) > maxReusedBuffer {
		e.buf = nil // do not keep the buffer of a large task
	}
	return nil
}

// tooLarge returns the error for a line that an import rejects.
func (e *exporter) tooLarge() error {
	return a2a.Errorf(a2a.CodeUnsupported, "context %s cannot be exported: a line would be longer than %d bytes", a2a.Quote(e.key.ID), maxLine)
}

func (e *exporter) context(ctx context.Context, key store.ContextKey) error {
	e.start(key)
	c, err := e.store.Context(ctx, key.Owner, key.ID, 0)
	if errors.Is(err, store.ErrNotFound) {
		return a2a.Errorf(a2a.CodeContextNotFound, "owner %s has no context %s", a2a.Quote(key.Owner), a2a.Quote(key.ID))
	}
	if err != nil {
		return err
	}
	if err := e.head(); err != nil {
		return err
	}
	if err := e.line(typeContext, contextLineOf(&c)); err != nil {
		return err
	}
	if err := e.tasks(ctx); err != nil {
		return err
	}
	if err := e.checkExists(ctx, &c); err != nil {
		return err
	}
	return e.end()
}

// checkExists returns an error if a context was deleted or replaced since c was read. Tasks may
// be missing in the output then.
func (e *exporter) checkExists(ctx context.Context, c *store.Context) error {
	current, err := e.store.Context(ctx, c.Key.Owner, c.Key.ID, 0)
	if errors.Is(err, store.ErrNotFound) || err == nil && !current.CreatedAt.Equal(c.CreatedAt) {
		return e.deleted()
	}
	return err
}

func (e *exporter) deleted() error {
	return a2a.Errorf(a2a.CodeConflict, "context %s was deleted while it was exported", a2a.Quote(e.key.ID))
}

func (e *exporter) tasks(ctx context.Context) error {
	q := store.Query{
		Owner: e.key.Owner, ContextID: e.key.ID, ByCreated: true, Ascending: true, Limit: taskPage,
		Options: store.TaskOptions{Outline: true},
	}
	for {
		page, err := e.store.Tasks(ctx, q)
		if err != nil {
			return err
		}
		for _, t := range page.Tasks {
			err := e.task(ctx, t)
			if errors.Is(err, store.ErrNotFound) {
				return e.deleted()
			}
			if err != nil {
				return fmt.Errorf("task %s: %w", t.Key.ID, err)
			}
		}
		if q.Cursor = page.Next; q.Cursor == nil {
			return nil
		}
	}
}

// task writes the lines of one task; listed is the task as returned by the list.
func (e *exporter) task(ctx context.Context, listed *store.Task) error {
	t, steps, err := e.read(ctx, listed)
	if err != nil {
		return err
	}
	shown, err := e.withFiles(ctx, t)
	if err != nil {
		return err
	}
	head := taskLine{Task: taskView(shown), Events: t.Seq, Run: runState{Turn: t.Queue.Turn, SeenSeq: t.Queue.SeenSeq, StartSeq: t.Queue.StartSeq}}
	if err := e.line(typeTask, &head); err != nil {
		return err
	}
	for i := range steps {
		if err := e.line(typeStep, &stepLine{Name: steps[i].Name, Result: steps[i].Result, Artifacts: steps[i].Artifacts}); err != nil {
			return err
		}
	}
	if err := e.events(ctx, t); err != nil {
		return err
	}
	return e.feedback(ctx, t.Key)
}

// expand returns the function that inserts the content of files into parts. An export is complete
// without the blobs of the store, and an import needs none.
func (e *exporter) expand(ctx context.Context, owner string) func(parts []a2a.Part) ([]a2a.Part, error) {
	return func(parts []a2a.Part) ([]a2a.Part, error) { return e.files.Expand(ctx, owner, maxFile, parts) }
}

// withFiles returns a task with the content of its files.
func (e *exporter) withFiles(ctx context.Context, t *store.Task) (*store.Task, error) {
	if !fileref.TaskContains(t) {
		return t, nil
	}
	if err := e.checkFiles(t); err != nil {
		return nil, err
	}
	return fileref.MapTask(t, e.expand(ctx, t.Key.Owner))
}

// checkFiles returns an error if the files of a task do not fit into a line. It is called before
// files are read.
func (e *exporter) checkFiles(t *store.Task) error {
	var total int64
	for i := range t.History {
		total += fileref.Size(t.History[i].Message.Parts)
	}
	for i := range t.Artifacts {
		total += fileref.Size(t.Artifacts[i].Parts)
	}
	if t.Status.Message != nil {
		total += fileref.Size(t.Status.Message.Parts)
	}
	if total > maxLine/4*3 { // base64
		return e.tooLarge()
	}
	return nil
}

// read returns a task and, if it is unfinished, the steps of its turn. It reads the steps
// first: a step is committed together with the events before it, so a log that is read later
// contains all of these events.
func (e *exporter) read(ctx context.Context, t *store.Task) (_ *store.Task, steps []store.Step, err error) {
	for {
		steps = nil
		before := t.Queue.Turn
		if unfinished(t.Status.State) {
			if steps, err = e.store.Steps(ctx, t.Key, before); err != nil {
				return nil, nil, err
			}
		}
		if t, err = e.store.Task(ctx, t.Key, store.TaskOptions{}); err != nil {
			return nil, nil, err
		}
		switch {
		case !unfinished(t.Status.State):
			return t, nil, nil
		case t.Queue.Turn == before:
			return t, steps, nil
		}
	}
}

// events writes the events of t up to t.Seq. It returns an error if they do not fold to t,
// because Import would reject the document.
func (e *exporter) events(ctx context.Context, t *store.Task) error {
	fold := store.Task{Key: t.Key, ContextID: t.ContextID}
	for fold.Seq < t.Seq {
		events, err := e.store.Events(ctx, t.Key, fold.Seq, int(min(eventPage, t.Seq-fold.Seq)))
		if err != nil {
			return err
		}
		if len(events) == 0 {
			return a2a.Errorf(a2a.CodeInternal, "the store is damaged: the log ends with event %d, want %d", fold.Seq, t.Seq)
		}
		for i := range events {
			event, err := fileref.MapEvent(events[i], e.expand(ctx, t.Key.Owner))
			if err != nil {
				return err
			}
			if err := e.line(typeEvent, &eventLine{Seq: event.Seq, Event: event}); err != nil {
				return err
			}
		}
		fold.Apply(events...)
	}
	got, err := taskJSON(&fold)
	if err != nil {
		return err
	}
	want, err := taskJSON(t)
	if err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return a2a.Errorf(a2a.CodeInternal, "the store is damaged: the task does not match its events")
	}
	return nil
}

func (e *exporter) feedback(ctx context.Context, key store.Key) error {
	q := store.FeedbackQuery{Owner: key.Owner, TaskID: key.ID, Limit: feedbackPage}
	for {
		page, err := e.store.Feedback(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Feedback {
			if err := e.line(typeFeedback, feedbackLineOf(&page.Feedback[i])); err != nil {
				return err
			}
		}
		if q.Cursor = page.Next; q.Cursor == nil {
			return nil
		}
	}
}
