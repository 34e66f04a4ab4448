package memorysql

import (
	"fmt"
	"testing"

	"github.com/holdfast-dev/holdfast/store/memory"
)

func TestEmbeddingCacheIsBounded(t *testing.T) {
	t.Parallel()
	const perScope = 10
	one := bytesOf(make([]float32, 4))
	c := newEmbeddingCache(25 * one)
	key := func(i int) embeddingScope {
		return embeddingScope{memory.Scope{Owner: fmt.Sprint(i)}, "m/4"}
	}
	use := func(i, facts, version int) *scopeEmbeddings {
		in, all := c.scope(key(i)), make([]visibleFact, facts)
		for n := range all {
			all[n].factVersion = factVersion{id: fmt.Sprint(n), version: int64(version)}
			c.add(in, all[n].factVersion, make([]float32, 4))
		}
		c.used(in, all)
		return in
	}
	for i := range 5 {
		use(i, perScope, 1)
	}
	if c.total != 20*one || len(c.scopes) != 2 || c.scopes[key(4)] == nil || c.scopes[key(3)] == nil {
		t.Errorf("cache has %d bytes of %d scopes, want only the last two scopes", c.total, len(c.scopes))
	}
	for version := range 100 {
		use(4, perScope, version)
	}
	if in := c.scopes[key(4)]; c.total > c.limit || c.total != in.bytes || len(in.byVersion) > 25 {
		t.Errorf("cache has %d bytes after many changes, limit is %d", c.total, c.limit)
	}
	if in := use(6, 1000, 1); c.total > c.limit || len(in.byVersion) != 25 {
		t.Errorf("cache has %d bytes, %d of a large scope, want its limit", c.total, len(in.byVersion))
	}
}
