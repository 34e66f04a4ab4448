// Package memory shares out the memory of a process among what is large: request bodies,
// responses, tasks read from the store, webhook bodies, files, content of running turns.
package memory

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
)

// Wait is how long [Hold.Grow] waits at most.
const Wait = 10 * time.Second

// Budget is a number of bytes that owners share. One owner holds at most half of it. When
// several wait, the owner that holds least is served first. The requests of one owner are served
// in the order of how much their holders have already, the largest first, because its release
// frees most; equals are served in order. When all memory is held by holders that wait for more, the
// request of the one that holds least is refused. A nil Budget grants everything. It is safe for concurrent use.
type Budget struct {
	total, share int64

	mu      sync.Mutex
	held    int64
	owners  map[string]*account
	waiting int
	refused int64
	largest int64
}

// account is what one owner holds and waits for. It exists while there is either.
type account struct {
	held  int64
	queue []*request // the next first
}

type request struct {
	bytes   int64
	holder  any   // identifies the holder
	held    int64 // bytes that its holder has already
	refused bool  // set before done is closed
	done    chan struct{}
}

// Stats are the figures of a budget.
type Stats struct {
	Total   int64 // bytes
	Held    int64 // bytes
	Largest int64 // the most bytes that were held at once
	Waiting int   // requests
	Refused int64 // requests since the start
}

// New returns a budget of total bytes.
func New(total int64) *Budget {
	return &Budget{total: total, share: max(total/2, 1), owners: make(map[string]*account)}
}

// Share returns how many bytes one owner may hold.
func (b *Budget) Share() int64 {
	if b == nil {
		return 1<<63 - 1
	}
	return b.share
}

