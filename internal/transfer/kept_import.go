package transfer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/vector"
)

// Limits of the messages that are restored at once.
const (
	restoreMessages  = 500
	restoreBytes     = 2 << 20
	restoreDocuments = 100
)

// keptImport is the state of an importer in a document with kept data.
type keptImport struct {
	owner   string
	session history.Session
	// newest is the newest message that the session had before, 0 if it did not exist. known are
	// such messages to compare next.
	newest  int64
	known   []history.Message
	skip    bool // the session or the blob is not imported
	pending []history.Message
	size    int // of pending, in bytes
	upload  *upload
	// documents are the documents of one collection to compare or to add next.
	documents []*keptDocument
	graph     graphBatch
}

// upload is a blob that is being restored.
type upload struct {
	ref  string
	w    *io.PipeWriter
	done chan error
}

// kept implements sink.
func (m *importer) kept(ctx context.Context, owner string, item keptItem) error {
	if m.opts.Owner != "" {
		owner = m.opts.Owner
	}
	if item.message == nil {
		if err := m.flushMessages(ctx); err != nil {
			return err
		}
	}
	if item.document == nil || len(m.now.documents) == restoreDocuments || len(m.now.documents) > 0 && m.now.documents[0].collection.Name != item.document.collection.Name {
		if err := m.flushDocuments(ctx, owner); err != nil {
			return err
		}
	}
	if item.graph == nil {
		if err := m.flushGraph(ctx, owner); err != nil {
			return err
		}
	}
	if item.chunk == nil {
		if err := m.endUpload(); err != nil {
			return err
		}
	}
	switch {
	case item.session != nil:
		return m.keptSession(ctx, owner, *item.session)
	case item.message != nil:
		return m.keptMessage(ctx, *item.message)
	case item.fact != nil:
		return m.keptFact(ctx, owner, item.fact)
	case item.document != nil:
		m.report.Document.Documents++
		m.now.documents = append(m.now.documents, item.document)
		return nil
	case item.graph != nil:
		return m.keptGraph(ctx, owner, item.graph)
	case item.blob != nil:
		return m.keptBlob(ctx, owner, *item.blob)
	case item.chunk != nil:
		return m.keptChunk(item.chunk)
	case item.state != nil:
		return m.keptState(ctx, owner, *item.state)
	}
	m.saved = store.Context{Key: store.ContextKey{Owner: owner, ID: keptID}}
	m.now = keptImport{owner: owner}
	return nil
}

// endKept ends a document with kept data.
func (m *importer) endKept(ctx context.Context) error {
	return errors.Join(m.flushMessages(ctx), m.flushDocuments(ctx, m.saved.Key.Owner), m.flushGraph(ctx, m.saved.Key.Owner), m.endUpload())
}

// lacks returns the error for data that the target has no store for.
func lacks(what string) error {
	return a2a.Errorf(a2a.CodeUnsupported, "the input has %s, and the target has no store into which they can be imported", what)
}

func (m *importer) keptSession(ctx context.Context, owner string, s history.Session) error {
	s.Key.Owner = owner
	m.now.session, m.now.newest, m.now.known, m.now.skip = s, 0, nil, false
	lister, ok := m.opts.Kept.History.(history.SessionLister)
	if !ok {
		return lacks("transcripts")
	}
	m.report.Document.Sessions++
	existing, err := lister.Session(ctx, s.Key)
	switch {
	case errors.Is(err, history.ErrNotFound):
		if m.write {
			m.report.Written.Sessions++
		}
		return nil
	case err != nil:
		return err
	}
	m.now.newest = existing.Newest
	if _, ok := m.opts.Kept.History.(history.Restorer); !ok {
		m.now.skip = true
		if m.write {
			m.note("session %s of agent %s exists and was left as it is", a2a.Quote(s.Key.Session), a2a.Quote(s.Key.Agent))
		}
	}
	return nil
}

func (m *importer) keptMessage(ctx context.Context, msg history.Message) error {
	m.report.Document.Messages++
	switch {
	case m.now.skip:
		return nil
	case msg.Seq <= m.now.newest:
		return m.compareMessage(ctx, msg)
	case !m.write:
		return nil
	}
	m.now.pending = append(m.now.pending, msg)
	if m.now.size += len(msg.Body); len(m.now.pending) < restoreMessages && m.now.size < restoreBytes {
		return nil
	}
	return m.flushMessages(ctx)
}

// compareMessage reports a conflict if the existing session differs from the document's.
func (m *importer) compareMessage(ctx context.Context, msg history.Message) error {
	if m.firstConflict != nil {
		return nil
	}
	if len(m.now.known) == 0 {
		page, err := m.opts.Kept.History.Page(ctx, m.now.session.Key, history.After(msg.Seq-1, keptPage))
		if err != nil {
			return err
		}
		m.now.known = page.Messages
	}
	if len(m.now.known) > 0 {
		known := m.now.known[0]
		m.now.known = m.now.known[1:]
		if equalLines(messageLineOf(&known), messageLineOf(&msg)) {
			return nil
		}
	}
	return m.conflict("session %s of agent %s exists and differs from the document at message %d",
		a2a.Quote(m.now.session.Key.Session), a2a.Quote(m.now.session.Key.Agent), msg.Seq)
}

