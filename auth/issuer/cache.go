package issuer

import (
	"crypto/sha256"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/internal/recent"
)

// cache has at most maxCached values by hashes of tokens, the ones that were used last. The zero value is empty.
type cache[V any] struct {
	mu     sync.Mutex
	values recent.Map[[sha256.Size]byte, cached[V]]
}

type cached[V any] struct {
	value V
	until time.Time
}

// get returns the value of a key, unless it has expired.
func (c *cache[V]) get(key [sha256.Size]byte, now time.Time) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	entry, ok := c.values.Get(key)
	if !ok || !now.Before(entry.until) {
		return value, false
	}
	return entry.value, true
}

// put keeps the value of a key until a time.
func (c *cache[V]) put(key [sha256.Size]byte, value V, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.values.Max = maxCached / 2
	c.values.Put(key, cached[V]{value, until})
}
