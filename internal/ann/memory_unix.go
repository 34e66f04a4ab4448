//go:build (linux || darwin || freebsd) && !race

package ann

import (
	"runtime"
	"syscall"
)

// newRegion returns zeroed memory outside of the heap of Go that is released when the garbage collector
// finds that nothing refers to b, or nil if the system has none. Whoever uses the memory must hold
// a reference to b, as all methods of an index do by its locks.
func newRegion(b *block, n int) []byte {
	m, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil
	}
	runtime.AddCleanup(b, func(m []byte) { _ = syscall.Munmap(m) }, m)
	return m
}