// equalLines reports whether two lines have the same encoding.
func equalLines(a, b any) bool {
	x, errX := wire.Marshal(a)
	y, errY := wire.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// flushMessages adds the collected messages to their session.
func (m *importer) flushMessages(ctx context.Context) error {
	messages := m.now.pending
	if len(messages) == 0 {
		return nil
	}
	m.now.pending, m.now.size = nil, 0
	var err error
	if r, ok := m.opts.Kept.History.(history.Restorer); ok {
		err = r.Restore(ctx, m.now.session, messages)
	} else {
		err = m.appendMessages(ctx, messages)
	}
	if err != nil {
		return fmt.Errorf("session %s: %w", m.now.session.Key.Session, err)
	}
	m.report.Written.Messages += int64(len(messages))
	return nil
}

// appendMessages adds messages to a session of a store that assigns their sequences.
func (m *importer) appendMessages(ctx context.Context, messages []history.Message) error {
	renumbered := false
	err := history.Batches(messages, func(part []history.Message) error {
		ttl := m.now.session.TTL()
		if ttl == 0 {
			ttl = history.NoTTL
		}
		r, err := m.opts.Kept.History.Append(ctx, m.now.session.Key, history.AppendParams{Messages: part, Run: part[0].Run, TTL: ttl})
		renumbered = renumbered || err == nil && r.First != part[0].Seq
		return err
	})
	if renumbered {
		m.note("messages of session %s of agent %s have other sequences than in the document", a2a.Quote(m.now.session.Key.Session), a2a.Quote(m.now.session.Key.Agent))
	}
	return err
}

func (m *importer) keptFact(ctx context.Context, owner string, versions []memory.Memory) error {
	for i := range versions {
		versions[i].Scope.Owner = owner
	}
	m.report.Document.Facts++
	first := &versions[0]
	restorer, ok := m.opts.Kept.Facts.(memory.Restorer)
	if !ok {
		return lacks("facts")
	}
	if at := first.ExpiresAt; !at.IsZero() && !at.After(m.opts.Now()) {
		return nil // it does not exist any more
	}
	existing, err := m.opts.Kept.Facts.History(ctx, first.Scope, first.ID)
	switch {
	case err == nil && !equalLines(factLineOf(existing), factLineOf(versions)):
		return m.conflict("fact %s of agent %s exists and differs from the document", a2a.Quote(first.ID), a2a.Quote(first.Scope.Agent))
	case err == nil:
		return nil
	case !errors.Is(err, memory.ErrFactNotFound):
		return err
	}
	restore := restorer.CanRestore
	if m.write {
		restore = restorer.Restore
	}
	err = restore(ctx, versions)
	if errors.Is(err, memory.ErrFactConflict) {
		return m.conflict("another fact of agent %s has the key %s", a2a.Quote(first.Scope.Agent), a2a.Quote(first.Key))
	}
	if err == nil && m.write {
		m.report.Written.Facts++
	}
	return err
}

// flushDocuments adds the documents that do not exist.
func (m *importer) flushDocuments(ctx context.Context, owner string) error {
	all := m.now.documents
	if m.now.documents = nil; len(all) == 0 {
		return nil
	}
	s := m.opts.Kept.Documents
	if s == nil {
		return lacks("documents")
	}
	k := vector.Key{Owner: owner, Collection: all[0].collection.Name}
	ids := make([]string, len(all))
	for i, d := range all {
		ids[i] = d.ID
	}
	known, err := s.Get(ctx, k, ids)
	if err != nil && !errors.Is(err, vector.ErrCollectionNotFound) {
		return err
	}
	existing := make(map[string]*vector.Document, len(known))
	for i := range known {
		existing[known[i].ID] = &known[i]
	}
	var missing []vector.Document
	for _, d := range all {
		e := existing[d.ID]
		if e == nil {
			missing = append(missing, d.Document)
		} else if !equalLines(documentLineOf(&d.collection, e), documentLineOf(&d.collection, &d.Document)) {
			return m.conflict("document %s of collection %s exists and differs from the document", a2a.Quote(d.ID), a2a.Quote(k.Collection))
		}
	}
	if len(missing) == 0 || !m.write {
		return m.fits(ctx, k, all[0])
	}
	if _, err := s.Add(ctx, k, all[0].write(missing...)); err != nil {
		return fmt.Errorf("collection %s: %w", a2a.Quote(k.Collection), err)
	}
	m.report.Written.Documents += int64(len(missing))
	return nil
}

// fits reports a conflict if the collection of a document exists with other settings.
func (m *importer) fits(ctx context.Context, k vector.Key, d *keptDocument) error {
	all, err := m.opts.Kept.Documents.Collections(ctx, k.Owner)
	if err != nil {
		return err
	}
	for _, c := range all {
		if c.Name == k.Collection && (c.Metric != d.collection.Metric || c.Dimension != d.collection.Dimension || c.Embedder != d.collection.Embedder) {
			return m.conflict("collection %s exists with another metric, dimension or embedder", a2a.Quote(k.Collection))
		}
	}
	return nil
}

func (m *importer) keptBlob(ctx context.Context, owner string, b blob.Info) error {
	m.report.Document.Blobs++
	restorer, ok := m.opts.Kept.Blobs.(blob.Restorer)
	if !ok {
		return lacks("blobs")
	}
	existing, err := m.opts.Kept.Blobs.Stat(ctx, owner, b.Ref)
	switch {
	case err == nil && existing.Digest != b.Digest:
		return m.conflict("blob %s exists with other content", b.Ref)
	case err == nil || !m.write && errors.Is(err, blob.ErrNotFound):
		return nil
	case !errors.Is(err, blob.ErrNotFound):
		return err
	}
	if err := m.dropHolders(ctx, owner, &b); err != nil {
		return err
	}
	r, w := io.Pipe()
	u := &upload{ref: b.Ref, w: w, done: make(chan error, 1)}
	go func() {
		err := restorer.Restore(ctx, owner, b, r)
		_ = r.CloseWithError(errors.Join(io.ErrClosedPipe, err))
		u.done <- err
	}()
	m.now.upload = u
	return nil
}

// dropHolders removes the holders that are tasks which the target does not have: nothing would ever
// unpin the blob. Without another holder it expires after its TTL.
func (m *importer) dropHolders(ctx context.Context, owner string, b *blob.Info) error {
	var kept []string
	for _, holder := range b.Holders {
		exists, err := m.holds(ctx, owner, holder)
		if err != nil {
			return err
		}
		if exists {
			kept = append(kept, holder)
		}
	}
	if len(b.Holders) > 0 && len(kept) == 0 {
		b.Expires = m.opts.Now().Add(b.TTL)
	}
	b.Holders = kept
	return nil
}

// holds reports whether a holder is not a task or is a task of the target. The holder of a task is
// task/ID or task/ID/CREATED.
func (m *importer) holds(ctx context.Context, owner, holder string) (bool, error) {
	id, ok := strings.CutPrefix(holder, "task/")
	if !ok {
		return true, nil
	}
	for {
		_, err := m.store.Task(ctx, store.Key{Owner: owner, ID: id}, store.TaskOptions{Outline: true})
		if !errors.Is(err, store.ErrNotFound) {
			return err == nil, err
		}
		slash := strings.LastIndexByte(id, '/')
		if slash < 0 {
			return false, nil
		}
		id = id[:slash]
	}
}

func (m *importer) keptChunk(data []byte) error {
	if m.now.upload == nil {
		return nil
	}
	if _, err := m.now.upload.w.Write(data); err != nil && !errors.Is(err, io.ErrClosedPipe) { // endUpload returns its error
		return err
	}
	return nil
}

// endUpload waits for the blob that is being restored.
func (m *importer) endUpload() error {
	u := m.now.upload
	if u == nil {
		return nil
	}
	m.now.upload = nil
	_ = u.w.Close()
	if err := <-u.done; err != nil {
		return fmt.Errorf("blob %s: %w", u.ref, err)
	}
	m.report.Written.Blobs++
	return nil
}

// errAborted ends the content of a blob after its import failed.
var errAborted = errors.New("import failed")

// abort ends the restore of a blob after err, and returns err.
func (m *importer) abort(err error) error {
	u := m.now.upload
	if u == nil {
		return err
	}
	_ = u.w.CloseWithError(errAborted)
	if uerr := <-u.done; err == nil {
		err = uerr
	}
	return err
}

func (m *importer) keptState(ctx context.Context, owner string, s keptState) error {
	s.key.Owner = owner
	if m.opts.Kept.State == nil { // states are records of the store of tasks
		key, err := s.key.RecordKey()
		if err != nil {
			return err
		}
		value, err := json.Marshal(s.values)
		if err != nil {
			return err
		}
		return m.saveRecord(ctx, owner, store.RecordChange{Namespace: key.Namespace, Key: key.Key, Value: value})
	}
	m.report.Document.States++
	existing, err := m.opts.Kept.State.Get(ctx, s.key)
	switch {
	case err != nil:
		return err
	case existing.Version > 0 && !equalLines(&stateLine{Values: existing.Values}, &stateLine{Values: s.values}):
		return m.conflict("the state of session %s of agent %s exists with other values", a2a.Quote(s.key.Session), a2a.Quote(s.key.Agent))
	case existing.Version > 0 || !m.write:
		return nil
	}
	if _, err := m.opts.Kept.State.Set(ctx, s.key, s.values, 0); err != nil {
		return fmt.Errorf("state of session %s: %w", s.key.Session, err)
	}
	m.report.Written.States++
	return nil
}
