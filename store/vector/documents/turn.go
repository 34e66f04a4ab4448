package documents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/internal/jsonobject"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/vector"
)

// Documents is a collection of documents of a turn's owner, which are found by meaning if the agent
// has an embedder, and otherwise by words; see package vector. Tasks of the owner share it in all
// contexts and agents.
//
// A write is committed with the next commit of the turn, at the latest with its end: after a crash,
// a cancel or a lost lease all of its documents exist or none, and the index has the same ones.
// Embeddings are computed when the method is called, and not again by a later attempt if the write
// was committed. Reads find what the turn has written. Every attempt must make the same calls in the
// same order.
//
// Reads, Add and Upsert commit earlier writes of the turn first, so write many documents with one
// call. If documents are not in the agent's database, a write is made at once, and a repeated attempt
// makes it again with the same ids.
//
// If an embedder fails, a method returns a [vector.EmbedderError] and changes nothing.
type Documents struct {
	t          contract.Turn
	collection string
}

// For returns a collection of a turn's owner; "" is [vector.DefaultCollection]. The first write
// creates it.
func For(t contract.Turn, collection string) *Documents { return &Documents{t, collection} }

func (d *Documents) key() vector.Key {
	return vector.Key{Owner: d.t.Session().Owner, Collection: d.collection}
}

// store returns the agent's documents. It also returns the documents of the agent's own store, if
// they can be written with the task.
func (d *Documents) store() (vector.Store, vector.Transactional, error) {
	return contract.ForTurn[vector.Store, vector.Transactional](d.t, Kind)
}

// Add stores new documents and returns their ids. It returns [vector.ErrExists] if the collection has
// one of the ids, or a [vector.MismatchError]. If another task adds one of them before the commit,
// the turn fails. A document without an id gets one that is the same in each attempt.
func (d *Documents) Add(ctx context.Context, p vector.WriteParams) (ids []string, err error) {
	return d.write(ctx, "documents.add", p, vector.Transactional.AddEffect, func(ctx context.Context, s vector.Store, p vector.WriteParams) ([]string, error) {
		ids, err := s.Add(ctx, d.key(), p)
		if errors.Is(err, vector.ErrExists) { // an earlier attempt may have added them
			return sameDocuments(ctx, s, d.key(), p, err)
		}
		return ids, err
	})
}

// Upsert is Add, but replaces documents with the same ids.
func (d *Documents) Upsert(ctx context.Context, p vector.WriteParams) (ids []string, err error) {
	return d.write(ctx, "documents.upsert", p, vector.Transactional.UpsertEffect, func(ctx context.Context, s vector.Store, p vector.WriteParams) ([]string, error) {
		return s.Upsert(ctx, d.key(), p)
	})
}

func (d *Documents) write(ctx context.Context, op string, p vector.WriteParams,
	effect func(vector.Transactional, context.Context, vector.Key, vector.WriteParams) (store.Effect, []string, error),
	direct func(context.Context, vector.Store, vector.WriteParams) ([]string, error),
) (ids []string, err error) {
	s, own, err := d.store()
	if err != nil {
		return nil, err
	}
	size := 0
	for i := range p.Documents {
		size += len(p.Documents[i].Text) + len(p.Documents[i].Blocks) + 4*len(p.Documents[i].Embedding)
	}
	withIDs := func(once string) vector.WriteParams {
		p := p
		p.Documents = slices.Clone(p.Documents)
		for i := range p.Documents {
			if p.Documents[i].ID == "" {
				p.Documents[i].ID = fmt.Sprint(once, "/", i)
			}
		}
		return p
	}
	call := contract.Call{Op: op, Args: []any{d.collection, p}, Result: &ids, After: true}
	if own != nil {
		call.Effect = func(ctx context.Context, once string) (e store.Effect, _ int, err error) {
			e, ids, err = effect(own, ctx, d.key(), withIDs(once))
			return e, size, err
		}
	} else {
		call.Direct = func(ctx context.Context, once string) (err error) {
			ids, err = direct(ctx, s, withIDs(once))
			return err
		}
	}
	if err := d.t.Call(ctx, call); err != nil {
		return nil, err
	}
	return ids, nil
}

// sameDocuments returns the ids of a write if the collection has all of its documents as they are
// written, otherwise the error.
func sameDocuments(ctx context.Context, s vector.Store, k vector.Key, p vector.WriteParams, exists error) ([]string, error) {
	ids := make([]string, len(p.Documents))
	for i := range p.Documents {
		ids[i] = p.Documents[i].ID
	}
	stored, err := s.Get(ctx, k, ids)
	if err != nil {
		return nil, err
	}
	if len(stored) != len(ids) {
		return nil, exists
	}
	for i := range stored {
		want := p.Documents[i]
		metadata, err := jsonobject.Encode(want.Metadata, vector.MaxMetadata, vector.MaxMetadataDepth)
		if err != nil {
			return nil, err
		}
		known, err := jsonobject.Encode(stored[i].Metadata, vector.MaxMetadata, vector.MaxMetadataDepth)
		if err != nil {
			return nil, err
		}
		if stored[i].ID != want.ID || stored[i].Text != want.Text || string(stored[i].Blocks) != string(want.Blocks) || known != metadata {
			return nil, exists
		}
	}
	return ids, nil
}

