package sqlite

import (
	"container/list"
	"sync"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

const (
	// restBytes bounds what the cache holds, restShare what one task may take of it.
	restBytes = 32 << 20
	restShare = restBytes / 16
)

// restCache keeps tasks that are over as they were last read; the least recently
// used leave first. A commit takes its tasks out, and keeps those who are reading
// one at that moment from putting in what they have read.
type restCache struct {
	mu      sync.Mutex
	size    int
	tasks   map[store.Key]*list.Element
	order   list.List // of *rested, the most recently used first
	reading map[store.Key]*glance
}

type rested struct {
	task   *store.Task // not to be changed
	weight int
}

// glance is a task being read from the database, by some number of readers.
type glance struct {
	readers int
	stale   bool // a commit came in between
}

func newRestCache() *restCache {
	return &restCache{tasks: make(map[store.Key]*list.Element), reading: make(map[store.Key]*glance)}
}

// get returns a copy of a task that is over. When it is not at hand it returns
// nil, and the caller must call put when it has read the task.
func (c *restCache) get(key store.Key, opts store.TaskOptions) *store.Task {
	c.mu.Lock()
	e, ok := c.tasks[key]
	if !ok {
		v := c.reading[key]
		if v == nil {
			v = new(glance)
			c.reading[key] = v
		}
		v.readers++
		c.mu.Unlock()
		return nil
	}
	c.order.MoveToFront(e)
	t := *e.Value.(*rested).task
	c.mu.Unlock()
	t.Cut(opts)
	return t.Copy()
}

// put ends a read that get began. It keeps a copy of t if that is a whole task
// that is over; nil keeps nothing.
func (c *restCache) put(key store.Key, t *store.Task) {
	var kept *rested
	if t != nil && t.Status.State.Terminal() {
		if weight := weigh(t); weight <= restShare {
			kept = &rested{task: t.Copy(), weight: weight}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.reading[key]
	if v.readers--; v.readers == 0 {
		delete(c.reading, key)
	}
	if _, there := c.tasks[key]; there || kept == nil || v.stale {
		return
	}
	c.tasks[key] = c.order.PushFront(kept)
	c.size += kept.weight
	for c.size > restBytes {
		c.remove(c.order.Back())
	}
}

// drop takes out what a commit has changed.
func (c *restCache) drop(changed map[store.Key]taskRow) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range changed {
		if v := c.reading[key]; v != nil {
			v.stale = true
		}
		if e, ok := c.tasks[key]; ok {
			c.remove(e)
		}
	}
}

func (c *restCache) remove(e *list.Element) {
	r := c.order.Remove(e).(*rested)
	delete(c.tasks, r.task.Key)
	c.size -= r.weight
}

// weigh is roughly what a task takes in memory.
func weigh(t *store.Task) int {
	const perTask, perPart = 1024, 128
	weight := perTask
	parts := func(parts []a2a.Part) { weight += perPart*len(parts) + store.PartsSize(parts) }
	for _, e := range t.History {
		weight += perTask / 2
		parts(e.Message.Parts)
		weight += weighAny(e.Message.Metadata)
	}
	for _, a := range t.Artifacts {
		weight += perTask / 2
		parts(a.Parts)
		weight += weighAny(a.Metadata)
	}
	return weight + weighAny(t.Metadata)
}

func weighAny(v any) (weight int) {
	const perValue = 64
	switch v := v.(type) {
	case string:
		return perValue + len(v)
	case map[string]any:
		for k, item := range v {
			weight += len(k) + weighAny(item)
		}
	case []any:
		for _, item := range v {
			weight += weighAny(item)
		}
	}
	return weight + perValue
}
