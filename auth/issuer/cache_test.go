package issuer

import (
	"crypto/sha256"
	"encoding/binary"
	"testing"
	"time"
)

func TestCachesAreBounded(t *testing.T) {
	t.Parallel()
	key := func(n int) (k [sha256.Size]byte) {
		binary.BigEndian.PutUint64(k[:], uint64(n)) //nolint:gosec // not negative
		return k
	}
	now := time.Unix(1, 0)
	var c cache[int]
	const used = 0 // read after each insertion
	for n := range 10 * maxCached {
		c.put(key(n), n, now.Add(time.Second))
		if _, ok := c.get(key(used), now); !ok {
			t.Fatalf("get(%d) after %d insertions = false, want the value that is in use", used, n)
		}
		if size := c.values.Len(); size > maxCached {
			t.Fatalf("%d values after %d insertions, want at most %d", size, n, maxCached)
		}
	}
	last := 10*maxCached - 1
	if v, ok := c.get(key(last), now); !ok || v != last {
		t.Errorf("get(%d) = %d, %v, want the newest value", last, v, ok)
	}
	if _, ok := c.get(key(1), now); ok {
		t.Errorf("get(1) = true, want it dropped")
	}
	if _, ok := c.get(key(last), now.Add(time.Second)); ok {
		t.Errorf("get(%d) after its time = true, want it expired", last)
	}
}

// Tokens stay verified while the issuer's keys are the same.
func TestEqualKeySetsAreOne(t *testing.T) {
	t.Parallel()
	now := time.Unix(1, 0)
	var k keyring
	first, equal, other := &keySet{raw: []byte("a")}, &keySet{raw: []byte("a")}, &keySet{raw: []byte("b")}
	for n, step := range []struct{ set, want *keySet }{{first, first}, {equal, first}, {other, other}, {first, first}} {
		k.replace(step.set, now)
		if got := k.current(now); got != step.want {
			t.Errorf("%d: current() = %p, want %p", n, got, step.want)
		}
	}
	if got := k.current(now.Add(maxKeyAge + time.Second)); got != nil {
		t.Errorf("current() after %s = %p, want nil", maxKeyAge, got)
	}
}
