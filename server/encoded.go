package server

import (
	"bytes"
	"container/list"
	"context"
	"encoding/json"
	"math"
	"sync"
	"sync/atomic"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/rpc"
	"github.com/holdfast-dev/holdfast/store"
)

// encodedTasks keeps tasks that are over as they were encoded for a response. An encoding is
// used for the version of its task only, which the store reports without reading content. The
// least recently used leave first.
type encodedTasks struct {
	limit int64

	mu    sync.Mutex
	bytes int64
	kept  map[encodingKey]*list.Element
	order list.List // of *encoding, the most recently used first

	hits atomic.Int64
}

// encodingKey names an encoding: the same task differs by how much of it was asked for.
type encodingKey struct {
	task store.Key
	extent
}

// extent is how much of a task a response has.
type extent struct {
	history   int  // the most messages, -1 for all
	given     bool // the caller gave historyLength, see [v03.History]
	artifacts bool
}

func extentOf(read store.TaskOptions, historyLength *int) extent {
	e := extent{history: -1, given: historyLength != nil, artifacts: !read.OmitArtifacts}
	if read.History != nil {
		e.history = *read.History
	}
	return e
}

type encoding struct {
	key     encodingKey
	version store.TaskVersion
	text    json.RawMessage // not to be changed
	content int             // the task's Size as far as text has it
}

// encodingOverhead is about how much memory an encoding takes beside its text.
const encodingOverhead = 768

func (e *encoding) bytes() int64 { return int64(len(e.text)) + encodingOverhead }

func newEncodedTasks(limit int64) *encodedTasks {
	return &encodedTasks{limit: limit, kept: make(map[encodingKey]*list.Element)}
}

// find returns the encoding that is kept, of whatever version; nil if there is none.
func (c *encodedTasks) find(key encodingKey) *encoding {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.kept[key]
	if e == nil {
		return nil
	}
	c.order.MoveToFront(e)
	return e.Value.(*encoding)
}

// fits reports whether a task may be kept: it is over, so that it does not change any more,
// and takes a small part of the memory.
func (c *encodedTasks) fits(t *store.Task) bool {
	return t.Status.State.Terminal() && int64(t.Size()) <= c.limit/encodingShare
}

// encodingShare is the part of the memory that one encoding may take.
const encodingShare = 64

func (c *encodedTasks) put(e *encoding) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.bytes() > c.limit/encodingShare {
		return
	}
	c.remove(c.kept[e.key])
	c.kept[e.key] = c.order.PushFront(e)
	for c.bytes += e.bytes(); c.bytes > c.limit; {
		c.remove(c.order.Back())
	}
}

func (c *encodedTasks) remove(e *list.Element) {
	if e == nil {
		return
	}
	gone := c.order.Remove(e).(*encoding)
	delete(c.kept, gone.key)
	c.bytes -= gone.bytes()
}

// encodedInfo says how large the encodings are that are kept, and how often they were used.
type encodedInfo struct {
	Tasks int   `json:"tasks"`
	Bytes int64 `json:"bytes"`
	Hits  int64 `json:"hits"`
}

func (c *encodedTasks) info() encodedInfo {
	c.mu.Lock()
	defer c.mu.Unlock()
	return encodedInfo{Tasks: len(c.kept), Bytes: c.bytes, Hits: c.hits.Load()}
}

// encode returns a task as it is answered, and keeps that.
func (s *Server) encode(t *store.Task, read store.TaskOptions, historyLength *int) (json.RawMessage, error) {
	out := newBuffer()
	defer out.free()
	var err error
	if out.b, err = s.cfg.Dialect.Append(out.b, task(t, historyLength)); err != nil {
		return nil, err
	}
	e := &encoding{
		key: encodingKey{t.Key, extentOf(read, historyLength)}, version: t.Version(),
		text: bytes.Clone(out.b), content: t.Size(),
	}
	s.encoded.put(e)
	return e.text, nil
}

// get returns a task as it is to be answered: encoded, or a value to be encoded.
func (s *Server) get(ctx context.Context, c *rpc.Call, p a2a.TaskQueryParams) (any, error) {
	c.TaskID = p.ID
	read := store.TaskOptions{History: p.HistoryLength}
	kept := s.encoded.find(encodingKey{store.Key{Owner: c.Principal.ID, ID: p.ID}, extentOf(read, p.HistoryLength)})
	if kept != nil {
		now, err := s.cfg.Engine.Version(ctx, c.Principal, p.ID)
		if err == nil && now.Same(kept.version) {
			s.encoded.hits.Add(1)
			return kept.text, nil
		}
	}
	t, err := s.cfg.Engine.Task(ctx, c.Principal, p.ID, p.HistoryLength)
	if err != nil {
		return nil, err
	}
	if s.encoded.fits(t) {
		return s.encode(t, read, p.HistoryLength)
	}
	return task(t, p.HistoryLength), nil
}

func (s *Server) list(ctx context.Context, c *rpc.Call, p a2a.ListTasksParams) (any, error) {
	if s.cfg.Dialect == rpc.Bindu && p.HistoryLength == nil && p.Metadata["historyLength"] == nil && p.Metadata["history_length"] == nil {
		whole := math.MaxInt32 // as its clients expect
		p.HistoryLength = &whole
	}
	known := make(map[string]*encoding)
	list, err := s.cfg.Engine.ListUnknown(ctx, c.Principal, p, func(outline *store.Task, read store.TaskOptions) (int, bool) {
		kept := s.encoded.find(encodingKey{outline.Key, extentOf(read, p.HistoryLength)})
		if kept == nil || !outline.Version().Same(kept.version) {
			return 0, false
		}
		known[outline.Key.ID] = kept
		return kept.content, true
	})
	if err != nil {
		return nil, err
	}
	out := &a2a.TasksPage[json.RawMessage]{NextPageToken: list.NextPageToken, Page: list.Page, PageSize: list.PageSize, TruncatedBySize: list.TruncatedBySize}
	if out.Tasks, err = s.encodeList(list, known, p.HistoryLength); err != nil {
		return nil, err
	}
	if list.Total >= 0 {
		out.Total, out.TotalSize, out.TotalCapped = &list.Total, &list.Total, list.TotalCapped
	}
	return out, nil
}

// encodeList returns the array of the tasks of a list, which it releases one by one.
func (s *Server) encodeList(list *engine.List, known map[string]*encoding, historyLength *int) (out json.RawMessage, err error) {
	out = append(make([]byte, 0, 8<<10), '[')
	for i, t := range list.Tasks {
		if i > 0 {
			out = append(out, ',')
		}
		list.Tasks[i] = nil
		text := json.RawMessage(nil)
		switch {
		case t.Outline:
			text = known[t.Key.ID].text
			s.encoded.hits.Add(1)
		case s.encoded.fits(t):
			if text, err = s.encode(t, list.Options, historyLength); err != nil {
				return nil, err
			}
		default:
			if out, err = s.cfg.Dialect.Append(out, task(t, historyLength)); err != nil {
				return nil, err
			}
		}
		out = append(out, text...)
	}
	return append(out, ']'), nil
}
