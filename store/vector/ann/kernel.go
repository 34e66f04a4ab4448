package ann

// The kernels in Go are the reference for the kernels in assembly.

func dotInt8Go(a, b []int8) (sum int32) {
	b = b[:len(a)]
	for i, v := range a {
		sum += int32(v) * int32(b[i])
	}
	return sum
}

func dotFloatGo(a, b []float32) float32 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float32
	for len(a) >= 4 {
		s0 += a[0] * b[0]
		s1 += a[1] * b[1]
		s2 += a[2] * b[2]
		s3 += a[3] * b[3]
		a, b = a[4:], b[4:]
	}
	for i, v := range a {
		s0 += v * b[i]
	}
	return s0 + s1 + s2 + s3
}

func squaredDistanceGo(a, b []float32) float32 {
	b = b[:len(a)]
	var s0, s1 float32
	for len(a) >= 2 {
		d0, d1 := a[0]-b[0], a[1]-b[1]
		s0 += d0 * d0
		s1 += d1 * d1
		a, b = a[2:], b[2:]
	}
	for i, v := range a {
		d := v - b[i]
		s0 += d * d
	}
	return s0 + s1
}
