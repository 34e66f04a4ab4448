package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/vector"
)

const (
	keptPage = 100
	// chunkSize is the number of bytes of a blob per line.
	chunkSize = 192 << 10
)

// ExportKept writes a document with the transcripts, facts, documents, graphs, blobs and states of an owner
// to w, if there are any. Servers may use the stores at the same time: sessions that are written to
// meanwhile may be missing. Notes of the report are about stores that cannot list their data.
func ExportKept(ctx context.Context, w io.Writer, k Kept, owner string) (Report, error) {
	e := &keptExporter{exporter: &exporter{out: w, key: store.ContextKey{Owner: owner}, sum: sha256.New()}, kept: k, owner: owner}
	for _, part := range []func(context.Context) error{e.transcripts, e.facts, e.documents, e.graphs, e.blobs, e.states} {
		if err := part(ctx); err != nil {
			return e.report, err
		}
	}
	if !e.started {
		return e.report, nil
	}
	e.report.Document.add(Counts{
		Sessions: e.end.Sessions, Messages: e.end.Messages, Facts: e.end.Facts, Documents: e.end.Documents,
		Entities: e.end.Entities, Relationships: e.end.Relationships, Blobs: e.end.Blobs, States: e.end.States,
	})
	e.end.SHA256 = hex.EncodeToString(e.sum.Sum(nil))
	return e.report, e.line(&e.end)
}

// keptExporter writes one document.
type keptExporter struct {
	*exporter
	kept    Kept
	owner   string
	started bool
}

// write writes a line, and the start of the document before the first one.
func (e *keptExporter) write(v any) error {
	if !e.started {
		e.started = true
		if err := errors.Join(e.line(&headLine{Version: Version}), e.line(&keptHeadLine{Owner: e.owner})); err != nil {
			return err
		}
	}
	return e.line(v)
}

func (e *keptExporter) note(text string) { e.report.Notes = append(e.report.Notes, text) }

func (e *keptExporter) transcripts(ctx context.Context) error {
	if e.kept.History == nil {
		return nil
	}
	lister, ok := e.kept.History.(history.SessionLister)
	if !ok {
		e.note("transcripts are not exported: their store does not list sessions")
		return nil
	}
	for q := (history.SessionQuery{Owner: e.owner, Limit: keptPage}); ; {
		page, err := lister.Sessions(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Sessions {
			if err := e.session(ctx, &page.Sessions[i]); err != nil {
				return fmt.Errorf("session %s: %w", page.Sessions[i].Key.Session, err)
			}
		}
		if q.Next = page.Next; q.Next == nil {
			return nil
		}
	}
}

// session writes a session with its messages, if it has any.
func (e *keptExporter) session(ctx context.Context, s *history.Session) error {
	n := int64(0)
	for m, err := range history.All(ctx, e.kept.History, s.Key, 0) {
		if err != nil {
			return err
		}
		if n == 0 {
			if err := e.write(&sessionLine{Agent: s.Key.Agent, Session: s.Key.Session, CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt, ExpiresAt: s.ExpiresAt}); err != nil {
				return err
			}
			e.end.Sessions++
		}
		if err := e.write(messageLineOf(&m)); err != nil {
			return err
		}
		n++
	}
	e.end.Messages += n
	return nil
}

func (e *keptExporter) facts(ctx context.Context) error {
	if e.kept.Facts == nil {
		return nil
	}
	lister, ok := e.kept.Facts.(memory.Lister)
	if !ok {
		e.note("facts are not exported: their store does not list them")
		return nil
	}
	for q := (memory.FactQuery{Owner: e.owner, Limit: keptPage}); ; {
		page, err := lister.Facts(ctx, q)
		if err != nil {
			return err
		}
		for _, m := range page.Facts {
			q.After = m
			versions, err := e.kept.Facts.History(ctx, m.Scope, m.ID)
			if errors.Is(err, memory.ErrFactNotFound) {
				continue // deleted meanwhile
			}
			if err == nil {
				err = e.write(factLineOf(versions))
			}
			if err != nil {
				return err
			}
			e.end.Facts++
		}
		if !page.More {
			return nil
		}
	}
}

func (e *keptExporter) documents(ctx context.Context) error {
	if e.kept.Documents == nil {
		return nil
	}
	collections, err := e.kept.Documents.Collections(ctx, e.owner)
	if err != nil || len(collections) == 0 {
		if a2a.CodeOf(err) == a2a.CodeUnsupported { // the database has no documents
			return nil
		}
		return err
	}
	lister, ok := e.kept.Documents.(vector.Lister)
	if !ok {
		e.note("documents are not exported: their store does not list them")
		return nil
	}
	for i := range collections {
		if err := e.collection(ctx, lister, &collections[i]); err != nil && !errors.Is(err, vector.ErrCollectionNotFound) { // deleted meanwhile
			return fmt.Errorf("collection %s: %w", collections[i].Name, err)
		}
	}
	return nil
}

// collection writes the documents of a collection.
func (e *keptExporter) collection(ctx context.Context, lister vector.Lister, c *vector.Collection) error {
	for p := (vector.ListParams{Limit: keptPage}); ; {
		page, err := lister.List(ctx, vector.Key{Owner: e.owner, Collection: c.Name}, p)
		if err != nil || len(page) == 0 {
			return err
		}
		for i := range page {
			p.After = page[i].ID
			if err := e.write(documentLineOf(c, &page[i])); err != nil {
				return err
			}
			e.end.Documents++
		}
	}
}

func (e *keptExporter) blobs(ctx context.Context) error {
	if e.kept.Blobs == nil {
		return nil
	}
	for p := (blob.ListParams{Owner: e.owner, Limit: keptPage}); ; {
		page, err := e.kept.Blobs.List(ctx, p)
		if err != nil {
			return err
		}
		for i := range page.Blobs {
			p.After = page.Blobs[i].Ref
			if err := e.blob(ctx, p.After); err != nil && !errors.Is(err, blob.ErrNotFound) { // deleted meanwhile
				return fmt.Errorf("blob %s: %w", p.After, err)
			}
		}
		if !page.More {
			return nil
		}
	}
}

// blob writes a blob with its content.
func (e *keptExporter) blob(ctx context.Context, ref string) error {
	r, info, err := e.kept.Blobs.Open(ctx, e.owner, ref)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	if err := e.write(blobLineOf(&info)); err != nil {
		return err
	}
	e.end.Blobs++
	for buf := make([]byte, min(info.Size, chunkSize)); ; {
		n, err := io.ReadFull(r, buf)
		if n > 0 {
			if err := e.write(&chunkLine{Data: buf[:n]}); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), len(buf) == 0:
			return nil
		case err != nil:
			return fmt.Errorf("read content: %w", err)
		}
	}
}

func (e *keptExporter) states(ctx context.Context) error {
	if e.kept.State == nil {
		return nil
	}
	lister, ok := e.kept.State.(memory.StateLister)
	if !ok {
		e.note("session states are not exported: their store does not list them")
		return nil
	}
	for q := (memory.StateQuery{Owner: e.owner, Limit: memory.MaxLimit}); ; {
		page, err := lister.States(ctx, q)
		if err != nil {
			return err
		}
		for _, key := range page.Keys {
			q.After = key
			state, err := e.kept.State.Get(ctx, key)
			if err != nil {
				return err
			}
			if state.Version == 0 {
				continue // cleared meanwhile
			}
			if err := e.write(&stateLine{Agent: key.Agent, Session: key.Session, Values: state.Values}); err != nil {
				return err
			}
			e.end.States++
		}
		if !page.More {
			return nil
		}
	}
}
