package postgres

import (
	"context"
	"encoding/binary"
	"sync"
)

// listReads lets concurrent callers of the same page share one read. A call shares a read only
// if the read starts after the call, so that it sees all commits before the call.
type listReads struct {
	mu      sync.Mutex
	reading map[string]*listRead // by walk.key
}

// listRead is a read of a page that callers wait for.
type listRead struct {
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}

	// These belong to listReads.mu.
	callers int       // the read is canceled at 0
	next    *listRead // the read after this one, of the same page

	// These are complete when done is closed. Callers do not change them.
	found listRows
	err   error
}

// listRows is the rows of a page, with one more if the list continues, and its total, -1 if
// not requested.
type listRows struct {
	rows   []taskRow
	total  int
	capped bool
}

// do calls read, or waits for another caller's call of read with the same key.
func (l *listReads) do(ctx context.Context, key string, read func(ctx context.Context) (listRows, error)) (listRows, error) {
	r := l.join(ctx, key, read)
	select {
	case <-r.done:
		return r.found, r.err
	case <-ctx.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		if r.callers--; r.callers == 0 {
			r.cancel()
		}
		return listRows{}, ctx.Err()
	}
}

// join returns the first read of a page that has not started, and starts it if no other read
// of the page is running.
func (l *listReads) join(ctx context.Context, key string, read func(ctx context.Context) (listRows, error)) *listRead {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.reading[key]
	if now != nil && now.next != nil && now.next.callers > 0 {
		now.next.callers++
		return now.next
	}
	r := &listRead{done: make(chan struct{}), callers: 1}
	r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if now != nil {
		now.next = r
		return r
	}
	if l.reading == nil {
		l.reading = make(map[string]*listRead)
	}
	l.reading[key] = r
	go l.run(key, r, read)
	return r
}

// run reads a page until no caller waits for another read.
func (l *listReads) run(key string, r *listRead, read func(ctx context.Context) (listRows, error)) {
	for r != nil {
		r.found, r.err = read(r.ctx)
		r.cancel()
		close(r.done)
		l.mu.Lock()
		if r = r.next; r != nil {
			l.reading[key] = r
		} else {
			delete(l.reading, key)
		}
		l.mu.Unlock()
	}
}

// key returns a string that is unique for a statement with its arguments.
func (w *walk) key(text string) string {
	key := []byte(text)
	for _, arg := range w.args {
		p := param(arg)
		key = append(binary.AppendUvarint(key, uint64(len(p))), p...)
	}
	return string(key)
}
