package inmem

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/holdfast-dev/holdfast/backend/internal/vectors"
	"github.com/holdfast-dev/holdfast/internal/ann"
	"github.com/holdfast-dev/holdfast/store/vector"
)

// Vectors returns the documents of the store. The stores that it returns share their documents.
func (s *Store) Vectors(cfg vector.Config) vector.Store {
	return &vectorStore{database: s.database, vectorState: s.vectors, cfg: cfg}
}

// vectorState holds the collections of all owners. Its lock is not that of the database, because a
// write takes as long as an index needs to link its documents.
type vectorState struct {
	mu          sync.RWMutex
	collections map[vector.Key]*vectorCollection
	index       ann.Config
}

func newVectorState() *vectorState {
	return &vectorState{collections: make(map[vector.Key]*vectorCollection)}
}

func (s *vectorState) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.collections)
}

// vectorCollection is a collection. It implements vectors.Documents.
type vectorCollection struct {
	writes sync.Mutex // held by a write from start to end
	index  *ann.Index // nil if the collection is lexical

	mu      sync.RWMutex
	info    vector.Collection
	rows    map[string]*vector.Row
	removed bool
}

type vectorStore struct {
	*database
	*vectorState
	cfg vector.Config
}

var (
	_ vector.Store     = (*vectorStore)(nil)
	_ vector.Lister    = (*vectorStore)(nil)
	_ vector.Forgetter = (*vectorStore)(nil)
)

// open returns an error if the store is closed or ctx is done.
func (s *vectorStore) open(ctx context.Context) error {
	defer s.database.mu.RUnlock()
	return s.read(ctx)
}

// collection returns a collection, or nil.
func (s *vectorStore) collection(ctx context.Context, k vector.Key) (*vectorCollection, error) {
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	s.vectorState.mu.RLock()
	defer s.vectorState.mu.RUnlock()
	return s.collections[k], nil
}

// existing is collection, but returns vector.ErrCollectionNotFound.
func (s *vectorStore) existing(ctx context.Context, k vector.Key) (*vectorCollection, error) {
	c, err := s.collection(ctx, k)
	if err == nil && c == nil {
		err = vector.ErrCollectionNotFound
	}
	return c, err
}

// Add implements vector.Store.
func (s *vectorStore) Add(ctx context.Context, k vector.Key, p vector.WriteParams) ([]string, error) {
	return s.write(ctx, k, p, false)
}

// Upsert implements vector.Store.
func (s *vectorStore) Upsert(ctx context.Context, k vector.Key, p vector.WriteParams) ([]string, error) {
	return s.write(ctx, k, p, true)
}

func (s *vectorStore) write(ctx context.Context, k vector.Key, p vector.WriteParams, replace bool) ([]string, error) {
	w, err := vector.NewWrite(k, p)
	if err != nil {
		return nil, err
	}
	c, err := s.collection(ctx, w.Key)
	if err != nil {
		return nil, err
	}
	if err := w.Embed(ctx, s.cfg.Embedder, c.describe()); err != nil {
		return nil, err
	}
	for {
		if c, err = s.create(ctx, w); err != nil {
			return nil, err
		}
		if done, err := c.write(w, replace); done {
			return w.IDs(), err
		}
	}
}

// create returns the collection of a write, and adds it if it does not exist.
func (s *vectorStore) create(ctx context.Context, w *vector.Write) (*vectorCollection, error) {
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	s.vectorState.mu.Lock()
	defer s.vectorState.mu.Unlock()
	if c := s.collections[w.Key]; c != nil {
		return c, nil
	}
	info, err := w.Admit(nil)
	if err != nil {
		return nil, err
	}
	index, err := vectors.NewIndex(&info, s.index)
	if err != nil {
		return nil, err
	}
	c := &vectorCollection{index: index, info: info, rows: make(map[string]*vector.Row)}
	s.collections[w.Key] = c
	return c, nil
}

