package recent_test

import (
	"testing"

	"github.com/holdfast-dev/holdfast/internal/recent"
)

func TestEntriesThatAreUsedRemain(t *testing.T) {
	t.Parallel()
	m := recent.Map[int, int]{Max: 10}
	if v, ok := m.Get(1); ok {
		t.Errorf("Get() of an empty map = %d", v)
	}
	for i := range 1000 {
		m.Put(i, 2*i)
		if n := m.Len(); n > 20 {
			t.Fatalf("Len() after entry %d = %d, want at most 20", i, n)
		}
		if v, ok := m.Get(0); !ok || v != 0 {
			t.Fatalf("Get(0) after %d entries = %d, %t, want the entry that is always used", i, v, ok)
		}
		for last := max(0, i-8); last <= i; last++ {
			if v, ok := m.Get(last); !ok || v != 2*last {
				t.Fatalf("Get(%d) after entry %d = %d, %t, want %d", last, i, v, ok, 2*last)
			}
		}
	}
	m.Put(999, 1)
	if v, _ := m.Get(999); v != 1 {
		t.Errorf("Get(999) = %d, want the new value", v)
	}
}