// Stats returns the figures as they are.
func (b *Budget) Stats() Stats {
	if b == nil {
		return Stats{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return Stats{Total: b.total, Held: b.held, Largest: b.largest, Waiting: b.waiting, Refused: b.refused}
}

// Hold returns an empty hold of an owner. A Hold is used by one goroutine at
// a time.
func (b *Budget) Hold(owner string) Hold { return Hold{b: b, owner: owner} }

// Hold is a part of a budget. The zero value is a part of no budget: it grows without
// limit.
type Hold struct {
	b     *Budget
	owner string
	bytes int64

	holder any   // see Of
	other  int64 // bytes of the holder's other holds
}

// Of returns h as one of several holds of a holder, which is any comparable value and has other bytes in the
// other holds. The holder as a whole counts when the requests of one owner are ordered, and for the
// limit of an owner.
func (h Hold) Of(holder any, other int64) Hold {
	h.holder, h.other = holder, other
	return h
}

// Bytes returns how many bytes are held.
func (h *Hold) Bytes() int64 { return h.bytes }

// Grow adds bytes. While they are not free it waits, up to [Wait] and until ctx is done; then
// it fails with [a2a.CodeExhausted] and h is as before. It also fails with that code when all memory is held by
// holders that wait, of which this one holds least. It fails with [a2a.CodeTooLarge] at once when
// one owner can never hold that much. Grow before the memory is allocated.
func (h *Hold) Grow(ctx context.Context, bytes int64) error {
	if h.b == nil || bytes <= 0 {
		return nil
	}
	if err := h.b.take(ctx, h, bytes); err != nil {
		return err
	}
	h.bytes += bytes
	return nil
}

// TryGrow adds bytes if they are free and nobody waits for them: neither the owner, nor one
// who waits for more than its own share. It reports whether it did.
func (h *Hold) TryGrow(bytes int64) bool {
	if h.b == nil || bytes <= 0 {
		return true
	}
	b := h.b
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.owners[h.owner]
	if !b.fits(a, bytes) || a != nil && len(a.queue) > 0 || b.saving() {
		b.refused++
		return false
	}
	b.grant(h.owner, bytes)
	h.bytes += bytes
	return true
}

// Shrink returns bytes that are not needed any more, at most those that are held.
func (h *Hold) Shrink(bytes int64) {
	if bytes = min(bytes, h.bytes); h.b == nil || bytes <= 0 {
		return
	}
	h.bytes -= bytes
	h.b.give(h.owner, bytes)
}

// Release returns all. Calling it again is harmless.
func (h *Hold) Release() { h.Shrink(h.bytes) }

// take waits for more bytes for a hold.
func (b *Budget) take(ctx context.Context, h *Hold, bytes int64) error {
	owner := h.owner
	b.mu.Lock()
	if all := h.bytes + h.other + bytes; all > b.share {
		b.refused++
		b.mu.Unlock()
		return a2a.Errorf(a2a.CodeTooLarge, "this needs %d bytes of memory at once, one owner may hold %d (--memory)", all, b.share)
	}
	a := b.owners[owner]
	if b.waiting == 0 && b.fits(a, bytes) {
		b.grant(owner, bytes)
		b.mu.Unlock()
		return nil
	}
	if a == nil {
		a = new(account)
		b.owners[owner] = a
	}
	r := &request{bytes: bytes, holder: h.holder, held: h.bytes + h.other, done: make(chan struct{})}
	if r.holder == nil {
		r.holder = h
	}
	next := len(a.queue)
	for next > 0 && a.queue[next-1].held < r.held {
		next--
	}
	a.queue = slices.Insert(a.queue, next, r)
	b.waiting++
	b.serve() // others may wait for their share only
	if r.held > 0 {
		b.refuseStuck(owner, a)
	}
	b.mu.Unlock()

	timer := time.NewTimer(Wait)
	defer timer.Stop()
	select {
	case <-r.done:
	case <-ctx.Done():
	case <-timer.C:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(a.queue, r); i >= 0 {
		b.refuse(owner, a, i)
		b.serve()
	}
	if r.refused {
		return a2a.Errorf(a2a.CodeExhausted, "the server has no memory for this now (--memory); try again")
	}
	return nil
}

// refuse ends the wait of the i-th request of an owner. The caller holds b.mu.
func (b *Budget) refuse(owner string, a *account, i int) {
	r := a.queue[i]
	a.queue = slices.Delete(a.queue, i, i+1)
	b.waiting--
	b.refused++
	b.drop(owner, a)
	r.refused = true
	close(r.done)
}

// refuseStuck refuses a request of an owner if those who wait hold all memory that it may have: none of them would
// release any before its wait ends. The caller holds b.mu, and has called serve.
func (b *Budget) refuseStuck(owner string, a *account) {
	if len(a.queue) == 0 || a.queue[0].held == 0 {
		return
	}
	stuck := a.held+a.queue[0].bytes > b.share && a.waiters() >= a.held
	if !stuck { // do those of all owners hold all?
		held := int64(0)
		for _, each := range b.owners {
			held += each.waiters()
		}
		stuck = held >= b.held
	}
	if !stuck {
		return
	}
	for i, r := range slices.Backward(a.queue) {
		if r.held > 0 {
			b.refuse(owner, a, i)
			return
		}
	}
}

// waiters returns how many bytes the holders that wait have already.
func (a *account) waiters() (held int64) {
	holders := make(map[any]int64)
	for _, r := range a.queue {
		if r.held == 0 { // as are those that follow
			break
		}
		if more := r.held - holders[r.holder]; more > 0 {
			holders[r.holder] += more
			held += more
		}
	}
	return held
}

func (b *Budget) give(owner string, bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.owners[owner]
	a.held -= bytes
	b.held -= bytes
	b.drop(owner, a)
	b.serve()
	b.refuseStuck(owner, a)
}

// fits reports whether an owner may have bytes more. The caller holds b.mu.
func (b *Budget) fits(a *account, bytes int64) bool {
	return b.held+bytes <= b.total && (a == nil || a.held+bytes <= b.share)
}

// saving reports whether what is free is for one who waits. The caller holds b.mu.
func (b *Budget) saving() bool {
	if b.waiting == 0 {
		return false
	}
	for _, a := range b.owners {
		if len(a.queue) > 0 && a.held+a.queue[0].bytes <= b.share {
			return true
		}
	}
	return false
}

// grant gives bytes to an owner. The caller holds b.mu.
func (b *Budget) grant(owner string, bytes int64) {
	a := b.owners[owner]
	if a == nil {
		a = new(account)
		b.owners[owner] = a
	}
	a.held += bytes
	b.held += bytes
	b.largest = max(b.largest, b.held)
}

// drop forgets an owner that has nothing and waits for nothing. The caller holds b.mu.
func (b *Budget) drop(owner string, a *account) {
	if a.held == 0 && len(a.queue) == 0 {
		delete(b.owners, owner)
	}
}

// serve grants what it can to those who wait. The caller holds b.mu.
func (b *Budget) serve() {
	for b.waiting > 0 {
		var next *account
		var owner string
		for name, a := range b.owners {
			if len(a.queue) > 0 && a.held+a.queue[0].bytes <= b.share && (next == nil || a.held < next.held) {
				next, owner = a, name
			}
		}
		if next == nil || b.held+next.queue[0].bytes > b.total {
			return // what is freed next is for it
		}
		r := next.queue[0]
		next.queue = next.queue[1:]
		b.waiting--
		b.grant(owner, r.bytes)
		close(r.done)
	}
}
