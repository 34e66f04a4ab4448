package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/contract"
	storefilter "github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/vector"
	"github.com/holdfast-dev/holdfast/store/vector/documents"
)

// texts returns a write of documents with texts.
func texts(all ...string) (p vector.WriteParams) {
	for _, text := range all {
		id, text, _ := strings.Cut(text, ": ")
		p.Documents = append(p.Documents, vector.Document{ID: id, Text: text, Metadata: map[string]any{"n": len(text)}})
	}
	return p
}

// onDocuments runs a turn in a new store and returns the task.
func onDocuments(t *testing.T, c engine.Contracts, h engine.Handler) (*inmem.Store, *store.Task) {
	t.Helper()
	s := inmem.New()
	e := start(t, engine.Config{Store: s, Contracts: c, Handler: h, Turns: engine.Turns{MaxAttempts: 3, RetryDelay: time.Millisecond, FlushInterval: time.Hour}})
	return s, sendIn(t, e, newID())
}

func TestDocumentsOfATurn(t *testing.T) {
	t.Parallel()
	attempts := 0
	_, task := onDocuments(t, engine.Contracts{}, func(ctx context.Context, turn *engine.Turn) error {
		attempts++
		d := documents.For(turn.Contracts(), "manual")
		if _, err := d.Search(ctx, vector.SearchParams{Queries: []vector.Query{{Text: "x"}}}); !errors.Is(err, vector.ErrCollectionNotFound) {
			return fmt.Errorf("Search() of no collection = %w", err)
		}
		ids, err := d.Add(ctx, texts("reset: Hold the button to reset the device.", ": Charge the battery at night."))
		if err != nil || len(ids) != 2 || ids[0] != "reset" || !strings.HasPrefix(ids[1], "turn/") {
			return fmt.Errorf("Add() = %q, %w", ids, err)
		}
		if _, err := d.Add(ctx, texts("new: a", "reset: b")); !errors.Is(err, vector.ErrExists) {
			return fmt.Errorf("Add() of an id that exists = %w", err)
		}
		var e *vector.MismatchError
		_, err = d.Upsert(ctx, vector.WriteParams{Documents: []vector.Document{{ID: "x", Embedding: []float32{1}}}})
		if attempts == 1 && !errors.As(err, &e) || !errors.Is(err, vector.ErrMismatch) {
			return fmt.Errorf("Upsert() of another dimension = %w", err)
		}
		found, err := d.Search(ctx, vector.SearchParams{Queries: []vector.Query{{Text: "reset button"}}, Filter: storefilter.Eq("n", 36)})
		if err != nil || found[0].Mode != vector.ModeLexical || len(found[0].Hits) != 1 || found[0].Hits[0].ID != "reset" || found[0].Hits[0].Score <= 0 || found[0].Hits[0].Metadata["n"] != 36.0 {
			return fmt.Errorf("Search() = %+v, %w", found, err)
		}
		if err := errors.Join(d.Delete(ctx, ids[1], "missing"), documents.For(turn.Contracts(), "none").Delete(ctx, "x")); err != nil {
			return err
		}
		all, err := d.Get(ctx, ids...)
		if err != nil || len(all) != 1 || all[0].ID != "reset" {
			return fmt.Errorf("Get() = %+v, %w", all, err)
		}
		if attempts < 3 {
			return engine.Retry(errAgain)
		}
		return turn.Reply()
	})
	if task.Status.State != a2a.StateCompleted {
		t.Errorf("task is %s: %s", task.Status.State, task.Status.Message.Text())
	}
}

// model counts its calls and fails the call with the number fails.
type model struct {
	letters
	calls, fails int
}

func (m *model) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if m.calls++; m.calls == m.fails {
		return nil, errors.New("model is down")
	}
	return m.letters.Embed(ctx, texts)
}

func TestDocumentsAreEmbeddedOnce(t *testing.T) {
	t.Parallel()
	m, attempts := new(model), 0
	s, task := onDocuments(t, engine.Contracts{Embedder: m}, func(ctx context.Context, turn *engine.Turn) error {
		if _, err := documents.For(turn.Contracts(), "").Upsert(ctx, texts("a: text", "b: text")); err != nil {
			return err
		}
		if err := turn.Flush(); err != nil {
			return err
		}
		if attempts++; attempts < 3 {
			return engine.Retry(errAgain)
		}
		return turn.Reply()
	})
	if task.Status.State != a2a.StateCompleted || attempts != 3 || m.calls != 1 {
		t.Errorf("task is %s after %d attempts and %d calls of the embedder, want one", task.Status.State, attempts, m.calls)
	}
	all, err := s.Vectors(vector.Config{}).Collections(t.Context(), alice.ID)
	if err != nil || len(all) != 1 || all[0].Documents != 2 || all[0].Embedder != "letters" {
		t.Errorf("Collections() = %+v, %v", all, err)
	}
}

