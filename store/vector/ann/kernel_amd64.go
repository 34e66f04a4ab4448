package ann

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// The kernels in assembly process a multiple of 64 bytes or 32 floats; n is rounded down.

//go:noescape
func dotInt8VNNI(a, b *int8, n int) int32

//go:noescape
func dotInt8AVX2(a, b *int8, n int) int32

//go:noescape
func dotFloatAVX2(a, b *float32, n int) float32

//go:noescape
func squaredDistanceAVX2(a, b *float32, n int) float32

// prefetch loads the first bytes at p into the cache.
//
//go:noescape
func prefetch(p unsafe.Pointer)

var (
	hasAVX2 = cpu.X86.HasAVX2 && cpu.X86.HasFMA
	hasVNNI = hasAVX2 && cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512VNNI
)

// dotInt8 returns the inner product of codes of the same length. No code is -128.
func dotInt8(a, b []int8) int32 {
	n := len(a) &^ 63
	if n == 0 || !hasAVX2 {
		return dotInt8Go(a, b)
	}
	var sum int32
	if hasVNNI {
		sum = dotInt8VNNI(&a[0], &b[0], n)
	} else {
		sum = dotInt8AVX2(&a[0], &b[0], n)
	}
	if n == len(a) {
		return sum
	}
	return sum + dotInt8Go(a[n:], b[n:])
}

// dotFloat returns the inner product of vectors of the same length.
func dotFloat(a, b []float32) float32 {
	n := len(a) &^ 31
	if n == 0 || !hasAVX2 {
		return dotFloatGo(a, b)
	}
	return dotFloatAVX2(&a[0], &b[0], n) + dotFloatGo(a[n:], b[n:])
}

// squaredDistance returns the square of the Euclidean distance of vectors of the same length.
func squaredDistance(a, b []float32) float32 {
	n := len(a) &^ 31
	if n == 0 || !hasAVX2 {
		return squaredDistanceGo(a, b)
	}
	return squaredDistanceAVX2(&a[0], &b[0], n) + squaredDistanceGo(a[n:], b[n:])
}
