package methods

import (
	"bytes"
	"container/list"
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/fileref"
	"github.com/holdfast-dev/holdfast/rpc"
	"github.com/holdfast-dev/holdfast/store"
)

// readCache keeps finished tasks in encoded form. An entry is valid for one version of its
// task; the store reports the current version without reading content. The least recently
// used entries are evicted first.
type readCache struct {
	limit int64

	mu      sync.Mutex
	bytes   int64
	entries map[cacheKey]*list.Element
	order   list.List // of *encoding, the most recently used first

	hits atomic.Int64
}

// cacheKey identifies an encoding. One task has several, depending on the codec and the options
// of the request.
type cacheKey struct {
	codec rpc.Codec
	task  store.Key
	extent
	generation bool // the text has the task's generation
}

func keyOf(c *rpc.Call, task store.Key, e extent) cacheKey {
	return cacheKey{codec: c.Codec, task: task, extent: e, generation: hasGenerations(c)}
}

// extent describes which parts of a task a response contains.
type extent struct {
	history   int  // the maximum number of messages, -1 for all
	explicit  bool // the request has historyLength, see convertTask
	artifacts bool
}

func extentOf(read store.TaskOptions, historyLength *int) extent {
	e := extent{history: -1, explicit: historyLength != nil, artifacts: !read.OmitArtifacts}
	if read.History != nil {
		e.history = *read.History
	}
	return e
}

type cachedTask struct {
	key     cacheKey
	version store.TaskVersion
	text    json.RawMessage // read-only
	content int             // the part of the task's Size that text contains
}

// cacheEntryOverhead is the approximate memory of an encoding in addition to its text.
const cacheEntryOverhead = 768

func (e *cachedTask) bytes() int64 { return int64(len(e.text)) + cacheEntryOverhead }

func newReadCache(limit int64) *readCache {
	return &readCache{limit: limit, entries: make(map[cacheKey]*list.Element)}
}

// get returns the cached encoding in any version, or nil.
func (c *readCache) get(key cacheKey) *cachedTask {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[key]
	if e == nil {
		return nil
	}
	c.order.MoveToFront(e)
	return e.Value.(*cachedTask)
}

// cacheable reports whether a task can be cached: it is finished and therefore does not change, it
// takes a small part of the cache, and it has no files with links that expire.
func (c *readCache) cacheable(t *store.Task) bool {
	return t.Status.State.Terminal() && int64(t.Size()) <= c.limit/cacheEntryShare && !fileref.TaskContains(t)
}

// cacheEntryShare limits an encoding to this fraction of the cache.
const cacheEntryShare = 64

func (c *readCache) put(e *cachedTask) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.bytes() > c.limit/cacheEntryShare {
		return
	}
	c.remove(c.entries[e.key])
	c.entries[e.key] = c.order.PushFront(e)
	for c.bytes += e.bytes(); c.bytes > c.limit; {
		c.remove(c.order.Back())
	}
}

func (c *readCache) remove(e *list.Element) {
	if e == nil {
		return
	}
	removed := c.order.Remove(e).(*cachedTask)
	delete(c.entries, removed.key)
	c.bytes -= removed.bytes()
}

// CacheInfo reports the size of the read cache and the number of its hits.
type CacheInfo struct {
	Tasks int   `json:"tasks"`
	Bytes int64 `json:"bytes"`
	Hits  int64 `json:"hits"`
}

// CacheInfo returns the state of the read cache.
func (m *Methods) CacheInfo() CacheInfo {
	c := m.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	return CacheInfo{Tasks: len(c.entries), Bytes: c.bytes, Hits: c.hits.Load()}
}

// appendCacheable appends the encoding of a task, and caches it.
func (m *Methods) appendCacheable(c *rpc.Call, dst []byte, t *store.Task, read store.TaskOptions, historyLength *int) ([]byte, error) {
	out, err := c.Codec.AppendResult(dst, &methodGet, convertTask(c, t, historyLength))
	if err != nil {
		return dst, err
	}
	m.cache.put(&cachedTask{
		key: keyOf(c, t.Key, extentOf(read, historyLength)), version: t.Version(),
		text: bytes.Clone(out[len(dst):]), content: t.Size(),
	})
	return out, nil
}

