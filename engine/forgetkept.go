package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/vector"
)

func (f *forgetting) transcripts(ctx context.Context) error {
	if f.Contracts.History == nil {
		return nil
	}
	lister, ok := f.Contracts.History.(history.SessionLister)
	if !ok {
		f.note("transcripts were not removed: their store does not list sessions")
		return nil
	}
	for {
		page, err := lister.Sessions(ctx, history.SessionQuery{Owner: f.Owner, Limit: forgetPage})
		if err != nil || len(page.Sessions) == 0 {
			return err
		}
		for i := range page.Sessions {
			s := &page.Sessions[i]
			if err := f.Contracts.History.Clear(ctx, s.Key); err != nil {
				return fmt.Errorf("session %s: %w", s.Key.Session, err)
			}
			f.report.Sessions++
			f.report.Messages += s.Messages
		}
	}
}

func (f *forgetting) facts(ctx context.Context) error {
	if f.Contracts.Facts == nil {
		return nil
	}
	r, err := f.Contracts.Facts.ForgetSubject(ctx, f.Owner)
	f.report.Facts += int64(r.Facts)
	f.report.FactVersions += int64(r.Versions)
	return err
}

func (f *forgetting) documents(ctx context.Context) error {
	forgetter, ok := f.Contracts.Documents.(vector.Forgetter)
	switch {
	case ok:
	case f.Contracts.Documents == nil:
		return nil
	default:
		f.note("documents were not removed: their store cannot remove those of a principal")
		return nil
	}
	n, err := forgetter.ForgetOwner(ctx, f.Owner)
	if a2a.CodeOf(err) == a2a.CodeUnsupported { // the database has no documents
		return nil
	}
	f.report.Documents += int64(n)
	return err
}

func (f *forgetting) graphs(ctx context.Context) error {
	forgetter, ok := f.Contracts.Graphs.(graph.Forgetter)
	switch {
	case ok:
	case f.Contracts.Graphs == nil:
		return nil
	default:
		f.note("graphs were not removed: their store cannot remove those of a principal")
		return nil
	}
	r, err := forgetter.ForgetOwner(ctx, f.Owner)
	f.report.Entities += int64(r.Entities)
	f.report.Relationships += int64(r.Relationships)
	return err
}

func (f *forgetting) blobs(ctx context.Context) error {
	if f.Contracts.Blobs == nil {
		return nil
	}
	for {
		page, err := f.Contracts.Blobs.List(ctx, blob.ListParams{Owner: f.Owner, Limit: forgetPage})
		if err != nil || len(page.Blobs) == 0 {
			return err
		}
		for i := range page.Blobs {
			b := &page.Blobs[i]
			switch err := f.Contracts.Blobs.Delete(ctx, f.Owner, b.Ref); {
			case err == nil:
				f.report.Blobs++
				f.report.BlobBytes += b.Size
			case !errors.Is(err, blob.ErrNotFound):
				return fmt.Errorf("blob %s: %w", b.Ref, err)
			}
		}
	}
}
