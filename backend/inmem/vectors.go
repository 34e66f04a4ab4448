package inmem

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/holdfast-dev/holdfast/store/vector"
	"github.com/holdfast-dev/holdfast/store/vector/ann"
	"github.com/holdfast-dev/holdfast/store/vector/vectordriver"
	"github.com/holdfast-dev/holdfast/store/vector/vectors"
)

// Vectors returns the documents of the store. The stores that it returns share their documents.
func (s *Store) Vectors(cfg vector.Config) vector.Store {
	return &vectorStore{database: s.database, vectorState: s.vectors, cfg: cfg}
}

// vectorState holds the collections of all owners. It has a lock of its own, because searches by
// words may read many documents.
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

// vectorCollection is a collection. The rows are the truth; the index follows them before a search
// and after a write, because it needs time to link documents. It implements vectors.Documents.
type vectorCollection struct {
	state   *vectorState
	follows sync.Mutex // held while the index follows the rows
	index   *ann.Index // nil if the collection is lexical

	// The lock of state guards the following fields.
	info vector.Collection
	rows map[string]*vectordriver.Row
	// changed are the ids of the rows that the index must follow; busy reports that it follows other rows.
	changed []string
	busy    bool
	words   *wordIndex // nil before the first search by words
}

type vectorStore struct {
	*database
	*vectorState
	cfg vector.Config
}

var (
	_ vector.Store         = (*vectorStore)(nil)
	_ vector.Lister        = (*vectorStore)(nil)
	_ vector.Forgetter     = (*vectorStore)(nil)
	_ vector.Transactional = (*vectorStore)(nil)
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
	w, err := s.prepare(ctx, k, p)
	if err != nil {
		return nil, err
	}
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	s.vectorState.mu.Lock()
	_, err = s.put(w, replace)
	c := s.collections[w.Key]
	s.vectorState.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return w.IDs(), c.follow()
}

// prepare returns a write with its embeddings.
func (s *vectorStore) prepare(ctx context.Context, k vector.Key, p vector.WriteParams) (*vectordriver.Write, error) {
	w, err := vectordriver.NewWrite(k, p)
	if err != nil {
		return nil, err
	}
	c, err := s.collection(ctx, w.Key)
	if err != nil {
		return nil, err
	}
	return w, w.Embed(ctx, s.cfg.Embedder, c.describe())
}

// describe returns a copy of the collection's description, nil if c is nil.
func (c *vectorCollection) describe() *vector.Collection {
	if c == nil {
		return nil
	}
	c.state.mu.RLock()
	defer c.state.mu.RUnlock()
	return c.description()
}

// description is describe for a caller that holds the lock.
func (c *vectorCollection) description() *vector.Collection {
	info := c.info
	info.Documents = int64(len(c.rows))
	return &info
}

// admit returns the collection of a write, which is new if it does not exist, or the reason to reject
// the write. The caller holds the lock.
func (s *vectorState) admit(w *vectordriver.Write, replace bool) (*vectorCollection, error) {
	c := s.collections[w.Key]
	if c == nil {
		info, err := w.Admit(nil)
		if err != nil {
			return nil, err
		}
		index, err := vectors.NewIndex(&info, s.index)
		return &vectorCollection{state: s, index: index, info: info, rows: make(map[string]*vectordriver.Row)}, err
	}
	if _, err := w.Admit(&c.info); err != nil {
		return nil, err
	}
	for i := range w.Rows {
		if c.rows[w.Rows[i].ID] != nil && !replace {
			return nil, vector.ErrExists
		}
	}
	return c, nil
}

// put stores the documents of a write and returns how to undo it. The caller holds the lock.
func (s *vectorState) put(w *vectordriver.Write, replace bool) (undo func(), err error) {
	c, err := s.admit(w, replace)
	if err != nil {
		return nil, err
	}
	before := s.collections[w.Key]
	s.collections[w.Key] = c
	_, undo = c.change(w.Remove, w.Rows)
	if before == nil {
		undo = func() { delete(s.collections, w.Key) }
	}
	return undo, nil
}

// change removes documents and stores others. It returns the number of removed ones and how to undo
// the change. The caller holds the lock.
func (c *vectorCollection) change(remove []string, rows []vectordriver.Row) (removed int, undo func()) {
	before := make(map[string]*vectordriver.Row, len(remove)+len(rows))
	for _, id := range remove {
		if r := c.rows[id]; r != nil {
			before[id] = r
			delete(c.rows, id)
		}
	}
	removed = len(before)
	for i := range rows {
		id := rows[i].ID
		before[id] = c.rows[id]
		c.rows[id] = &rows[i]
	}
	if c.index != nil {
		c.changed = slices.AppendSeq(c.changed, maps.Keys(before))
	}
	c.indexWords(before)
	return removed, func() {
		for id, r := range before {
			if c.rows[id] = r; r == nil {
				delete(c.rows, id)
			}
		}
		c.indexWords(before)
	}
}

// indexWords lets the index of words follow the rows with the ids of changed. The caller holds the lock.
func (c *vectorCollection) indexWords(changed map[string]*vectordriver.Row) {
	for id := range changed {
		if c.words != nil {
			c.words = c.words.set(id, c.rows[id])
		}
	}
}

