package push

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/memory"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

const (
	// memoryWait is how long a lane waits for memory while it has a place; then it is put
	// off by about memoryPause.
	memoryWait  = 2 * time.Second
	memoryPause = time.Second

	// smallTask is how large the log of a task may be, in bytes, for each of its lanes to
	// fold it by itself, one event after the other.
	smallTask = 1 << 20
	// A task's state takes its log twice (as it is read, and folded) and its body, which has
	// the newest message twice. foldedPerByte is that without the second message.
	foldedPerByte = store.LoadedPerByte + 1
	// bodySlack is by how much a body may be larger than the events in it.
	bodySlack = 4 << 10
)

var errNoMemory = errors.New("no memory is free for the request")

// tooLarge is an error of an event for which its owner can never have the memory.
type tooLarge struct{ bytes, share int64 }

func (e *tooLarge) Error() string {
	return fmt.Sprintf("the update is too large: sending it takes %d bytes of memory, one owner may use %d", e.bytes, e.share)
}

// ledger counts the memory of a service.
type ledger struct {
	budget        *memory.Budget
	held, waiting atomic.Int64 // bytes, lanes
	refused       atomic.Int64 // times
}

// hold is a part of the memory of an owner.
type hold struct {
	memory.Hold
	ledger *ledger
}

func (l *ledger) hold(owner string) hold { return hold{l.budget.Hold(owner), l} }

// grow waits for memory. Its error is errNoMemory, a *tooLarge, or that of ctx.
func (h *hold) grow(ctx context.Context, bytes int64) error {
	h.ledger.waiting.Add(1)
	defer h.ledger.waiting.Add(-1)
	short, cancel := context.WithTimeout(ctx, memoryWait)
	defer cancel()
	err := h.Grow(short, bytes)
	switch {
	case err == nil:
		h.ledger.held.Add(bytes)
	case a2a.CodeOf(err) == a2a.CodeTooLarge:
		return &tooLarge{h.Bytes() + bytes, h.ledger.budget.Share()}
	case ctx.Err() != nil:
		return ctx.Err()
	default:
		h.ledger.refused.Add(1)
		return errNoMemory
	}
	return nil
}

// try takes memory that is free now, and reports whether it did.
func (h *hold) try(bytes int64) bool {
	if !h.TryGrow(bytes) {
		h.ledger.refused.Add(1)
		return false
	}
	h.ledger.held.Add(bytes)
	return true
}

// shrink gives back all but the given number of bytes.
func (h *hold) shrink(left int64) {
	if over := h.Bytes() - left; over > 0 {
		h.ledger.held.Add(-over)
		h.Shrink(over)
	}
}

// sharedKey names what lanes of a task share: the body for its state after an event, or,
// without a format, the events of a large row of its log.
type sharedKey struct {
	task    store.Key
	created int64
	seq     int64
	format  a2a.PayloadFormat
}

// shared is something large that is made once for all lanes that need it at a time.
type shared struct {
	key    sharedKey
	users  int // guarded by pool.mu
	cancel context.CancelFunc
	ready  chan struct{} // closed when it is made
	hold   hold

	// Not changed once it is ready.
	events []store.Event
	body   []byte
	err    error
}

// pool has what is shared now. It is safe for concurrent use.
type pool struct {
	mu    sync.Mutex
	items map[sharedKey]*shared
}

// get returns what is shared under a key, and has it made first if need be. It is to be put
// back.
func (s *Service) get(ctx context.Context, key sharedKey, create func(context.Context, *shared) error) (*shared, error) {
	p := &s.pool
	p.mu.Lock()
	item := p.items[key]
	if item == nil {
		call, cancel := context.WithTimeoutCause(s.sending, s.cfg.Lease, errSlowStore)
		item = &shared{key: key, cancel: cancel, ready: make(chan struct{}), hold: s.ledger.hold(key.task.Owner)}
		p.items[key] = item
		s.working.Go(func() {
			defer cancel()
			var err error
			if panicked := guard(func() { err = create(call, item) }); panicked != nil {
				err = panicked
			}
			p.made(item, err)
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

// made has the users of an item continue.
func (p *pool) made(item *shared, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	item.err = err
	close(item.ready)
	if err != nil || item.users == 0 {
		p.drop(item)
	}
}

// put gives an item back. The last to do so gives back its memory.
func (p *pool) put(item *shared) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if item.users--; item.users > 0 {
		return
	}
	select {
	case <-item.ready:
		p.drop(item)
	default:
		item.cancel()
		p.forget(item)
	}
}

func (p *pool) forget(item *shared) {
	if p.items[item.key] == item {
		delete(p.items, item.key)
	}
}

func (p *pool) drop(item *shared) {
	p.forget(item)
	item.events, item.body = nil, nil
	item.hold.shrink(0)
}

// readRow returns a function that reads the events of a row of a log behind a place.
func (s *Service) readRow(task store.Key, after int64, row store.LogRow) func(context.Context, *shared) error {
	return func(ctx context.Context, item *shared) (err error) {
		if err := item.hold.grow(ctx, foldedPerByte*row.Bytes); err != nil { // with a body
			return err
		}
		if item.events, err = s.cfg.Store.Events(ctx, task, after, int(row.Last()-after)); err == nil && len(item.events) == 0 {
			err = fmt.Errorf("task %s: log has no event behind %d", task.ID, after)
		}
		return err
	}
}

// encodeTask returns a function that encodes a large task as it stood after an event.
func (s *Service) encodeTask(task store.Key, contextID string, seq int64) func(context.Context, *shared) error {
	return func(ctx context.Context, item *shared) error {
		size, last, err := store.LogSize(ctx, s.cfg.Store, task, seq)
		if err != nil {
			return err
		}
		most := size + last + bodySlack
		if err := item.hold.grow(ctx, store.LoadedPerByte*size+most); err != nil {
			return err
		}
		t := &store.Task{Key: task, ContextID: contextID}
		if err := s.fold(ctx, t, seq); err != nil {
			return err
		}
		if item.body, err = wire.Append(make([]byte, 0, most), taskOf(t)); err != nil {
			return &permanent{"the update cannot be sent: " + err.Error()}
		}
		if over := int64(cap(item.body)) - item.hold.Bytes(); over > 0 {
			return item.hold.grow(ctx, over)
		}
		item.hold.shrink(int64(cap(item.body)))
		return nil
	}
}
