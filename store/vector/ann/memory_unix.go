//go:build (linux || darwin || freebsd) && !race

package ann

import (
	"runtime"
	"syscall"
)

// mapMemory returns zeroed memory outside of the heap of Go that is released when the garbage collector
// finds that nothing refers to r, or nil if the system has none.
func mapMemory(r *region, n int) []byte {
	m, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil
	}
	runtime.AddCleanup(r, func(m []byte) { _ = syscall.Munmap(m) }, m)
	return m
}
