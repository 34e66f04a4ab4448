package memory

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/testseed"
)

func TestOneOwnerHoldsAtMostHalf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := New(100)
		bob, alice := b.Hold("bob"), b.Hold("alice")
		if err := bob.Grow(t.Context(), 50); err != nil {
			t.Fatalf("Grow(50) = %v", err)
		}
		more := b.Hold("bob")
		before := time.Now()
		if err := more.Grow(t.Context(), 1); a2a.CodeOf(err) != a2a.CodeExhausted {
			t.Errorf("Grow(1) over the share = %v, want exhausted", err)
		}
		if waited := time.Since(before); waited != Wait {
			t.Errorf("Grow() waited %s, want %s", waited, Wait)
		}
		if err := alice.Grow(t.Context(), 50); err != nil {
			t.Errorf("Grow(50) of another owner = %v", err)
		}
		if err := alice.Grow(t.Context(), 1); a2a.CodeOf(err) != a2a.CodeTooLarge {
			t.Errorf("Grow() of one hold over the share = %v, want too large", err)
		}
		bob.Release()
		bob.Release()
		alice.Release()
		if s := b.Stats(); s.Held != 0 || s.Waiting != 0 || s.Refused != 2 || s.Largest != 100 || len(b.owners) != 0 {
			t.Errorf("Stats() = %+v with %d owners, want nothing held, 2 refused", s, len(b.owners))
		}
	})
}

func TestLargestHoldOfAnOwnerIsServedFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := New(140)
		hold := func(bytes int64) *Hold {
			h := b.Hold("bob")
			if err := h.Grow(t.Context(), bytes); err != nil {
				t.Fatalf("Grow(%d) = %v", bytes, err)
			}
			return &h
		}
		done, small, large, other := hold(10), hold(10), hold(30), hold(20)
		var order []string
		wait := func(name string, h *Hold, bytes int64) {
			go func() {
				if err := h.Grow(t.Context(), bytes); err != nil {
					t.Errorf("Grow(%d) of %s = %v", bytes, name, err)
				}
				order = append(order, name)
				h.Shrink(10) // what the next one needs
			}()
			synctest.Wait()
		}
		first, second := b.Hold("bob"), b.Hold("bob")
		file := b.Hold("bob").Of(other, 20)
		wait("first new one", &first, 10)
		wait("the one with 10", small, 10)
		wait("second new one", &second, 10)
		wait("the one with 30", large, 10)
		wait("the one with 20 elsewhere", &file, 10)
		done.Release()
		synctest.Wait()
		want := []string{"the one with 30", "the one with 20 elsewhere", "the one with 10", "first new one", "second new one"}
		if !slices.Equal(order, want) {
			t.Errorf("order = %q, want %q", order, want)
		}
		if s := b.Stats(); s.Held != 60 || s.Waiting != 0 || s.Refused != 0 {
			t.Errorf("Stats() = %+v, want 60 held, nothing refused", s)
		}
	})
}

func TestOwnerWithLeastMemoryIsServedFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := New(100)
		first, second := b.Hold("bob"), b.Hold("carol")
		_, _ = first.Grow(t.Context(), 50), second.Grow(t.Context(), 50)
		var order []string
		var mu sync.Mutex
		wait := func(owner string, bytes int64) {
			go func() {
				h := b.Hold(owner)
				if err := h.Grow(t.Context(), bytes); err != nil {
					t.Errorf("Grow(%d) of %s = %v", bytes, owner, err)
				}
				mu.Lock()
				order = append(order, owner)
				mu.Unlock()
				h.Release()
			}()
			synctest.Wait()
		}
		wait("carol", 10)
		wait("alice", 40)
		first.Shrink(30)
		synctest.Wait()
		if len(order) != 0 {
			t.Errorf("%v went first, want nobody: alice holds least and waits for 40", order)
		}
		first.Shrink(20)
		synctest.Wait()
		if len(order) == 0 || order[0] != "alice" {
			t.Errorf("order = %v, want alice first", order)
		}
		second.Release()
		synctest.Wait()
		if s := b.Stats(); s.Held != 0 {
			t.Errorf("Stats() = %+v", s)
		}
	})
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := New(10)
		h, other := b.Hold("a"), b.Hold("a")
		_ = h.Grow(t.Context(), 5)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := other.Grow(ctx, 5); a2a.CodeOf(err) != a2a.CodeExhausted || other.Bytes() != 0 {
			t.Errorf("Grow() = %v, holds %d", err, other.Bytes())
		}
		if other.TryGrow(5) {
			t.Error("TryGrow() over the share = true")
		}
		h.Release()
		if !other.TryGrow(5) {
			t.Error("TryGrow() of what is free = false")
		}
	})
}

func TestWaitingForTheOwnShareDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := New(100)
		bob, more, alice := b.Hold("bob"), b.Hold("bob"), b.Hold("alice")
		_ = bob.Grow(t.Context(), 40)
		go func() { _ = more.Grow(t.Context(), 20) }()
		synctest.Wait()
		if !alice.TryGrow(30) {
			t.Error("TryGrow() = false while another waits for its own share")
		}
		if rest := b.Hold("bob"); rest.TryGrow(1) {
			t.Error("TryGrow() = true before an earlier request of the same owner")
		}
		carol := b.Hold("carol")
		go func() { _ = carol.Grow(t.Context(), 50) }()
		synctest.Wait()
		if alice.TryGrow(1) {
			t.Error("TryGrow() = true of what another waits for")
		}
		time.Sleep(2 * Wait)
	})
}

func TestHoldsNeverExceedTheBudget(t *testing.T) {
	t.Parallel()
	b := New(1000)
	var held atomic.Int64
	seed := testseed.Of(t)
	var group sync.WaitGroup
	for i := range 32 {
		group.Go(func() {
			h, r := b.Hold(string(rune('a'+i%3))), rand.New(rand.NewPCG(seed, uint64(i)))
			for range 500 {
				n := 1 + r.Int64N(200)
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.IntN(1000))*time.Microsecond)
				if h.Grow(ctx, n) == nil {
					if now := held.Add(n); now > 1000 {
						t.Errorf("%d bytes are held", now)
					}
				}
				cancel()
				if r.IntN(2) == 0 {
					held.Add(-h.Bytes())
					h.Release()
				}
			}
			held.Add(-h.Bytes())
			h.Release()
		})
	}
	group.Wait()
	if s := b.Stats(); s.Held != 0 || s.Waiting != 0 || len(b.owners) != 0 {
		t.Errorf("Stats() = %+v, %d owners", s, len(b.owners))
	}
}

func TestNoBudgetGrantsEverything(t *testing.T) {
	t.Parallel()
	var b *Budget
	h := b.Hold("a")
	if err := h.Grow(t.Context(), 1<<60); err != nil || !h.TryGrow(1<<60) {
		t.Errorf("Grow() = %v", err)
	}
	h.Release()
}

func TestLimitIsTheLeastOfAllGroups(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"machine": {map[string]string{"/proc/meminfo": "MemTotal:    1024 kB\n"}, 1 << 20},
		"version 2, the group around": {map[string]string{
			"/proc/meminfo": "MemFree: 1 kB\nMemTotal:    1024 kB\n", "/proc/self/cgroup": "0::/a/b\n",
			"/sys/fs/cgroup/a/b/memory.max": "max\n", "/sys/fs/cgroup/a/memory.max": "4096\n",
		}, 4096},
		"version 2, in a container": {map[string]string{
			"/proc/meminfo": "MemTotal: 1024 kB\n", "/proc/self/cgroup": "0::/docker/abc\n", "/sys/fs/cgroup/memory.max": "8192\n",
		}, 8192},
		"version 1": {map[string]string{
			"/proc/meminfo": "MemTotal: 1024 kB\n", "/proc/self/cgroup": "5:cpu:/x\n4:memory:/x\n",
			"/sys/fs/cgroup/memory/x/memory.limit_in_bytes": "9223372036854771712\n", "/sys/fs/cgroup/memory/memory.limit_in_bytes": "2048\n",
		}, 2048},
		"nothing": {nil, 0},
	} {
		got := limit(func(name string) ([]byte, error) {
			if text, ok := c.files[name]; ok {
				return []byte(text), nil
			}
			return nil, errors.Join(os.ErrNotExist)
		})
		if got != c.want {
			t.Errorf("%s: limit() = %d, want %d", name, got, c.want)
		}
	}
}

func TestHoldersThatWaitForEachOtherDoNotWaitInVain(t *testing.T) {
	t.Parallel()
	for _, owners := range [][]string{{"bob", "bob", "bob"}, {"alice", "bob", "carol"}} {
		synctest.Test(t, func(t *testing.T) {
			b := New(200) // 100 for each owner
			if owners[0] != owners[1] {
				b = New(100) // less than the owners together may hold
			}
			start := time.Now()
			var group sync.WaitGroup
			var refused, completed atomic.Int64
			for _, owner := range owners {
				group.Go(func() {
					for {
						var one, two Hold
						one = b.Hold(owner)
						if err := one.Grow(t.Context(), 30); err != nil {
							t.Error(err)
							return
						}
						time.Sleep(time.Second) // all hold a part
						two = b.Hold(owner).Of(&one, one.Bytes())
						err := two.Grow(t.Context(), 20)
						if err == nil {
							time.Sleep(time.Second)
						}
						two.Release()
						one.Release()
						if err == nil {
							completed.Add(1)
							return
						}
						refused.Add(1)
					}
				})
			}
			group.Wait()
			if took := time.Since(start); took >= Wait || refused.Load() == 0 || completed.Load() != int64(len(owners)) {
				t.Errorf("%v: %d completed and %d were refused in %s, want all to complete, some refused at once, in less than %s", owners, completed.Load(), refused.Load(), took, Wait)
			}
			if s := b.Stats(); s.Held != 0 || s.Waiting != 0 {
				t.Errorf("Stats() = %+v at the end, want nothing held", s)
			}
		})
	}
}
