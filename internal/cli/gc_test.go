package cli

import "testing"

func TestSmallHeapsAreCollectedLessOften(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		live uint64
		want int
	}{
		{0, 400},
		{1 << 20, 400},
		{16 << 20, 400},
		{25 << 20, 250},
		{64 << 20, 100},
		{1 << 30, 100},
	} {
		if got := gcPercent(test.live); got != test.want {
			t.Errorf("gcPercent(%d) = %d, want %d", test.live, got, test.want)
		}
	}
}
