package memorysql

import (
	"container/list"
	"sync"

	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/memory"
)

// embeddingCache keeps embeddings of facts in memory, for the scopes that were searched last. It is
// safe for concurrent use.
type embeddingCache struct {
	limit int64 // bytes

	mu     sync.Mutex
	total  int64
	scopes map[embeddingScope]*scopeEmbeddings
	recent list.List // of *scopeEmbeddings, the most recently used one first
}

// newEmbeddingCache returns a cache of up to a number of bytes.
func newEmbeddingCache(limit int64) *embeddingCache {
	return &embeddingCache{limit: limit, scopes: make(map[embeddingScope]*scopeEmbeddings)}
}

type cacheKey struct{}

// cacheOf returns the cache of a database.
func cacheOf(db sqlkit.DB) *embeddingCache {
	return db.Caches().Get(cacheKey{}, func(bytes int64) any { return newEmbeddingCache(bytes) }).(*embeddingCache)
}

// embeddingScope is a scope and the model of embeddings.
type embeddingScope struct {
	memory.Scope
	model string
}

// scopeEmbeddings are the embeddings of a scope, nil for contents that the model rejects.
type scopeEmbeddings struct {
	key   embeddingScope
	place *list.Element // guarded by the lock of the cache, as is bytes
	bytes int64

	mu        sync.RWMutex
	byVersion map[factVersion][]float32
}

// versionBytes is about what a version needs besides its components.
const versionBytes = 160

func bytesOf(embedding []float32) int64 { return versionBytes + 4*int64(len(embedding)) }

// scope returns the embeddings of a scope.
func (c *embeddingCache) scope(key embeddingScope) *scopeEmbeddings {
	c.mu.Lock()
	defer c.mu.Unlock()
	in := c.scopes[key]
	if in == nil {
		in = &scopeEmbeddings{key: key, byVersion: make(map[factVersion][]float32)}
		in.place = c.recent.PushFront(in)
		c.scopes[key] = in
	}
	return in
}

// get returns the embeddings of versions, and the versions that it lacks. The embeddings do not change.
func (s *scopeEmbeddings) get(versions []visibleFact) (embeddings [][]float32, missing []visibleFact) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	embeddings = make([][]float32, len(versions))
	for i, v := range versions {
		var ok bool
		if embeddings[i], ok = s.byVersion[v.factVersion]; !ok {
			missing = append(missing, v)
		}
	}
	return embeddings, missing
}

// add keeps an embedding, unless the scope alone would need more than the limit.
func (c *embeddingCache) add(s *scopeEmbeddings, v factVersion, embedding []float32) {
	bytes := bytesOf(embedding)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.scopes[s.key] != s || s.bytes+bytes > c.limit {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.byVersion[v]; !ok {
		s.byVersion[v] = embedding
		s.bytes += bytes
		c.total += bytes
	}
}

// used notes that a search has used the embeddings of versions, which are all versions that exist at its
// time. It drops most other embeddings of the scope. While all scopes need more memory than the limit,
// it also drops the scopes that were not used for the longest time.
func (c *embeddingCache) used(s *scopeEmbeddings, versions []visibleFact) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.scopes[s.key] != s {
		return
	}
	c.recent.MoveToFront(s.place)
	c.total -= s.bytes
	s.retain(versions)
	c.total += s.bytes
	for back := c.recent.Back(); back != s.place && (c.total > c.limit || len(c.scopes) > maxScopes); back = c.recent.Back() {
		old := c.recent.Remove(back).(*scopeEmbeddings)
		delete(c.scopes, old.key)
		c.total -= old.bytes
	}
}

// maxScopes limits the number of scopes, some of which may have no embeddings.
const maxScopes = 10_000

// retain keeps only versions if there are many others.
func (s *scopeEmbeddings) retain(versions []visibleFact) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byVersion) <= 100+2*len(versions) {
		return
	}
	kept := make(map[factVersion][]float32, len(versions))
	s.bytes = 0
	for _, v := range versions {
		if embedding, ok := s.byVersion[v.factVersion]; ok {
			kept[v.factVersion] = embedding
			s.bytes += bytesOf(embedding)
		}
	}
	s.byVersion = kept
}
