package sqlite

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/testseed"
	"github.com/holdfast-dev/holdfast/store/storetest"
	"github.com/holdfast-dev/holdfast/store/vector"
	"github.com/holdfast-dev/holdfast/store/vector/ann"
	"github.com/holdfast-dev/holdfast/store/vector/vectortest"
)

// The suite with a limit that each index exceeds: every call of another collection drops one.
func TestVectorsWithLittleIndexMemory(t *testing.T) {
	t.Parallel()
	h := vectorHarness(ann.Config{GraphAt: 8}, 4)
	h.Calls = 400
	open := h.Open
	h.Open = func(t storetest.T, cfg vector.Config) vector.Store {
		v := open(t, cfg)
		v.(openVectors).store.vectors.memory.limit = 1
		return v
	}
	vectortest.Run(t, h)
}

// TestIndexesAreDroppedAndReadAgain writes, deletes and searches in many collections at the same time,
// of which few fit into the limit.
func TestIndexesAreDroppedAndReadAgain(t *testing.T) {
	t.Parallel()
	seed := testseed.Of(t)
	const collections, size = 24, 300
	s := open(t, Config{Dir: t.TempDir(), Logger: testLogger(t)})
	s.vectors.cfg, s.vectors.minSnapshot = ann.Config{GraphAt: 100}, 50
	v := s.Vectors(vector.Config{}).(*vectorStore)
	stored := make([][]vector.Document, collections)
	key := func(i int) vector.Key { return vector.Key{Owner: "owner", Collection: fmt.Sprint(i)} }
	var largest int64
	for i := range stored {
		stored[i] = randomDocuments(rand.New(rand.NewPCG(seed, uint64(i))), size, i*size)
		_, err := v.Upsert(t.Context(), key(i), vector.WriteParams{Documents: stored[i]})
		must(t, err)
		largest = max(largest, s.vectors.get(key(i)).state.Load().index.Bytes())
	}
	s.vectors.memory.limit = 4 * largest
	// search checks that a search finds all documents of a collection. Its writer changes no others.
	search := func(i int, exact bool) {
		p := vector.SearchParams{Queries: []vector.Query{{Embedding: stored[i][0].Embedding}}, Limit: size, Exact: exact}
		found, err := v.Search(t.Context(), key(i), p)
		if err != nil || len(found[0].Hits) != len(stored[i]) || found[0].Hits[0].ID != stored[i][0].ID {
			t.Errorf("Search() of collection %d with %d documents = %d, %v", i, len(stored[i]), len(found[0].Hits), err)
		}
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(1000+g)))
			for range 60 {
				i := g + 8*r.IntN(collections/8)
				switch r.IntN(4) {
				case 0:
					_, err := v.Upsert(t.Context(), key(i), vector.WriteParams{Documents: stored[i][:10]})
					if err != nil {
						t.Errorf("Upsert() = %v", err)
					}
				case 1:
					last := len(stored[i]) - 1
					if n, err := v.Delete(t.Context(), key(i), []string{stored[i][last].ID}); n != 1 || err != nil {
						t.Errorf("Delete() = %d, %v, want 1", n, err)
					}
					stored[i] = stored[i][:last]
				}
				search(i, r.IntN(2) == 0)
			}
		})
	}
	wg.Wait()
	for i := range stored {
		search(i, false)
	}
	s.vectors.mu.Lock()
	m := &s.vectors.memory
	if m.total > m.limit || m.recent.Len() < 2 {
		t.Errorf("%d indexes need %d bytes, limit is %d", m.recent.Len(), m.total, m.limit)
	}
	var sum int64
	for e := m.recent.Front(); e != nil; e = e.Next() {
		sum += e.Value.(*vectorIndex).use.bytes
	}
	if sum != m.total {
		t.Errorf("the total is %d, the indexes need %d", m.total, sum)
	}
	s.vectors.mu.Unlock()
	must(t, s.Close())
	s = open(t, Config{Dir: s.cfg.Dir, IndexMemory: 1})
	v = s.Vectors(vector.Config{}).(*vectorStore)
	for i := range stored {
		search(i, true)
	}
	if n := len(s.vectors.byKey); n != 1 {
		t.Errorf("%d indexes are in memory, want only the index of the last search", n)
	}
}

// TestDroppedIndexHasASnapshot checks that an index without a snapshot gets one before it is dropped.
func TestDroppedIndexHasASnapshot(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Dir: t.TempDir(), Logger: testLogger(t), IndexMemory: 1})
	s.vectors.cfg, s.vectors.minSnapshot = ann.Config{GraphAt: 100}, 200
	v := s.Vectors(vector.Config{})
	other := vector.Key{Owner: "owner", Collection: "other"}
	r := rand.New(rand.NewPCG(1, 1))
	var ids []string
	for _, part := range [][]vector.Document{randomDocuments(r, 150, 0), randomDocuments(r, 150, 150)} {
		_, err := v.Upsert(t.Context(), testCollection, vector.WriteParams{Documents: part})
		must(t, err)
		for _, d := range part {
			ids = append(ids, d.ID)
		}
	}
	query := randomDocuments(r, 1, 0)[0].Embedding
	for range 3 {
		_, err := v.Upsert(t.Context(), other, vector.WriteParams{Documents: randomDocuments(r, 1, 0)})
		must(t, err)
		s.vectors.saves.Wait()
		if c, err := collectionIn(t.Context(), s.kit, testCollection); err != nil || c.snapshot == 0 {
			t.Fatalf("the collection has no snapshot: %+v, %v", c, err)
		}
		found := searchIDs(t, v, vector.SearchParams{Limit: 1000}, query)
		if slices.Sort(found); !slices.Equal(found, ids) {
			t.Errorf("Search() finds %d documents, want %d", len(found), len(ids))
		}
		if stats := s.vectors.get(testCollection).state.Load().index.Stats(); stats.Linked != len(ids) {
			t.Errorf("the index was not read from its snapshot: %+v", stats)
		}
	}
}
