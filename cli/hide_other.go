//go:build !linux

package cli

import "os"

// hideSecrets returns the arguments of the process. It hides secrets on Linux only.
func hideSecrets() []string { return os.Args }
