package webhook

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	v03 "github.com/holdfast-dev/holdfast/a2a/v03"
	"github.com/holdfast-dev/holdfast/internal/memory"
	"github.com/holdfast-dev/holdfast/internal/runtime"
	"github.com/holdfast-dev/holdfast/store"
)

const (
	// memoryTimeout is how long an active lane waits for memory. After that it is deferred
	// by about memoryBackoff.
	memoryTimeout = 2 * time.Second
	memoryBackoff = time.Second

	// smallTask is the maximum size of a task's log, in bytes, for which each lane keeps its
	// own copy of the task's state.
	smallTask = 1 << 20
	// foldedPerByte is the number of bytes of memory needed per byte of a task's log to build
	// its body: the log as read, the task's state, and the body. It does not include the
	// second copy of the newest message.
	foldedPerByte = store.MemoryPerStoredByte + 1
	// bodySlack is the size of a body in addition to its events, in bytes.
	bodySlack = 4 << 10
)

var errNoMemory = errors.New("memory budget is exhausted")

// tooLargeError is the error for an event that needs more memory than the share of its owner.
type tooLargeError struct{ bytes, share int64 }

func (e *tooLargeError) Error() string {
	return fmt.Sprintf("the event is too large: sending it takes %d bytes of memory, one owner may use %d", e.bytes, e.share)
}

// memoryMeter reserves memory for a service and counts it.
type memoryMeter struct {
	budget        *memory.Budget
	held, waiting atomic.Int64 // bytes reserved, lanes that wait
	refused       atomic.Int64 // failed reservations
}

// memoryHold is a reservation in the memory share of an owner.
type memoryHold struct {
	memory.Hold
	meter *memoryMeter
}

func (m *memoryMeter) newHold(owner string) memoryHold { return memoryHold{m.budget.Hold(owner), m} }

// grow reserves more memory, and waits up to memoryTimeout for it. Errors are errNoMemory,
// *tooLargeError and the error of ctx.
func (h *memoryHold) grow(ctx context.Context, bytes int64) error {
	h.meter.waiting.Add(1)
	defer h.meter.waiting.Add(-1)
	short, cancel := context.WithTimeout(ctx, memoryTimeout)
	defer cancel()
	err := h.Grow(short, bytes)
	switch {
	case err == nil:
		h.meter.held.Add(bytes)
	case a2a.CodeOf(err) == a2a.CodeTooLarge:
		return &tooLargeError{h.Bytes() + bytes, h.meter.budget.Share()}
	case ctx.Err() != nil:
		return ctx.Err()
	default:
		h.meter.refused.Add(1)
		return errNoMemory
	}
	return nil
}

// tryGrow reserves memory if it is free now, and reports whether it succeeded.
func (h *memoryHold) tryGrow(bytes int64) bool {
	if !h.TryGrow(bytes) {
		h.meter.refused.Add(1)
		return false
	}
	h.meter.held.Add(bytes)
	return true
}

// shrink releases all but left bytes.
func (h *memoryHold) shrink(left int64) {
	if excess := h.Bytes() - left; excess > 0 {
		h.meter.held.Add(-excess)
		h.Shrink(excess)
	}
}

// sharedKey identifies data that lanes of a task share: a body with the state of the task
// after event seq or, if format is empty, the events from seq on in a large row of its log.
type sharedKey struct {
	task    store.Key
	created int64
	seq     int64
	format  a2a.PayloadFormat
}

// sharedItem is large data that is created once for all lanes that need it at the same time.
type sharedItem struct {
	key    sharedKey
	users  int // guarded by pool.mu
	cancel context.CancelFunc
	ready  chan struct{} // closed when events, body and err are set
	memory memoryHold

	// Immutable after ready is closed.
	events []store.Event
	body   []byte
	err    error
}

// pool holds the shared items in use. It is safe for concurrent use.
type pool struct {
	*common
	ctx     context.Context // context of reads
	workers *sync.WaitGroup // counts reads

	mu    sync.Mutex
	items map[sharedKey]*sharedItem
}

// get returns the item with a key, and creates it if necessary. The caller must return it
// with put.
func (p *pool) get(ctx context.Context, key sharedKey, create func(context.Context, *sharedItem) error) (*sharedItem, error) {
	p.mu.Lock()
	item := p.items[key]
	if item == nil {
		call, cancel := context.WithTimeoutCause(p.ctx, p.cfg.Lease, errSlowStore)
		item = &sharedItem{key: key, cancel: cancel, ready: make(chan struct{}), memory: p.memory.newHold(key.task.Owner)}
		p.items[key] = item
		p.workers.Go(func() {
			defer cancel()
			var err error
			if panicked := runtime.Guard(func() { err = create(call, item) }); panicked != nil {
				err = panicked
			}
			p.complete(item, err)
		})
	}
	item.users++
	p.mu.Unlock()
	select {
	case <-item.ready:
		if item.err == nil {
			return item, nil
		}
		defer p.put(item)
		return nil, item.err
	case <-ctx.Done():
		p.put(item)
		return nil, ctx.Err()
	}
}

// complete sets the result of an item and wakes its users.
func (p *pool) complete(item *sharedItem, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	item.err = err
	close(item.ready)
	if err != nil || item.users == 0 {
		p.discard(item)
	}
}

// put returns an item. The last user's call releases its memory.
func (p *pool) put(item *sharedItem) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if item.users--; item.users > 0 {
		return
	}
	select {
	case <-item.ready:
		p.discard(item)
	default:
		item.cancel()
		p.forget(item)
	}
}

func (p *pool) forget(item *sharedItem) {
	if p.items[item.key] == item {
		delete(p.items, item.key)
	}
}

func (p *pool) discard(item *sharedItem) {
	p.forget(item)
	item.events, item.body = nil, nil
	item.memory.shrink(0)
}

// readRow returns a function that reads the events of a log row after an event.
func (p *pool) readRow(task store.Key, after int64, row store.LogRow) func(context.Context, *sharedItem) error {
	return func(ctx context.Context, item *sharedItem) (err error) {
		if err := item.memory.grow(ctx, foldedPerByte*row.Bytes); err != nil { // the memory also covers a body built from the row
			return err
		}
		if item.events, err = p.cfg.Store.Events(ctx, task, after, int(row.Last()-after)); err == nil && len(item.events) == 0 {
			err = fmt.Errorf("task %s: log has no event after %d", task.ID, after)
		}
		return err
	}
}

// encodeTask returns a function that encodes the state of a large task after an event.
func (p *pool) encodeTask(task store.Key, contextID string, seq int64) func(context.Context, *sharedItem) error {
	return func(ctx context.Context, item *sharedItem) error {
		size, last, err := store.LogSize(ctx, p.cfg.Store, task, seq)
		if err != nil {
			return err
		}
		maxBody := size + last + bodySlack
		if err := item.memory.grow(ctx, store.MemoryPerStoredByte*size+maxBody); err != nil {
			return err
		}
		t := &store.Task{Key: task, ContextID: contextID}
		if err := p.fold(ctx, t, seq); err != nil {
			return err
		}
		shown := taskOf(t)
		if err := p.files(task.Owner, &item.memory).Task(ctx, shown); err != nil {
			return err
		}
		if item.body, err = (v03.Codec{}).AppendEvent(make([]byte, 0, maxBody), shown); err != nil {
			return &permanentError{"the event cannot be sent: " + err.Error()}
		}
		if excess := int64(cap(item.body)) - item.memory.Bytes(); excess > 0 {
			return item.memory.grow(ctx, excess)
		}
		item.memory.shrink(int64(cap(item.body)))
		return nil
	}
}
