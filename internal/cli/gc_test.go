package cli

import "testing"

func TestSmallHeapsAreCollectedLessOften(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kind        string
		limit, live int64
		want        int
	}{
		{kindSQLite, 4 << 30, 0, 400},
		{kindSQLite, 4 << 30, 1 << 20, 400},
		{kindSQLite, 4 << 30, 16 << 20, 400},
		{kindSQLite, 4 << 30, 25 << 20, 250},
		{kindSQLite, 4 << 30, 64 << 20, 100},
		{kindPostgres, 4 << 30, 1 << 30, 100},
		{kindMemory, 4 << 30, 1 << 20, 400},
		{kindMemory, 4 << 30, 128 << 20, 400},
		{kindMemory, 4 << 30, 256 << 20, 200},
		{kindMemory, 4 << 30, 512 << 20, 100},
		{kindMemory, 256 << 20, 64 << 20, 100},
	} {
		if got := gcPercent(uint64(test.live), gcHeadroomOf(test.kind, test.limit)); got != test.want {
			t.Errorf("gcPercent() of %d live bytes, %s, limit %d = %d, want %d", test.live, test.kind, test.limit, got, test.want)
		}
	}
}