// methodGet is the method that returns a task. A task in a list is encoded like its result.
var methodGet, _ = a2a.MethodByName(a2a.MethodGet)

// getTask returns an [*a2a.Task], or its encoding as [json.RawMessage].
func (m *Methods) getTask(ctx context.Context, c *rpc.Call, p a2a.TaskQueryParams) (any, error) {
	c.TaskID = p.ID
	if p.CurrentGeneration != nil && hasGenerations(c) {
		wait, cancel := m.limitWait(ctx)
		defer cancel()
		if err := m.cfg.Engine.AwaitGeneration(wait, c.Principal, p.ID, *p.CurrentGeneration); err != nil {
			return nil, err
		}
	}
	read := store.TaskOptions{History: p.HistoryLength}
	cached := m.cache.get(keyOf(c, store.Key{Owner: c.Principal.ID, ID: p.ID}, extentOf(read, p.HistoryLength)))
	if cached != nil {
		now, err := m.cfg.Engine.Version(ctx, c.Principal, p.ID)
		if err == nil && now.Same(cached.version) {
			m.cache.hits.Add(1)
			return cached.text, nil
		}
	}
	t, err := m.cfg.Engine.Task(ctx, c.Principal, p.ID, p.HistoryLength)
	if err != nil {
		return nil, err
	}
	if m.cache.cacheable(t) {
		text, err := m.appendCacheable(c, make([]byte, 0, 1<<10), t, read, p.HistoryLength)
		return json.RawMessage(text), err
	}
	return m.viewTask(ctx, c, t, p.HistoryLength)
}

func (m *Methods) listTasks(ctx context.Context, c *rpc.Call, p a2a.ListTasksParams) (*a2a.TasksPage[json.RawMessage], error) {
	cached := make(map[string]*cachedTask)
	list, err := m.cfg.Engine.ListUncached(ctx, c.Principal, p, func(outline *store.Task, read store.TaskOptions) (int, bool) {
		e := m.cache.get(keyOf(c, outline.Key, extentOf(read, p.HistoryLength)))
		if e == nil || !outline.Version().Same(e.version) {
			return 0, false
		}
		cached[outline.Key.ID] = e
		return e.content, true
	})
	if err != nil {
		return nil, err
	}
	out := &a2a.TasksPage[json.RawMessage]{NextPageToken: list.NextPageToken, Page: list.Page, PageSize: list.PageSize, TruncatedBySize: list.TruncatedBySize}
	if out.Tasks, err = m.encodeList(ctx, c, list, cached, p.HistoryLength); err != nil {
		return nil, err
	}
	if list.Total >= 0 {
		out.Total, out.TotalSize, out.TotalCapped = &list.Total, &list.Total, list.TotalCapped
	}
	return out, nil
}

// encodeList returns the tasks of a list: as a JSON array, or as the codec requires. It releases
// each task after encoding it. Files that are blobs are links, because the size of a page does not
// count them.
func (m *Methods) encodeList(ctx context.Context, c *rpc.Call, list *engine.List, cached map[string]*cachedTask, historyLength *int) (out json.RawMessage, err error) {
	codec, view := c.Codec, m.linksView(c)
	items, other := codec.(rpc.BinaryCodec)
	out = make([]byte, 0, 8<<10)
	var item []byte
	for i, t := range list.Tasks {
		list.Tasks[i] = nil
		if !other {
			out = append(out, ',')
			item = out
		}
		switch {
		case t.Outline:
			item = append(item, cached[t.Key.ID].text...)
			m.cache.hits.Add(1)
		case m.cache.cacheable(t):
			item, err = m.appendCacheable(c, item, t, list.Options, historyLength)
		default:
			shown := convertTask(c, t, historyLength)
			if err = view.Task(ctx, shown); err == nil {
				item, err = codec.AppendResult(item, &methodGet, shown)
			}
		}
		if err != nil {
			return nil, err
		}
		if other {
			out, item = items.AppendItem(out, item), item[:0]
		} else {
			out = item
		}
	}
	if other {
		return out, nil
	}
	if len(out) == 0 {
		return append(out, "[]"...), nil
	}
	out[0] = '['
	return append(out, ']'), nil
}
