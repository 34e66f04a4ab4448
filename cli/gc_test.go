package cli

import "testing"

func TestSmallHeapsAreCollectedLessOften(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		inMemory    bool
		limit, live int64
		want        int
	}{
		{false, 4 << 30, 0, 400},
		{false, 4 << 30, 1 << 20, 400},
		{false, 4 << 30, 16 << 20, 400},
		{false, 4 << 30, 25 << 20, 250},
		{false, 4 << 30, 64 << 20, 100},
		{false, 4 << 30, 1 << 30, 100},
		{true, 4 << 30, 1 << 20, 400},
		{true, 4 << 30, 128 << 20, 400},
		{true, 4 << 30, 256 << 20, 200},
		{true, 4 << 30, 512 << 20, 100},
		{true, 256 << 20, 64 << 20, 100},
	} {
		if got := gcPercent(uint64(test.live), gcHeadroomOf(test.inMemory, test.limit)); got != test.want {
			t.Errorf("gcPercent() of %d live bytes, in memory %t, limit %d = %d, want %d", test.live, test.inMemory, test.limit, got, test.want)
		}
	}
}

func TestMemoryIsReleasedOncePerIdlePeriod(t *testing.T) {
	t.Parallel()
	var (
		idle      idleDetector
		allocated uint64
	)
	periods := func(ticks int, bytes uint64) (n int) {
		for range ticks {
			allocated += bytes
			if idle.becameIdle(allocated) {
				n++
			}
		}
		return n
	}
	for _, step := range []struct {
		what  string
		ticks int
		bytes uint64
		want  int
	}{
		{"work", 100, idleBytes, 0},
		{"idle for less than the period", idleTicks - 1, idleBytes - 1, 0},
		{"a burst", 1, 10 * idleBytes, 0},
		{"idle", idleTicks, 0, 1},
		{"idle for longer", 1000, idleBytes - 1, 0},
		{"work again", 1, idleBytes, 0},
		{"idle again", idleTicks, 1000, 1},
	} {
		if got := periods(step.ticks, step.bytes); got != step.want {
			t.Errorf("%s: %d periods started, want %d", step.what, got, step.want)
		}
	}
}