func TestFailureOfTheEmbedderIsReturned(t *testing.T) {
	t.Parallel()
	other := inmem.New()
	t.Cleanup(func() { _ = other.Close() })
	for name, c := range map[string]func(m *model) engine.Contracts{"own store": func(m *model) engine.Contracts { return engine.Contracts{Embedder: m} }, "another store": func(m *model) engine.Contracts {
		return engine.Contracts{Stores: []contract.Store{documents.Of(other.Vectors(vector.Config{Embedder: m}))}}
	}} {
		_, task := onDocuments(t, c(&model{fails: 1}), func(ctx context.Context, turn *engine.Turn) error {
			_, err := documents.For(turn.Contracts(), "").Upsert(ctx, texts("a: text"))
			var failed *vector.EmbedderError
			if !errors.As(err, &failed) || failed.Embedder != "letters" || a2a.CodeOf(err) != a2a.CodeUnavailable {
				return fmt.Errorf("Upsert() = %w, want an EmbedderError", err)
			}
			if _, err := documents.For(turn.Contracts(), "").Upsert(ctx, texts("b: other")); err != nil {
				return err
			}
			all, err := documents.For(turn.Contracts(), "").Get(ctx, "a", "b")
			if err != nil || len(all) != 1 || all[0].ID != "b" {
				return fmt.Errorf("Get() = %+v, %w", all, err)
			}
			return turn.Reply()
		})
		if task.Status.State != a2a.StateCompleted {
			t.Errorf("%s: task is %s: %s", name, task.Status.State, task.Status.Message.Text())
		}
	}
}

// A document that another task has added before the commit fails the turn, and none of its
// documents exist.
func TestConcurrentAddFailsTheTurn(t *testing.T) {
	t.Parallel()
	var others vector.Store
	s := inmem.New()
	others = s.Vectors(vector.Config{})
	e := start(t, engine.Config{Store: s, Turns: engine.Turns{FlushInterval: time.Hour}, Handler: func(ctx context.Context, turn *engine.Turn) error {
		if _, err := documents.For(turn.Contracts(), "").Add(ctx, texts("mine: a", "same: b")); err != nil {
			return err
		}
		if _, err := others.Add(ctx, vector.Key{Owner: alice.ID}, texts("same: c")); err != nil {
			return err
		}
		return turn.Reply()
	}})
	if task := sendIn(t, e, newID()); task.Status.State != a2a.StateFailed {
		t.Errorf("task is %s, want failed", task.Status.State)
	}
	all, err := others.Get(t.Context(), vector.Key{Owner: alice.ID}, []string{"mine", "same"})
	if err != nil || len(all) != 1 || all[0].Text != "c" {
		t.Errorf("Get() = %+v, %v, want the document of the other writer", all, err)
	}
}

// truncating is a store with searches that find too few groups.
type truncating struct{ vector.Store }

func (truncating) Search(context.Context, vector.Key, vector.SearchParams) ([]vector.Results, error) {
	return []vector.Results{{Mode: vector.ModeSemantic, Truncated: true}}, nil
}

func TestSearchOfATurnReportsTruncation(t *testing.T) {
	t.Parallel()
	_, task := onDocuments(t, engine.Contracts{Stores: []contract.Store{documents.Of(truncating{inmem.New().Vectors(vector.Config{})})}}, func(ctx context.Context, turn *engine.Turn) error {
		found, err := documents.For(turn.Contracts(), "").Search(ctx, vector.SearchParams{})
		if err != nil || len(found) != 1 || !found[0].Truncated {
			return fmt.Errorf("Search() = %+v, %w, want a truncated result", found, err)
		}
		return turn.Reply()
	})
	if task.Status.State != a2a.StateCompleted {
		t.Errorf("task is %s: %s", task.Status.State, task.Status.Message.Text())
	}
}