// describe returns a copy of the collection's description, nil if c is nil.
func (c *vectorCollection) describe() *vector.Collection {
	if c == nil {
		return nil
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	info := c.info
	info.Documents = int64(len(c.rows))
	return &info
}

// write stores documents. done is false if the collection was removed.
func (c *vectorCollection) write(w *vector.Write, replace bool) (done bool, err error) {
	c.writes.Lock()
	defer c.writes.Unlock()
	if c.removed {
		return false, nil
	}
	if _, err := w.Admit(&c.info); err != nil {
		return true, err
	}
	items := make([]ann.Item, len(w.Rows))
	for i := range w.Rows {
		if c.rows[w.Rows[i].ID] != nil && !replace {
			return true, vector.ErrExists
		}
		items[i] = vectors.Item(&w.Rows[i])
	}
	c.mu.Lock()
	for i := range w.Rows {
		c.rows[w.Rows[i].ID] = &w.Rows[i]
	}
	c.mu.Unlock()
	if c.index == nil {
		return true, nil
	}
	return true, c.index.Upsert(items)
}

// Get implements vector.Store.
func (s *vectorStore) Get(ctx context.Context, k vector.Key, ids []string) (all []vector.Document, err error) {
	k, err = vector.CheckIDs(k, ids)
	if err != nil {
		return nil, err
	}
	c, err := s.existing(ctx, k)
	if err != nil {
		return nil, err
	}
	err = c.Rows(ctx, ids, func(r *vector.Row) { all = append(all, r.Document(true)) })
	return all, err
}

// Rows implements vectors.Documents. It keeps the order of ids.
func (c *vectorCollection) Rows(_ context.Context, ids []string, each func(r *vector.Row)) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, id := range ids {
		if r := c.rows[id]; r != nil {
			each(r)
		}
	}
	return nil
}

// All implements vectors.Documents.
func (c *vectorCollection) All(_ context.Context, each func(r *vector.Row)) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, r := range c.rows {
		each(r)
	}
	return nil
}

// Delete implements vector.Store.
func (s *vectorStore) Delete(ctx context.Context, k vector.Key, ids []string) (removed int, err error) {
	k, err = vector.CheckIDs(k, ids)
	if err != nil {
		return 0, err
	}
	c, err := s.existing(ctx, k)
	if err != nil {
		return 0, err
	}
	c.writes.Lock()
	defer c.writes.Unlock()
	c.mu.Lock()
	before := len(c.rows)
	for _, id := range ids {
		delete(c.rows, id)
	}
	removed = before - len(c.rows)
	c.mu.Unlock()
	if c.index != nil {
		c.index.Delete(ids)
	}
	return removed, nil
}

// Search implements vector.Store.
func (s *vectorStore) Search(ctx context.Context, k vector.Key, p vector.SearchParams) ([]vector.Results, error) {
	k, p, err := p.Check(k)
	if err != nil {
		return nil, err
	}
	c, err := s.existing(ctx, k)
	if err != nil {
		return nil, err
	}
	search := vectors.Collection{Collection: *c.describe(), Index: c.index, Documents: c}
	return search.Search(ctx, s.cfg.Embedder, &p)
}

// Collections implements vector.Store.
func (s *vectorStore) Collections(ctx context.Context, owner string) (all []vector.Collection, err error) {
	if err := vector.CheckOwner(owner); err != nil {
		return nil, err
	}
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	s.vectorState.mu.RLock()
	defer s.vectorState.mu.RUnlock()
	for k, c := range s.collections {
		if k.Owner == owner {
			all = append(all, *c.describe())
		}
	}
	slices.SortFunc(all, func(a, b vector.Collection) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// DeleteCollection implements vector.Store.
func (s *vectorStore) DeleteCollection(ctx context.Context, k vector.Key) (int, error) {
	k, err := k.Check()
	if err != nil {
		return 0, err
	}
	return s.remove(ctx, func(other vector.Key) bool { return other == k })
}

// ForgetOwner implements vector.Forgetter.
func (s *vectorStore) ForgetOwner(ctx context.Context, owner string) (int, error) {
	if err := vector.CheckOwner(owner); err != nil {
		return 0, err
	}
	return s.remove(ctx, func(k vector.Key) bool { return k.Owner == owner })
}

// remove removes collections and returns the number of their documents.
func (s *vectorStore) remove(ctx context.Context, selected func(vector.Key) bool) (removed int, err error) {
	if err := s.open(ctx); err != nil {
		return 0, err
	}
	s.vectorState.mu.Lock()
	var all []*vectorCollection
	for k, c := range s.collections {
		if selected(k) {
			all = append(all, c)
			delete(s.collections, k)
		}
	}
	s.vectorState.mu.Unlock()
	for _, c := range all {
		c.writes.Lock()
		c.removed = true
		removed += len(c.rows)
		c.writes.Unlock()
	}
	return removed, nil
}

// List implements vector.Lister.
func (s *vectorStore) List(ctx context.Context, k vector.Key, p vector.ListParams) (all []vector.Document, err error) {
	k, p, err = vector.CheckList(k, p)
	if err != nil {
		return nil, err
	}
	c, err := s.existing(ctx, k)
	if err != nil {
		return nil, err
	}
	var ids []string
	_ = c.All(ctx, func(r *vector.Row) {
		if r.ID > p.After {
			ids = append(ids, r.ID)
		}
	})
	slices.Sort(ids)
	err = c.Rows(ctx, ids[:min(len(ids), p.Limit)], func(r *vector.Row) { all = append(all, r.Document(true)) })
	return all, err
}
