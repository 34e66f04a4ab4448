//go:build !linux

package sqlite

// platformChildren are those that fill a disk of their own: it takes Linux to
// mount one without being root.
var platformChildren map[string]func(dir string) error
