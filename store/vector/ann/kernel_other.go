//go:build !amd64

package ann

import "unsafe"

func dotInt8(a, b []int8) int32 { return dotInt8Go(a, b) }

func dotFloat(a, b []float32) float32 { return dotFloatGo(a, b) }

func squaredDistance(a, b []float32) float32 { return squaredDistanceGo(a, b) }

func prefetch(unsafe.Pointer) {}
