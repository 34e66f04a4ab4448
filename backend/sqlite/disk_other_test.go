//go:build !linux

package sqlite

// platformChildren is empty: mounting file systems without being root needs Linux.
var platformChildren map[string]func(dir string) error
