// Package memory limits the memory that a process uses for large values: request bodies,
// responses, tasks read from the store, webhook bodies, files and the content of running turns.
package memory

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
)

// Wait is the maximum duration of [Hold.Grow].
const Wait = 10 * time.Second

// Budget is a number of bytes that owners share. One owner holds at most half of them.
//
// Requests that do not fit wait. The owner that holds least is served first. Of one owner's
// requests, the request of the holder that holds most is served first, because that holder frees
// most memory when it is done; equal requests are served in the order of their arrival. If all
// memory is held by holders that wait for more, the request of the one that holds least is
// rejected.
//
// A nil Budget has no limit. A Budget is safe for concurrent use.
type Budget struct {
	total, share int64

	mu      sync.Mutex
	held    int64
	owners  map[string]*account
	waiting int
	refused int64
	largest int64
}

// account has the bytes that one owner holds, and its waiting requests. Budget.drop removes it
// when both are empty.
type account struct {
	held  int64
	queue []*request // in the order in which they are served
}

type request struct {
	bytes   int64
	holder  any   // identifies the holder
	held    int64 // bytes that its holder holds
	refused bool  // set before done is closed
	done    chan struct{}
}

// Stats describes the use of a budget.
type Stats struct {
	Total   int64 // bytes of the budget
	Held    int64 // bytes held now
	Largest int64 // maximum of Held since the start
	Waiting int   // waiting requests
	Refused int64 // requests rejected since the start
}

// New returns a budget of total bytes.
func New(total int64) *Budget {
	return &Budget{total: total, share: max(total/2, 1), owners: make(map[string]*account)}
}

// Share returns the number of bytes that one owner may hold.
func (b *Budget) Share() int64 {
	if b == nil {
		return 1<<63 - 1
	}
	return b.share
}

// Stats returns the current use.
func (b *Budget) Stats() Stats {
	if b == nil {
		return Stats{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return Stats{Total: b.total, Held: b.held, Largest: b.largest, Waiting: b.waiting, Refused: b.refused}
}

// Hold returns an empty hold of an owner.
func (b *Budget) Hold(owner string) Hold { return Hold{b: b, owner: owner} }

// Hold is a number of bytes that an owner holds of a budget. The zero value has no budget and
// grows without limit. A Hold is not safe for concurrent use.
type Hold struct {
	b     *Budget
	owner string
	bytes int64

	holder any   // see Of
	other  int64 // bytes of the holder's other holds
}

// Of returns h as one of several holds of one holder. holder is any comparable value; other is
// the number of bytes in its other holds. Requests are ordered, and checked against the limit of
// the owner, by the sum of the holder's holds.
func (h Hold) Of(holder any, other int64) Hold {
	h.holder, h.other = holder, other
	return h
}

// Bytes returns the number of bytes held.
func (h *Hold) Bytes() int64 { return h.bytes }

// Grow adds bytes to the hold. Call it before you allocate the memory. If the bytes are not free,
// Grow waits for up to [Wait] or until ctx is done; then it returns an error with code
// [a2a.CodeExhausted] and leaves h unchanged. It returns that error earlier if all memory is held
// by holders that wait, and h's holder holds least of them. If the holder would exceed the share of
// one owner, Grow returns an error with code [a2a.CodeTooLarge] at once.
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

// TryGrow adds bytes if they are free, and reports whether it added them. It adds none if the owner
// has a waiting request, or if another waiting owner is below its share.
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

// Shrink releases bytes, at most those that are held.
func (h *Hold) Shrink(bytes int64) {
	if bytes = min(bytes, h.bytes); h.b == nil || bytes <= 0 {
		return
	}
	h.bytes -= bytes
	h.b.release(h.owner, bytes)
}

// Release releases all bytes. A second call has no effect.
func (h *Hold) Release() { h.Shrink(h.bytes) }

// take waits for more bytes for a hold.
func (b *Budget) take(ctx context.Context, h *Hold, bytes int64) error {
	owner := h.owner
	b.mu.Lock()
	if all := h.bytes + h.other + bytes; all > b.share {
		b.refused++
		b.mu.Unlock()
		return a2a.Errorf(a2a.CodeTooLarge, "needs %d bytes of memory at once; one owner may hold at most %d (see --memory)", all, b.share)
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
	b.serve() // the other waiting requests may all exceed the shares of their owners
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
		return a2a.Errorf(a2a.CodeExhausted, "no memory is free for this request (see --memory); retry later")
	}
	return nil
}

// refuse rejects the i-th waiting request of an owner. The caller holds b.mu.
func (b *Budget) refuse(owner string, a *account, i int) {
	r := a.queue[i]
	a.queue = slices.Delete(a.queue, i, i+1)
	b.waiting--
	b.refused++
	b.drop(owner, a)
	r.refused = true
	close(r.done)
}

// refuseStuck rejects a request of an owner if holders that wait hold all memory that the owner
// may have, since none of them would release any before its wait ends. The caller holds b.mu and
// has called serve.
func (b *Budget) refuseStuck(owner string, a *account) {
	if len(a.queue) == 0 || a.queue[0].held == 0 {
		return
	}
	stuck := a.held+a.queue[0].bytes > b.share && a.waiters() >= a.held
	if !stuck { // do the waiting holders of all owners hold all memory?
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

// waiters returns the number of bytes that waiting holders hold.
func (a *account) waiters() (held int64) {
	holders := make(map[any]int64)
	for _, r := range a.queue {
		if r.held == 0 { // the queue is sorted: the others hold none either
			break
		}
		if more := r.held - holders[r.holder]; more > 0 {
			holders[r.holder] += more
			held += more
		}
	}
	return held
}

func (b *Budget) release(owner string, bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.owners[owner]
	a.held -= bytes
	b.held -= bytes
	b.drop(owner, a)
	b.serve()
	b.refuseStuck(owner, a)
}

// fits reports whether an owner may hold the given number of bytes more. The caller holds b.mu.
func (b *Budget) fits(a *account, bytes int64) bool {
	return b.held+bytes <= b.total && (a == nil || a.held+bytes <= b.share)
}

// saving reports whether free memory is reserved for a waiting request. The caller holds b.mu.
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

// drop removes the account of an owner that holds nothing and has no waiting request. The caller
// holds b.mu.
func (b *Budget) drop(owner string, a *account) {
	if a.held == 0 && len(a.queue) == 0 {
		delete(b.owners, owner)
	}
}

// serve grants waiting requests, as far as memory is free. The caller holds b.mu.
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
			return // memory that is released next is granted to this request
		}
		r := next.queue[0]
		next.queue = next.queue[1:]
		b.waiting--
		b.grant(owner, r.bytes)
		close(r.done)
	}
}
