package loadgen

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestHistogramAgreesWithSortedValues(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for name, draw := range map[string]func() time.Duration{
		"small":       func() time.Duration { return time.Duration(rng.IntN(300)) },
		"uniform":     func() time.Duration { return time.Duration(rng.Int64N(int64(time.Second))) },
		"exponential": func() time.Duration { return time.Duration(rng.ExpFloat64() * float64(time.Millisecond)) },
		"wide":        func() time.Duration { return time.Duration(math.Exp2(rng.Float64() * 41)) },
		"one value":   func() time.Duration { return 12345678 },
	} {
		for _, n := range []int{1, 2, 99, 100, 101, 20_000} {
			var whole, half histogram
			values := make([]time.Duration, n)
			for i := range values {
				values[i] = draw()
				if i%2 == 0 {
					whole.record(values[i])
				} else {
					half.record(values[i])
				}
			}
			whole.add(&half)
			slices.Sort(values)
			if whole.n != uint64(n) || whole.max != values[n-1] {
				t.Errorf("%s: n, max = %d, %d, want %d, %d", name, whole.n, whole.max, n, values[n-1])
			}
			for _, q := range []float64{0, .01, .5, .9, .95, .99, .999, 1} {
				want := values[max(int(math.Ceil(q*float64(n))), 1)-1]
				got := whole.quantile(q)
				if diff := math.Abs(float64(got - want)); diff > .004*float64(want) {
					t.Errorf("%s: quantile(%v) of %d = %d, want %d within 0.4%%", name, q, n, got, want)
				}
			}
		}
	}
}

func TestHistogramTakesAnyDuration(t *testing.T) {
	t.Parallel()
	var h histogram
	if got := h.quantile(.5); got != 0 {
		t.Errorf("quantile of nothing = %v, want 0", got)
	}
	h.record(-5)
	h.record(math.MaxInt64)
	if h.quantile(0) != 0 || h.n != 2 || h.max != math.MaxInt64 {
		t.Errorf("quantile(0), n, max = %v, %d, %v", h.quantile(0), h.n, h.max)
	}
}
