//go:build services

package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// blockedRead is a read of a page that lasts until it is released or its context ends.
type blockedRead struct {
	released chan struct{}
	reads    int
}

func (b *blockedRead) read(ctx context.Context) (listRows, error) {
	b.reads++
	n := b.reads
	select {
	case <-b.released:
		return listRows{total: n}, nil
	case <-ctx.Done():
		return listRows{}, ctx.Err()
	}
}

// call starts a caller and returns what its call returns.
func (b *blockedRead) call(ctx context.Context, l *listReads, key string) func() (int, error) {
	var found listRows
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		found, err = l.do(ctx, key, b.read)
	}()
	synctest.Wait()
	return func() (int, error) { <-done; return found.total, err }
}

func TestCallersShareAReadThatStartsAfterThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l listReads
		a, b := &blockedRead{released: make(chan struct{})}, &blockedRead{released: make(chan struct{})}
		first := a.call(t.Context(), &l, "a")
		other := b.call(t.Context(), &l, "b")
		var rest []func() (int, error)
		for range 10 {
			rest = append(rest, a.call(t.Context(), &l, "a"))
		}
		close(a.released)
		close(b.released)
		if n, err := first(); n != 1 || err != nil {
			t.Errorf("the first caller has the result of read %d, %v, want 1", n, err)
		}
		if n, err := other(); n != 1 || err != nil {
			t.Errorf("the caller of another page has the result of read %d, %v, want 1", n, err)
		}
		for i, result := range rest {
			if n, err := result(); n != 2 || err != nil {
				t.Errorf("caller %d, which arrived during the first read, has the result of read %d, %v, want 2", i, n, err)
			}
		}
		synctest.Wait()
		if len(l.reading) != 0 {
			t.Errorf("%d reads are kept, want none", len(l.reading))
		}
	})
}

func TestSharedReadEndsWithItsLastCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l listReads
		b := &blockedRead{released: make(chan struct{})}
		first, firstGone := context.WithCancel(t.Context())
		second, secondGone := context.WithCancel(t.Context())
		running := b.call(first, &l, "a")
		gone := b.call(second, &l, "a")
		secondGone()
		if _, err := gone(); !errors.Is(err, context.Canceled) {
			t.Errorf("the canceled caller has %v, want context.Canceled", err)
		}
		stays := b.call(t.Context(), &l, "a")
		firstGone()
		if _, err := running(); !errors.Is(err, context.Canceled) {
			t.Errorf("the canceled caller has %v, want context.Canceled", err)
		}
		synctest.Wait() // its read ends although it was not released
		close(b.released)
		if n, err := stays(); n != 2 || err != nil {
			t.Errorf("the remaining caller has the result of read %d, %v, want 2", n, err)
		}
	})
}

// Concurrent callers of the same list each find the task that they created before the call.
func TestSharedListsIncludeEarlierCommits(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{}))
	const callers, rounds = 8, 20
	var wg sync.WaitGroup
	for g := range callers {
		wg.Go(func() {
			for i := range rounds {
				n := g*rounds + i
				if err := commitOne(s, submitted(n)); err != nil {
					t.Errorf("create = %v", err)
					return
				}
				page, err := s.Tasks(bg, store.Query{Owner: taskKey(0).Owner, Limit: callers * rounds, Total: true})
				if err != nil {
					t.Errorf("Tasks() = %v", err)
					return
				}
				found := false
				for _, task := range page.Tasks {
					found = found || task.Key == taskKey(n)
				}
				if !found || page.Total < i+1 {
					t.Errorf("a list of %d tasks, total %d, has task %d: %t, want it", len(page.Tasks), page.Total, n, found)
				}
			}
		})
	}
	wg.Wait()
}

// Different queries have different keys.
func TestPageKeysAreUnique(t *testing.T) {
	t.Parallel()
	keys := make(map[string]string)
	for _, args := range [][]any{
		{}, {""}, {"", ""}, {"a", "b"}, {"ab", ""}, {"", "ab"}, {"a b"}, {int64(1)}, {int64(1), int64(0)}, {[]string{"a", "b"}}, {[]string{"ab"}}, {[]string{"a"}, []string{"b"}},
	} {
		w := walk{args: args}
		key, name := w.key("SELECT"), fmt.Sprintf("%q", args)
		if other, ok := keys[key]; ok {
			t.Errorf("%s and %s have the same key", name, other)
		}
		keys[key] = name
	}
}