// Delete removes documents. A document that does not exist is no error. The collection remains.
func (d *Documents) Delete(ctx context.Context, ids ...string) error {
	s, own, err := d.store()
	if err != nil {
		return err
	}
	call := contract.Call{Op: "documents.delete", Args: []any{d.collection, ids}}
	if own != nil {
		call.Effect = func(context.Context, string) (store.Effect, int, error) {
			e, err := own.DeleteEffect(d.key(), ids)
			return e, 0, err
		}
	} else {
		call.Direct = func(ctx context.Context, _ string) error {
			_, err := s.Delete(ctx, d.key(), ids)
			if errors.Is(err, vector.ErrCollectionNotFound) {
				return nil
			}
			return err
		}
	}
	return d.t.Call(ctx, call)
}

// storedDocument is a document as a result of a call. JSON would change the numbers of Metadata.
type storedDocument struct {
	vector.Document
	Metadata json.RawMessage
	Score    float64       `json:",omitempty"`
	Scores   vector.Scores `json:",omitzero"`
}

func newStoredDocument(h vector.Hit) (storedDocument, error) {
	metadata, err := json.Marshal(h.Metadata)
	return storedDocument{h.Document, metadata, h.Score, h.Scores}, err
}

func (s storedDocument) document() vector.Document {
	s.Document.Metadata = jsonobject.Decode(string(s.Metadata))
	return s.Document
}

// Get returns the documents with the given ids that exist, in the order of ids, without embeddings.
// It returns [vector.ErrCollectionNotFound] if the collection does not exist.
func (d *Documents) Get(ctx context.Context, ids ...string) ([]vector.Document, error) {
	s, _, err := d.store()
	if err != nil {
		return nil, err
	}
	var stored []storedDocument
	err = d.t.Call(ctx, contract.Call{Op: "documents.get", Result: &stored, Read: func(ctx context.Context) error {
		found, err := s.Get(ctx, d.key(), ids)
		stored = nil // of a call that failed
		for _, f := range found {
			f.Embedding = nil
			one, err := newStoredDocument(vector.Hit{Document: f})
			if err != nil {
				return err
			}
			stored = append(stored, one)
		}
		return err
	}})
	if err != nil {
		return nil, err
	}
	var all []vector.Document
	for _, one := range stored {
		all = append(all, one.document())
	}
	return all, nil
}

// Search returns the closest documents to each query; see [vector.Store]. It returns
// [vector.ErrCollectionNotFound] if the collection does not exist.
func (d *Documents) Search(ctx context.Context, p vector.SearchParams) ([]vector.Results, error) {
	s, _, err := d.store()
	if err != nil {
		return nil, err
	}
	var stored []struct {
		Mode      vector.Mode
		Fallback  string `json:",omitempty"`
		Hits      []storedDocument
		Truncated bool `json:",omitempty"`
	}
	err = d.t.Call(ctx, contract.Call{Op: "documents.search", Result: &stored, Read: func(ctx context.Context) error {
		found, err := s.Search(ctx, d.key(), p)
		stored = slices.Grow(stored[:0], len(found))[:len(found)]
		for i, results := range found {
			stored[i].Mode, stored[i].Fallback, stored[i].Hits, stored[i].Truncated = results.Mode, results.Fallback, nil, results.Truncated
			for _, h := range results.Hits {
				one, err := newStoredDocument(h)
				if err != nil {
					return err
				}
				stored[i].Hits = append(stored[i].Hits, one)
			}
		}
		return err
	}})
	if err != nil {
		return nil, err
	}
	all := make([]vector.Results, len(stored))
	for i, results := range stored {
		all[i].Mode, all[i].Fallback, all[i].Truncated = results.Mode, results.Fallback, results.Truncated
		for _, h := range results.Hits {
			all[i].Hits = append(all[i].Hits, vector.Hit{Document: h.document(), Score: h.Score, Scores: h.Scores})
		}
	}
	return all, nil
}

// SearchText returns up to limit documents that are closest to a text; 0 means [vector.DefaultLimit]. It is
// Search with one query, by meaning if there is an embedder and by words otherwise.
func (d *Documents) SearchText(ctx context.Context, text string, limit int) ([]vector.Hit, error) {
	results, err := d.Search(ctx, vector.SearchParams{Queries: []vector.Query{{Text: text}}, Limit: limit})
	if err != nil {
		return nil, err
	}
	return results[0].Hits, nil
}
