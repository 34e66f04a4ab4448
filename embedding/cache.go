package embedding

import (
	"container/list"
	"crypto/sha256"
	"slices"
	"sync"
)

// entryOverhead is the memory of an entry apart from its embedding.
const entryOverhead = 200

// cache has the embeddings of recently used texts, by the SHA-256 of the text. It is safe for
// concurrent use.
type cache struct {
	limit int

	mu    sync.Mutex
	size  int
	byKey map[[sha256.Size]byte]*list.Element
	order *list.List // of *entry, most recently used first
}

type entry struct {
	key       [sha256.Size]byte
	embedding []float32
}

func (e *entry) size() int { return entryOverhead + 4*len(e.embedding) }

func newCache(limit int) cache {
	return cache{limit: limit, byKey: make(map[[sha256.Size]byte]*list.Element), order: list.New()}
}

// get returns a copy of the embedding of a text, or nil.
func (c *cache) get(text string) []float32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byKey[sha256.Sum256([]byte(text))]
	if e == nil {
		return nil
	}
	c.order.MoveToFront(e)
	return slices.Clone(e.Value.(*entry).embedding)
}

func (c *cache) add(text string, embedding []float32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	added := &entry{sha256.Sum256([]byte(text)), slices.Clone(embedding)}
	if c.byKey[added.key] != nil || added.size() > c.limit {
		return
	}
	c.byKey[added.key] = c.order.PushFront(added)
	for c.size += added.size(); c.size > c.limit; {
		oldest := c.order.Remove(c.order.Back()).(*entry)
		delete(c.byKey, oldest.key)
		c.size -= oldest.size()
	}
}
