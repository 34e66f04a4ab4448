//go:build !linux

package cli

import "os"

// HideSecrets returns the arguments of the process. It hides secrets on Linux only.
func HideSecrets() []string { return os.Args }
