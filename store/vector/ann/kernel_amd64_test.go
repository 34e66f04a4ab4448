package ann

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/testseed"
)

// checkKernels compares every kernel that the CPU supports with that in Go, on vectors that
// start at any alignment.
func checkKernels(t *testing.T, seed uint64, n, shift int) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	a, b := make([]int8, n+shift), make([]int8, n+2*shift)
	x, y := make([]float32, n+shift), make([]float32, n+2*shift)
	extreme := seed%3 == 0
	for i := range a {
		a[i], b[i] = int8(r.IntN(255)-127), int8(r.IntN(255)-127)
		if extreme {
			a[i], b[i] = int8(127-254*r.IntN(2)), int8(127-254*r.IntN(2))
		}
		x[i], y[i] = float32(r.NormFloat64()), float32(r.NormFloat64())
	}
	a, b, x, y = a[shift:], b[shift:][:n], x[shift:], y[shift:][:n]
	whole := n &^ 63
	want := dotInt8Go(a[:whole], b[:whole])
	if whole > 0 && hasAVX2 {
		if got := dotInt8AVX2(&a[0], &b[0], n); got != want {
			t.Errorf("seed %d: dotInt8AVX2 of %d = %d, want %d", seed, n, got, want)
		}
	}
	if whole > 0 && hasVNNI {
		if got := dotInt8VNNI(&a[0], &b[0], n); got != want {
			t.Errorf("seed %d: dotInt8VNNI of %d = %d, want %d", seed, n, got, want)
		}
	}
	if got, want := dotInt8(a, b), dotInt8Go(a, b); got != want {
		t.Errorf("seed %d: dotInt8 of %d = %d, want %d", seed, n, got, want)
	}
	tolerance := 1e-5 * float64(n+1)
	if got, want := dotFloat(x, y), dotFloatGo(x, y); math.Abs(float64(got-want)) > tolerance {
		t.Errorf("seed %d: dotFloat of %d = %g, want %g", seed, n, got, want)
	}
	if got, want := squaredDistance(x, y), squaredDistanceGo(x, y); math.Abs(float64(got-want)) > 4*tolerance {
		t.Errorf("seed %d: squaredDistance of %d = %g, want %g", seed, n, got, want)
	}
}

func TestKernelsAgreeWithGo(t *testing.T) {
	t.Parallel()
	if !hasAVX2 {
		t.Log("this CPU has no AVX2: only the kernels in Go run")
	}
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 0))
	for n := range 300 {
		checkKernels(t, seed+uint64(n), n, n%7)
	}
	for range 300 {
		checkKernels(t, r.Uint64(), r.IntN(4200), r.IntN(64))
	}
}

func FuzzKernels(f *testing.F) {
	f.Add(uint64(1), 384, 0)
	f.Add(uint64(3), 129, 3)
	f.Fuzz(func(t *testing.T, seed uint64, n, shift int) {
		checkKernels(t, seed, int(uint(n)%5000), int(uint(shift)%128))
	})
}

func BenchmarkKernels(b *testing.B) {
	a, c := make([]int8, 384), make([]int8, 384)
	x, y := make([]float32, 384), make([]float32, 384)
	for name, f := range map[string]func(){
		"int8 Go":   func() { dotInt8Go(a, c) },
		"int8 AVX2": func() { dotInt8AVX2(&a[0], &c[0], 384) },
		"int8":      func() { dotInt8(a, c) },
		"float Go":  func() { dotFloatGo(x, y) },
		"float":     func() { dotFloat(x, y) },
		"distance":  func() { squaredDistance(x, y) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f()
			}
		})
	}
}
