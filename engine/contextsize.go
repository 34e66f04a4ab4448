package engine

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

const (
	// remeasureShare defines when a context is measured again: after this process has added
	// 1/remeasureShare of Limits.ContextBytes to it.
	remeasureShare = 64
	// remeasureFullAfter is how long messages for a full context are rejected before it is
	// measured again.
	remeasureFullAfter = 10 * time.Second
	// rememberedContexts is the minimum number of contexts in a full cache: those that grew
	// last. The cache has at most twice that number.
	rememberedContexts = 10_000
	// measuredTasks is the maximum number of tasks for which one call of the store reads the
	// sizes.
	measuredTasks = 1000
)

// contextSizes caches how many bytes this process has added to contexts. Only contexts that
// grow a lot are measured in the store. It is safe for concurrent use.
type contextSizes struct {
	*settings
	refused atomic.Int64 // messages rejected by Limits.ContextBytes

	mu            sync.Mutex
	recent, older map[store.ContextKey]*contextContent // each has up to rememberedContexts
}

type contextContent struct {
	added    int64     // bytes added since it was measured or cached
	measured int64     // bytes in the store at that time; 0 if not measured
	at       time.Time // time of the measurement
}

// get returns the cached size of a context, or nil. The caller holds s.mu.
func (s *contextSizes) get(key store.ContextKey) *contextContent {
	if c := s.recent[key]; c != nil {
		return c
	}
	return s.older[key]
}

// set caches the size of a context. The caller holds s.mu.
func (s *contextSizes) set(key store.ContextKey, c *contextContent) {
	if s.recent == nil || len(s.recent) >= rememberedContexts {
		s.older, s.recent = s.recent, make(map[store.ContextKey]*contextContent)
	}
	s.recent[key] = c
}

// add records that a context grew by bytes.
func (s *contextSizes) add(key store.ContextKey, bytes int64) {
	if bytes == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.get(key)
	if c == nil {
		c = new(contextContent)
	}
	c.added += bytes
	s.set(key, c)
}

// check rejects a message for a context if its tasks have reached Limits.ContextBytes. Writes
// of handlers are not rejected, and growth through other processes is detected late. A context
// can therefore exceed the limit by a 64th for each process and by the content of running
// tasks.
func (s *contextSizes) check(ctx context.Context, key store.ContextKey) error {
	limit := int64(s.cfg.Limits.ContextBytes)
	s.mu.Lock()
	c := s.get(key)
	if c == nil {
		s.mu.Unlock()
		return nil
	}
	known, full := *c, c.measured+c.added >= limit
	s.mu.Unlock()
	if known.added > limit/remeasureShare || full && (known.at.IsZero() || s.now().Sub(known.at).Abs() >= remeasureFullAfter) {
		bytes, err := s.measure(ctx, key)
		if err != nil {
			return err
		}
		known = contextContent{measured: bytes, at: s.now()}
		s.mu.Lock()
		s.set(key, &known)
		s.mu.Unlock()
		full = bytes >= limit
	}
	if !full {
		return nil
	}
	s.refused.Add(1)
	return a2a.Errorf(a2a.CodeTooLarge, "context %s has about %d bytes of content, the limit is %d (--max-context); start a new context", a2a.Quote(key.ID), known.measured+known.added, limit)
}

// measure returns the bytes of content of a context's tasks, 0 if it does not exist.
func (s *contextSizes) measure(ctx context.Context, key store.ContextKey) (bytes int64, err error) {
	c, err := s.cfg.Store.Context(ctx, key.Owner, key.ID, math.MaxInt32)
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	keys := make([]store.Key, 0, measuredTasks)
	for i, id := range c.TaskIDs {
		keys = append(keys, store.Key{Owner: key.Owner, ID: id})
		if len(keys) < measuredTasks && i+1 < len(c.TaskIDs) {
			continue
		}
		versions, err := s.cfg.Store.Versions(ctx, keys)
		if err != nil {
			return 0, err
		}
		for _, v := range versions {
			bytes += v.Bytes
		}
		keys = keys[:0]
	}
	return bytes, nil
}