// follow lets the index follow the rows.
func (c *vectorCollection) follow() error {
	if c.index == nil {
		return nil
	}
	c.state.mu.RLock()
	done := len(c.changed) == 0 && !c.busy
	c.state.mu.RUnlock()
	if done {
		return nil
	}
	c.follows.Lock()
	defer c.follows.Unlock()
	c.state.mu.Lock()
	changed := c.changed
	rows := make(map[string]*vectordriver.Row, len(changed))
	for _, id := range changed {
		rows[id] = c.rows[id]
	}
	c.changed, c.busy = nil, true
	c.state.mu.Unlock()
	var items []ann.Item
	var removed []string
	for id, r := range rows {
		if r == nil {
			removed = append(removed, id)
		} else {
			items = append(items, vectors.Item(r))
		}
	}
	slices.SortFunc(items, func(a, b ann.Item) int { return cmp.Compare(a.ID, b.ID) })
	c.index.Delete(removed)
	err := c.index.Upsert(items)
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	if c.busy = false; err != nil {
		c.changed = append(changed, c.changed...)
	}
	return err
}

// Get implements vector.Store.
func (s *vectorStore) Get(ctx context.Context, k vector.Key, ids []string) (all []vector.Document, err error) {
	k, err = vectordriver.CheckIDs(k, ids)
	if err != nil {
		return nil, err
	}
	c, err := s.existing(ctx, k)
	if err != nil {
		return nil, err
	}
	err = c.Rows(ctx, ids, func(r *vectordriver.Row) { all = append(all, r.Document(true)) })
	return all, err
}

// Rows implements vectors.Documents. It keeps the order of ids.
func (c *vectorCollection) Rows(_ context.Context, ids []string, each func(r *vectordriver.Row)) error {
	c.state.mu.RLock()
	defer c.state.mu.RUnlock()
	for _, id := range ids {
		if r := c.rows[id]; r != nil {
			each(r)
		}
	}
	return nil
}

// Delete implements vector.Store.
func (s *vectorStore) Delete(ctx context.Context, k vector.Key, ids []string) (removed int, err error) {
	k, err = vectordriver.CheckIDs(k, ids)
	if err != nil {
		return 0, err
	}
	c, err := s.existing(ctx, k)
	if err != nil {
		return 0, err
	}
	s.vectorState.mu.Lock()
	removed, _ = c.change(ids, nil)
	s.vectorState.mu.Unlock()
	return removed, c.follow()
}

// Search implements vector.Store.
func (s *vectorStore) Search(ctx context.Context, k vector.Key, p vector.SearchParams) ([]vector.Results, error) {
	k, p, err := vectordriver.CheckSearch(k, p)
	if err != nil {
		return nil, err
	}
	c, err := s.existing(ctx, k)
	if err != nil {
		return nil, err
	}
	if err := c.follow(); err != nil {
		return nil, err
	}
	search := vectors.Collection{Collection: *c.describe(), Index: c.index, Documents: c}
	return search.Search(ctx, s.cfg.Embedder, &p)
}

// Collections implements vector.Store.
func (s *vectorStore) Collections(ctx context.Context, owner string) (all []vector.Collection, err error) {
	if err := vectordriver.CheckOwner(owner); err != nil {
		return nil, err
	}
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	s.vectorState.mu.RLock()
	defer s.vectorState.mu.RUnlock()
	for k, c := range s.collections {
		if k.Owner == owner {
			all = append(all, *c.description())
		}
	}
	slices.SortFunc(all, func(a, b vector.Collection) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// DeleteCollection implements vector.Store.
func (s *vectorStore) DeleteCollection(ctx context.Context, k vector.Key) (int, error) {
	k, err := vectordriver.CheckKey(k)
	if err != nil {
		return 0, err
	}
	return s.remove(ctx, func(other vector.Key) bool { return other == k })
}

// ForgetOwner implements vector.Forgetter.
func (s *vectorStore) ForgetOwner(ctx context.Context, owner string) (int, error) {
	if err := vectordriver.CheckOwner(owner); err != nil {
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
	defer s.vectorState.mu.Unlock()
	for k, c := range s.collections {
		if selected(k) {
			removed += len(c.rows)
			delete(s.collections, k)
		}
	}
	return removed, nil
}

// List implements vector.Lister.
func (s *vectorStore) List(ctx context.Context, k vector.Key, p vector.ListParams) (all []vector.Document, err error) {
	k, p, err = vectordriver.CheckList(k, p)
	if err != nil {
		return nil, err
	}
	c, err := s.existing(ctx, k)
	if err != nil {
		return nil, err
	}
	var ids []string
	s.vectorState.mu.RLock()
	for id := range c.rows {
		if id > p.After {
			ids = append(ids, id)
		}
	}
	s.vectorState.mu.RUnlock()
	slices.Sort(ids)
	err = c.Rows(ctx, ids[:min(len(ids), p.Limit)], func(r *vectordriver.Row) { all = append(all, r.Document(true)) })
	return all, err
}
