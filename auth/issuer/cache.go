package issuer

import (
	"crypto/sha256"
	"sync"
	"time"
)

// cache has at most maxCached values by hashes of tokens. It drops the values that were not used for the longest time
// in two generations. The zero value is empty.
type cache[V any] struct {
	mu         sync.Mutex
	young, old map[[sha256.Size]byte]cached[V]
}

type cached[V any] struct {
	value V
	until time.Time
}

// get returns the value of a key, unless it has expired.
func (c *cache[V]) get(key [sha256.Size]byte, now time.Time) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	entry, young := c.young[key]
	if !young {
		entry = c.old[key]
	}
	if !now.Before(entry.until) {
		return value, false
	}
	if !young {
		c.add(key, entry)
	}
	return entry.value, true
}

// put keeps the value of a key until a time.
func (c *cache[V]) put(key [sha256.Size]byte, value V, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(key, cached[V]{value, until})
}

func (c *cache[V]) add(key [sha256.Size]byte, entry cached[V]) {
	if c.young == nil || len(c.young) >= maxCached/2 {
		c.old, c.young = c.young, make(map[[sha256.Size]byte]cached[V])
	}
	c.young[key] = entry
}
